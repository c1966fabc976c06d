"""Calls of single operators of PyTorch, by families, as models that are compared as such are.

Each case has tensors of its own, those of floats as parameters: so its gradient is compared, too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch_zoo import MODELS, Made, functional, nn, torch

Case = tuple[Callable[..., Any], list[Any]]


class Cases(nn.Module):  # type: ignore[misc]  # torch has no types here
    """The results of all cases of a family, by their names."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        super().__init__()
        self.cases = {name: case[0] for name, case in cases.items()}
        self.counts = {name: len(case[1]) for name, case in cases.items()}
        for name, (_, tensors) in cases.items():
            for place, tensor in enumerate(tensors):
                if tensor.is_floating_point():
                    self.register_parameter(f"{name}_{place}", nn.Parameter(tensor))
                else:
                    self.register_buffer(f"{name}_{place}", tensor)

    def forward(self, x: Any) -> Any:
        found = {}
        for name, function in self.cases.items():
            tensors = [getattr(self, f"{name}_{place}") for place in range(self.counts[name])]
            result = function(*tensors)
            # A file has no place for the types that PyTorch gives the results of `max` and others.
            found[name] = tuple(result) if isinstance(result, tuple) else result
        return found, x * 2


def words(text: str) -> list[str]:
    return text.split()


def t(*shape: int) -> Any:
    return torch.randn(*shape)


def positive(*shape: int) -> Any:
    return torch.rand(*shape) + 0.5


def inside(*shape: int) -> Any:
    return torch.rand(*shape) * 1.6 - 0.8


def whole(high: int, *shape: int, low: int = 0) -> Any:
    return torch.randint(low, high, shape)


def truth(*shape: int) -> Any:
    return torch.rand(*shape) > 0.5


def bounds() -> Any:
    """Numbers with those among them at which pieces of activations meet."""
    return torch.tensor([-6.0, -3.0, -1.0, -0.5, -0.2, 0.3, 0.5, 1.0, 3.0, 6.0, 7.0, -7.0])


def family(maker: Callable[[], dict[str, Case]]) -> None:
    def made() -> Made:
        return Cases(maker()), (torch.randn(2),)

    MODELS[f"operators {maker.__name__}"] = made


@family
def unary() -> dict[str, Case]:
    of_any = words(
        "abs ceil floor neg round sign square trunc exp exp2 expm1 sin cos tan atan sinh cosh tanh "
        "asinh sigmoid erf erfc relu frac sgn sinc isnan isinf isfinite logical_not positive"
    )
    cases: dict[str, Case] = {name: (getattr(torch, name), [t(3, 4)]) for name in of_any}
    for name in words("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma"):
        cases[name] = (getattr(torch, name), [positive(3, 4)])
    for name in words("asin acos atanh erfinv"):
        cases[name] = (getattr(torch, name), [inside(3, 4)])
    cases["acosh"] = (torch.acosh, [positive(3, 4) + 1])
    for name in ("exp", "sqrt", "sigmoid", "sin", "reciprocal", "isnan"):
        cases[f"{name}_of_ints"] = (getattr(torch, name), [whole(5, 3, low=1)])
    cases["nan_to_num"] = (
        lambda x: torch.nan_to_num(x / torch.zeros(3)),
        [torch.tensor([1.0, -1.0, 0.5])],
    )
    cases["nan_to_num2"] = (lambda x: torch.nan_to_num(x, 1.0, 2.0, -2.0), [t(3)])
    cases["bitwise_not"] = (torch.bitwise_not, [whole(9, 4)])
    cases["bool_not"] = (torch.bitwise_not, [truth(4)])
    cases["round_decimals"] = (lambda x: torch.round(x, decimals=1), [t(5)])
    cases["logit"] = (lambda x: torch.logit(x, 0.1), [torch.rand(5)])
    cases["clone"] = (lambda x: x.clone(), [t(3)])
    cases["detach"] = (lambda x: x.detach() * x, [t(3)])
    return cases


@family
def activations() -> dict[str, Case]:
    f = functional
    functions: dict[str, Callable[..., Any]] = {
        name: getattr(f, name)
        for name in words(
            "silu gelu mish selu elu celu leaky_relu softplus logsigmoid hardtanh relu6 "
            "hardswish hardshrink softshrink tanhshrink softsign"
        )
    }
    functions |= {
        "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"),
        "elu2": lambda x: f.elu(x, 0.7),
        "leaky2": lambda x: f.leaky_relu(x, 0.3),
        "softplus2": lambda x: f.softplus(x, 2.0, 4.0),
        "hardtanh2": lambda x: f.hardtanh(x, -0.5, 0.3),
        "threshold": lambda x: f.threshold(x, 0.5, -2.0),
        "clamp": lambda x: x.clamp(-0.5, 1.0),
        "clamp_min": lambda x: x.clamp(min=0.5),
        "clamp_max": lambda x: x.clamp(max=0.5),
        "softmax": lambda x: x.softmax(0),
        "log_softmax": lambda x: x.log_softmax(-1),
        "softmin": lambda x: f.softmin(x, 0),
        "inplace": lambda x: f.relu_(x + 1),
        "inplace2": lambda x: (x * 2).mul_(3).add_(1).clamp_(0, 5),
    }
    cases: dict[str, Case] = {name: (one, [bounds()]) for name, one in functions.items()}
    cases["glu"] = (lambda x: f.glu(x, 1), [t(3, 6)])
    cases["prelu"] = (f.prelu, [t(2, 3, 4), t(3)])
    cases["prelu1"] = (f.prelu, [t(2, 3, 4), t(1)])
    return cases


@family
def rough() -> dict[str, Case]:
    """Activations whose factors torch has in float32 for whatever it computes."""
    return {
        "celu": (lambda x: functional.celu(x, 1.7), [bounds()]),
        "hardsigmoid": (functional.hardsigmoid, [bounds()]),
    }


@family
def binary() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name in words("add sub mul div maximum minimum atan2 eq ne lt le gt ge logaddexp"):
        cases[name] = (getattr(torch, name), [t(3, 4), t(4)])
    for name in words("remainder fmod floor_divide"):
        function = getattr(torch, name)
        cases[name] = (
            lambda x, y, f=function: f(x.detach(), y.detach()),
            [t(3, 4) * 5, positive(4)],
        )
        cases[f"{name}_ints"] = (getattr(torch, name), [whole(9, 6, low=-9), whole(5, 6, low=1)])
        cases[f"{name}_number"] = (lambda x, f=function: f(x.detach(), -2), [t(3, 4) * 5])
    cases["fmod_slope"] = (lambda x: torch.fmod(x, 2) + torch.remainder(x, 1.5), [t(3, 4) * 5])
    cases |= {
        "add_alpha": (lambda x, y: torch.add(x, y, alpha=0.5), [t(3), t(3)]),
        "sub_alpha": (lambda x, y: torch.sub(x, y, alpha=2), [t(3), t(3)]),
        "rsub": (lambda x: 2 - x, [t(3)]),
        "rsub_int": (lambda x: 2 - x, [whole(5, 3)]),
        "div_ints": (torch.div, [whole(9, 4), whole(5, 4, low=1)]),
        "div_floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), [t(5) * 4, positive(5)]),
        "div_trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), [t(5) * 4, positive(5)]),
        "div_floor_ints": (
            lambda x, y: torch.div(x, y, rounding_mode="floor"),
            [whole(9, 6, low=-9), whole(5, 6, low=1)],
        ),
        "div_trunc_ints": (
            lambda x, y: torch.div(x, y, rounding_mode="trunc"),
            [whole(9, 6, low=-9), whole(5, 6, low=1)],
        ),
        "int_and_float": (lambda x: x * 1.5 + 1, [whole(5, 3)]),
        "int_and_scalar_tensor": (lambda x, y: x * y, [whole(5, 3), torch.tensor(1.5)]),
        "bool_and_int": (lambda x: x + 1, [truth(4)]),
        "bool_and_float": (lambda x: x * 0.5, [truth(4)]),
        "bool_mul": (lambda x, y: x * y, [truth(4), truth(4)]),
        "int_widths": (
            lambda x, y: x.to(torch.int32) + y.to(torch.uint8),
            [whole(5, 3), whole(5, 3)],
        ),
        "uint8_int8": (
            lambda x, y: x.to(torch.int8) + y.to(torch.uint8),
            [whole(5, 3), whole(5, 3)],
        ),
        "half": (lambda x: (x.half() + x.bfloat16()).float(), [whole(5, 3)]),
        "pow": (torch.pow, [positive(3), t(3)]),
        "pow2": (lambda x: x**2, [t(3)]),
        "pow3": (lambda x: x**3, [t(3)]),
        "pow_half": (lambda x: x**0.5, [positive(3)]),
        "pow_neg": (lambda x: x**-1.5, [positive(3)]),
        "pow0": (lambda x: x**0, [t(3)]),
        "pow_m1": (lambda x: x**-1, [positive(3)]),
        "pow_ints": (lambda x: x**3, [whole(5, 3)]),
        "pow_scalar": (lambda x: 2.0**x, [t(3)]),
        "where": (torch.where, [truth(3, 4), t(3, 4), t(4)]),
        "where_scalar": (lambda c, x: torch.where(c, x, 0.5), [truth(3), t(3)]),
        "where_scalar2": (lambda c, x: torch.where(c, 1, x), [truth(3), t(3)]),
        "masked_fill": (lambda x, m: x.masked_fill(m, -1e9), [t(3, 4), truth(4)]),
        "clamp_tensor": (torch.clamp, [t(4), t(4) - 1, t(4) + 1]),
        "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.3), [t(3), t(3), t(3)]),
        "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=0.3), [t(3), t(3), positive(3)]),
        "lerp": (lambda x, y: torch.lerp(x, y, 0.3), [t(3), t(3)]),
        "xlogy": (torch.xlogy, [torch.tensor([0.0, 1.0, 2.0]), positive(3)]),
        "and": (lambda x, y: (x & y) | (x ^ y), [truth(5), truth(5)]),
        "and_ints": (lambda x, y: (x & y) | (x ^ y), [whole(9, 5), whole(9, 5)]),
        "logical": (lambda x, y: torch.logical_and(x, y), [whole(2, 5), truth(5)]),
        "shifts": (lambda x: (x << 2) + (x >> 1), [whole(9, 5)]),
        "max_other": (torch.max, [t(4), t(4)]),
        "equal_ties": (torch.maximum, [torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])]),
    }
    return cases


@family
def reductions() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name in words("sum mean amax amin logsumexp std var prod argmax argmin"):
        function = getattr(torch, name)
        cases[f"{name}_dim"] = (lambda x, f=function: f(x, 1), [t(3, 4)])
        cases[f"{name}_keep"] = (lambda x, f=function: f(x, dim=-1, keepdim=True), [t(3, 4)])
    for name in words("sum mean amax amin std var prod argmax argmin max min any all"):
        cases[f"{name}_all"] = (getattr(torch, name), [t(3, 4)])
    cases |= {
        "sum_ints": (torch.sum, [whole(5, 3)]),
        "sum_bools": (lambda x: x.sum(0), [truth(3, 2)]),
        "sum_dims": (lambda x: x.sum((0, 2)), [t(2, 3, 4)]),
        "sum_dtype": (lambda x: x.sum(dtype=torch.float32), [whole(5, 3)]),
        "sum_scalar": (torch.sum, [t(1).squeeze()]),
        "max_dim": (lambda x: torch.max(x, 1), [t(3, 4)]),
        "min_dim": (lambda x: torch.min(x, 0, keepdim=True), [t(3, 4)]),
        "max_ties": (lambda x: torch.max(x, 0)[0], [torch.tensor([1.0, 2.0, 2.0])]),
        "amax_ties": (lambda x: torch.amax(x, 0), [torch.tensor([1.0, 2.0, 2.0])]),
        "var0": (lambda x: torch.var(x, 0, correction=0), [t(3, 4)]),
        "var_biased": (lambda x: torch.var(x, 0, unbiased=False), [t(3, 4)]),
        "std2": (lambda x: torch.std(x, 0, correction=2), [t(4, 4)]),
        "var_mean": (lambda x: torch.var_mean(x, 1), [t(3, 4)]),
        "norm": (lambda x: torch.linalg.vector_norm(x), [t(3, 4)]),
        "norm_zero": (lambda x: torch.linalg.vector_norm(x, dim=1), [torch.zeros(2, 3)]),
        "norm1": (lambda x: torch.linalg.vector_norm(x, 1, 0), [t(3, 4)]),
        "norm3": (lambda x: torch.linalg.vector_norm(x, 3, 0, True), [t(3, 4)]),
        "norm_inf": (lambda x: torch.linalg.vector_norm(x, float("inf"), 0), [t(3, 4)]),
        "norm_method": (lambda x: x.norm(dim=1), [t(3, 4)]),
        "normalize": (lambda x: functional.normalize(x, dim=1), [t(3, 4)]),
        "cosine": (functional.cosine_similarity, [t(3, 4), t(3, 4)]),
        "cdist_free": (lambda x: (x[:, None] - x[None]).norm(dim=-1).sum(), [t(3, 4)]),
        "cumsum": (lambda x: x.cumsum(1), [t(3, 4)]),
        "cumsum_ints": (lambda x: x.cumsum(-1), [truth(3, 4)]),
        "cumprod": (lambda x: x.cumprod(0), [t(3, 4)]),
        "topk": (lambda x: torch.topk(x, 2, 1), [t(3, 4)]),
        "topk_smallest": (lambda x: torch.topk(x, 2, 0, largest=False), [t(3, 4)]),
        "sort": (lambda x: torch.sort(x, 1), [t(3, 4)]),
        "sort_down": (lambda x: torch.sort(x, 0, descending=True), [t(3, 4)]),
        "argsort": (lambda x: torch.argsort(x, 1), [t(3, 4)]),
        "any_dim": (lambda x: x.any(1), [truth(3, 4)]),
        "all_dim": (lambda x: x.all(1), [truth(3, 2)]),
        "count": (lambda x: torch.count_nonzero(x, 1), [whole(2, 3, 4)]),
        "trace": (torch.trace, [t(3, 4)]),
        "dot": (torch.dot, [t(3), t(3)]),
    }
    return cases


@family
def shapes() -> dict[str, Case]:
    functions: dict[str, Callable[..., Any]] = {
        "view": lambda x: x.view(4, -1),
        "reshape": lambda x: x.transpose(0, 1).reshape(-1, 2),
        "flatten": lambda x: x.flatten(1),
        "flatten0": lambda x: x.flatten(0, 1),
        "unflatten": lambda x: x.unflatten(2, (2, -1)),
        "squeeze": lambda x: x[:, :1].squeeze(1),
        "squeeze_all": lambda x: x[:1, :1].squeeze(),
        "squeeze_none": lambda x: x.squeeze(0),
        "unsqueeze": lambda x: x.unsqueeze(-1),
        "transpose": lambda x: x.transpose(-1, 0),
        "permute": lambda x: x.permute(2, 0, -2),
        "movedim": lambda x: x.movedim(0, -1),
        "movedims": lambda x: x.movedim((0, 1), (2, 0)),
        "expand": lambda x: x[:, :1].expand(-1, 5, 4),
        "expand_new": lambda x: x.expand(2, *x.shape),
        "expand_as": lambda x: x[:1].expand_as(x),
        "repeat": lambda x: x.repeat(2, 1, 3),
        "repeat_new": lambda x: x.repeat(2, 1, 1, 2),
        "tile": lambda x: x.tile(2),
        "interleave": lambda x: x.repeat_interleave(2, 1),
        "interleave_all": lambda x: x.repeat_interleave(3),
        "cat": lambda x: torch.cat([x, x[:, :1]], 1),
        "stack": lambda x: torch.stack([x, x * 2], -1),
        "split": lambda x: x.split(2, 1),
        "split_sizes": lambda x: x.split([1, 2], 1),
        "chunk": lambda x: x.chunk(2, 1),
        "chunk_one": lambda x: x.chunk(1, 1),
        "unbind": lambda x: x.unbind(1),
        "slice": lambda x: x[:, 1:, ::2],
        "slice_behind": lambda x: x[..., -2:],
        "slice_far": lambda x: x[:, :100],
        "slice_none": lambda x: x[:, 2:1],
        "select": lambda x: x[0, -1],
        "narrow": lambda x: x.narrow(2, 1, 2),
        "new_axis": lambda x: x[:, None, ..., None],
        "flip": lambda x: x.flip((0, -1)),
        "roll": lambda x: x.roll((1, -1), (0, 2)),
        "roll_flat": lambda x: x.roll(3),
        "tril": lambda x: x.tril(-1),
        "triu": lambda x: x.triu(1),
        "unfold": lambda x: x.unfold(2, 2, 1),
        "pad": lambda x: functional.pad(x, (1, 2, 0, 1), value=0.5),
        "pad_cut": lambda x: functional.pad(x, (-1, 1)),
        "pad_reflect": lambda x: functional.pad(x, (1, 2), "reflect"),
        "pad_replicate": lambda x: functional.pad(x, (1, 2), "replicate"),
        "t": lambda x: x[0].t(),
        "mT": lambda x: x.mT,
        "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
        "meshgrid_xy": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="xy"),
        "broadcast": lambda x: torch.broadcast_tensors(x, x[:1, :, :1]),
        "type": lambda x: x.to(torch.float16).to(torch.float32),
        "to_int": lambda x: (x * 3).long(),
        "to_bool": lambda x: x.bool(),
        "write_select": _write(lambda x: x[:, 0].fill_(0.5)),
        "write_slice": _write(lambda x: x[:, 1:].mul_(2)),
        "write_step": _write(lambda x: x[..., ::2].add_(1)),
        "write_view": _write(lambda x: x.view(-1)[3:5].zero_()),
        "write_transposed": _write(lambda x: x.transpose(0, 2)[1].copy_(x[0, 0, 0])),
        "write_chunk": lambda x: _write(lambda y: y.chunk(2, 2)[1].mul_(3))(x.detach()),
        "write_base": _write_base,
        "write_reshaped": _write(lambda x: x.reshape(-1, 4)[0].neg_()),
        "write_copied": _write(lambda x: x.transpose(0, 2).reshape(-1)[0].neg_()),
        "write_masked": _write(lambda x: x.masked_fill_(x > 0, 2.0)),
        "write_item": _write(lambda x: x.__setitem__((slice(None), 1), x[:, 0] * 2)),
        "write_unbind": lambda x: _write(lambda y: y.unbind(1)[2].mul_(4))(x.detach()),
    }
    return {name: (one, [t(2, 3, 4)]) for name, one in functions.items()}


def _write(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        y = x * 1.5
        write(y)
        return y * x

    return function


def _write_base(x: Any) -> Any:
    y = x * 1.5
    part = y[:, 1]
    y.mul_(2)
    return part + 1


@family
def indexing() -> dict[str, Case]:
    return {
        "embedding": (functional.embedding, [whole(5, 2, 3), t(5, 4)]),
        "embedding_pad": (
            lambda i, w: functional.embedding(i, w, padding_idx=1),
            [whole(3, 2, 6), t(3, 4)],
        ),
        "index_select": (lambda x, i: x.index_select(1, i), [t(3, 4), whole(4, 5)]),
        "index": (lambda x, i: x[i], [t(5, 4), whole(5, 2, 3, low=-5)]),
        "index_axis": (lambda x, i: x[:, i], [t(3, 4), whole(4, 2)]),
        "index_two": (lambda x, i, j: x[i, j], [t(3, 4, 2), whole(3, 5), whole(4, 5)]),
        "index_broadcast": (
            lambda x, i, j: x[i[:, None], j],
            [t(3, 4, 2), whole(3, 5), whole(4, 2)],
        ),
        "index_inner": (lambda x, i, j: x[:, i, j], [t(2, 3, 4), whole(3, 5), whole(4, 5)]),
        "index_apart": (lambda x, i, j: x[i, :, j], [t(2, 3, 4), whole(2, 5), whole(4, 5)]),
        "gather": (lambda x, i: x.gather(1, i), [t(3, 4), whole(4, 3, 2)]),
        "gather_short": (lambda x, i: x.gather(1, i), [t(3, 4), whole(4, 2, 5)]),
        "take_along": (lambda x, i: torch.take_along_dim(x, i, 1), [t(3, 4), whole(4, 1, 2)]),
        "scatter": (
            lambda x, i, s: x.scatter(1, i, s),
            [t(3, 4), torch.tensor([[0, 2], [1, 3]]), t(2, 2)],
        ),
        "scatter_value": (lambda x, i: x.scatter(1, i, 0.5), [t(3, 4), whole(4, 3, 2)]),
        "scatter_add": (lambda x, i, s: x.scatter_add(1, i, s), [t(3, 4), whole(4, 3, 5), t(3, 5)]),
        "scatter_max": (
            lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
            [t(5), whole(5, 7), t(7)],
        ),
        "index_add": (lambda x, i, s: x.index_add(0, i, s), [t(3, 4), whole(3, 6), t(6, 4)]),
        "index_add_alpha": (
            lambda x, i, s: x.index_add(1, i, s, alpha=0.5),
            [t(3, 4), whole(4, 6), t(3, 6)],
        ),
        "index_copy": (
            lambda x, i, s: x.index_copy(0, i, s),
            [t(4, 2), torch.tensor([2, 0]), t(2, 2)],
        ),
        "index_fill": (lambda x, i: x.index_fill(1, i, 0.5), [t(3, 4), torch.tensor([2, 0])]),
        "index_put": (
            lambda x, i, v: torch.index_put(x, (i,), v),
            [t(4, 3), torch.tensor([2, 0]), t(2, 3)],
        ),
        "index_put_add": (
            lambda x, i, j, v: torch.index_put(x, (i, j), v, accumulate=True),
            [t(4, 3), whole(4, 6), whole(3, 6), t(6)],
        ),
        "index_put_mask": (
            lambda x, m: torch.index_put(x, (m,), torch.tensor(2.0)),
            [t(4), truth(4)],
        ),
        "set_items": (_set_items, [t(4, 3), torch.tensor([2, 0])]),
        "one_hot": (lambda i: functional.one_hot(i, 5), [whole(5, 3)]),
        "slice_scatter": (lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), [t(3, 4), t(3, 2)]),
        "select_scatter": (lambda x, y: torch.select_scatter(x, y, 1, 1), [t(3, 4), t(3)]),
        "bucketize": (torch.bucketize, [t(5), torch.tensor([-1.0, 0.0, 1.0])]),
        "full_like": (lambda x: torch.full_like(x, 2.0) * x, [t(3)]),
        "zeros_like": (lambda x: torch.zeros_like(x, dtype=torch.long), [t(3)]),
        "new": (lambda x: x.new_full((2,), 3.0) + x.new_ones(2) + x.new_zeros(2), [t(3)]),
        "arange": (lambda x: torch.arange(3) * x, [t(3)]),
        "arange_step": (lambda x: torch.arange(1, 9, 3) * x, [t(3)]),
        "arange_float": (lambda x: torch.arange(0, 1, 0.4) * x, [t(3)]),
        "linspace": (lambda x: torch.linspace(-1, 1, 3) * x, [t(3)]),
        "eye": (lambda x: torch.eye(3) * x, [t(3)]),
        "einsum": (
            lambda x, y: torch.einsum("bij,bjk->bk i".replace(" ", ""), x, y),
            [t(2, 3, 4), t(2, 4, 5)],
        ),
        "grid": (lambda x: torch.ones(3, 3).tril() * x, [t(3)]),
    }


def _set_items(x: Any, index: Any) -> Any:
    y = x * 2
    y[index] = 0.5
    return y * x


@family
def layers() -> dict[str, Case]:
    f = functional
    image, volume, signal = (2, 4, 7, 8), (2, 4, 5, 6, 7), (2, 4, 9)
    return {
        "linear": (f.linear, [t(2, 3, 4), t(5, 4), t(5)]),
        "linear_vector": (f.linear, [t(4), t(5, 4)]),
        "matmul": (torch.matmul, [t(2, 3, 4), t(4, 5)]),
        "matmul_vector": (torch.matmul, [t(3, 4), t(4)]),
        "bmm": (torch.bmm, [t(2, 3, 4), t(2, 4, 5)]),
        "mm": (torch.mm, [t(3, 4), t(4, 5)]),
        "mv": (torch.mv, [t(3, 4), t(4)]),
        "outer": (torch.outer, [t(3), t(4)]),
        "addmm": (
            lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2),
            [t(5), t(3, 4), t(4, 5)],
        ),
        "baddbmm": (torch.baddbmm, [t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)]),
        "bilinear": (f.bilinear, [t(2, 3), t(2, 4), t(5, 3, 4), t(5)]),
        "conv1d": (lambda *a: f.conv1d(*a, stride=2, padding=1), [t(*signal), t(3, 4, 3), t(3)]),
        "conv2d": (lambda *a: f.conv2d(*a, 2, 1, 2), [t(*image), t(6, 4, 3, 3), t(6)]),
        "conv2d_groups": (lambda *a: f.conv2d(*a, groups=2), [t(*image), t(6, 2, 3, 2)]),
        "conv2d_same": (lambda *a: f.conv2d(*a, padding="same"), [t(*image), t(3, 4, 4, 3)]),
        "conv2d_valid": (lambda *a: f.conv2d(*a, padding="valid"), [t(*image), t(3, 4, 2, 3)]),
        "conv2d_one": (f.conv2d, [t(4, 7, 8), t(3, 4, 3, 3), t(3)]),
        "conv3d": (lambda *a: f.conv3d(*a, padding=(1, 0, 1)), [t(*volume), t(3, 4, 3, 2, 3)]),
        "deconv1d": (lambda *a: f.conv_transpose1d(*a, stride=2), [t(*signal), t(4, 3, 3), t(3)]),
        "deconv2d": (
            lambda *a: f.conv_transpose2d(*a, stride=2, padding=1, output_padding=1),
            [t(*image), t(4, 3, 3, 3), t(3)],
        ),
        "deconv2d_groups": (
            lambda *a: f.conv_transpose2d(*a, groups=2, dilation=2),
            [t(*image), t(4, 3, 3, 3), t(6)],
        ),
        "max_pool1d": (lambda x: f.max_pool1d(x, 3, 2, 1), [t(*signal)]),
        "max_pool2d": (lambda x: f.max_pool2d(x, 3, 2, 1), [t(*image)]),
        "max_pool2d_ceil": (lambda x: f.max_pool2d(x, 3, 2, ceil_mode=True), [t(*image)]),
        "max_pool2d_dilated": (lambda x: f.max_pool2d(x, 2, 1, dilation=2), [t(*image)]),
        "max_pool3d": (lambda x: f.max_pool3d(x, 2), [t(*volume)]),
        "avg_pool1d": (lambda x: f.avg_pool1d(x, 3, 2, 1), [t(*signal)]),
        "avg_pool2d": (lambda x: f.avg_pool2d(x, 3, 2, 1), [t(*image)]),
        "avg_pool2d_ceil": (lambda x: f.avg_pool2d(x, 3, 2, 1, ceil_mode=True), [t(*image)]),
        "avg_pool2d_plain": (
            lambda x: f.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            [t(*image)],
        ),
        "avg_pool3d": (lambda x: f.avg_pool3d(x, 2), [t(*volume)]),
        "adaptive1": (lambda x: f.adaptive_avg_pool2d(x, 1), [t(*image)]),
        "adaptive2": (lambda x: f.adaptive_avg_pool2d(x, (3, 5)), [t(*image)]),
        "adaptive3": (lambda x: f.adaptive_avg_pool1d(x, 4), [t(*signal)]),
        "adaptive_none": (lambda x: f.adaptive_avg_pool2d(x, (None, 2)), [t(*image)]),
        "adaptive_max": (lambda x: f.adaptive_max_pool2d(x, (1, 4)), [t(*image)]),
        "batch_norm": (
            lambda x, w, b: f.batch_norm(x, None, None, w, b, True),
            [t(*image), t(4), t(4)],
        ),
        "batch_norm_eval": (
            lambda x, m, v: f.batch_norm(x, m.detach(), v.detach(), None, None, False),
            [t(*image), t(4), positive(4)],
        ),
        "layer_norm": (
            lambda x, w, b: f.layer_norm(x, (3, 4), w, b),
            [t(2, 3, 4), t(3, 4), t(3, 4)],
        ),
        "layer_norm_plain": (lambda x: f.layer_norm(x, (4,)), [t(2, 3, 4)]),
        "group_norm": (lambda x, w, b: f.group_norm(x, 2, w, b), [t(*image), t(4), t(4)]),
        "instance_norm": (
            lambda x, w, b: f.instance_norm(x, None, None, w, b),
            [t(*image), t(4), t(4)],
        ),
        "rms_norm": (lambda x, w: f.rms_norm(x, (4,), w), [t(2, 3, 4), t(4)]),
        "dropout_eval": (lambda x: f.dropout(x, 0.5, False), [t(3)]),
        "dropout_all": (lambda x: f.dropout(x, 1.0, True), [t(3)]),
        "attention": (
            f.scaled_dot_product_attention,
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4)],
        ),
        "attention_causal": (
            lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4)],
        ),
        "attention_bias": (
            f.scaled_dot_product_attention,
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4), t(2, 1, 5, 6)],
        ),
        "attention_bool": (
            f.scaled_dot_product_attention,
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4), torch.ones(5, 6).tril(-1) > 0],
        ),
        "attention_3d": (f.scaled_dot_product_attention, [t(2, 5, 4), t(2, 6, 4), t(2, 6, 4)]),
        "attention_groups": (
            lambda q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            [t(2, 4, 5, 4), t(2, 2, 6, 4), t(2, 2, 6, 4)],
        ),
        "nearest": (lambda x: f.interpolate(x, scale_factor=2), [t(*image)]),
        "nearest_size": (lambda x: f.interpolate(x, (5, 11)), [t(*image)]),
        "bilinear_up": (lambda x: f.interpolate(x, (14, 13), mode="bilinear"), [t(*image)]),
        "bilinear_down": (lambda x: f.interpolate(x, (4, 3), mode="bilinear"), [t(*image)]),
        "bilinear_corners": (
            lambda x: f.interpolate(x, (14, 13), mode="bilinear", align_corners=True),
            [t(*image)],
        ),
        "pixel_shuffle": (lambda x: f.pixel_shuffle(x, 2), [t(*image)]),
        "channel_shuffle": (lambda x: f.channel_shuffle(x, 2), [t(*image)]),
        "reflect": (lambda x: f.pad(x, (1, 2, 2, 1), "reflect"), [t(*image)]),
    }


@family
def cells() -> dict[str, Case]:
    """Single steps of recurrent networks, with biases and without."""
    rows = {"gru": 3, "lstm": 4, "rnn_tanh": 1, "rnn_relu": 1}
    cases: dict[str, Case] = {}
    for name, count in rows.items():
        cell = getattr(torch, f"{name}_cell")
        cases[name] = _cell(cell, name, [t(4 * count, 6), t(4 * count, 4)])
        biases = [t(4 * count), t(4 * count)]
        cases[f"{name}_biases"] = _cell(cell, name, [t(4 * count, 6), t(4 * count, 4), *biases])
    return cases


def _cell(cell: Callable[..., Any], name: str, params: list[Any]) -> Case:
    if name == "lstm":
        return lambda x, h, c, *rest: cell(x, (h, c), *rest), [t(3, 6), t(3, 4), t(3, 4), *params]
    return cell, [t(3, 6), t(3, 4), *params]


@family
def losses() -> dict[str, Case]:
    f = functional
    return {
        "cross_entropy": (f.cross_entropy, [t(4, 5), whole(5, 4)]),
        "cross_entropy_smooth": (
            lambda x, y: f.cross_entropy(x, y, label_smoothing=0.1),
            [t(4, 5), torch.tensor([1, -100, 2, 0])],
        ),
        "cross_entropy_sum": (
            lambda x, y: f.cross_entropy(x, y, reduction="sum"),
            [t(4, 5), whole(5, 4)],
        ),
        "cross_entropy_ignored": (
            lambda x, y: f.cross_entropy(x, y, ignore_index=1),
            [t(2, 3, 4), whole(3, 2, 4)],
        ),
        "cross_entropy_weights": (
            lambda x, y, w: f.cross_entropy(x, y, w.detach()),
            [t(4, 5), whole(5, 4), positive(5)],
        ),
        "cross_entropy_weights_smooth": (
            lambda x, y, w: f.cross_entropy(x, y, w.detach(), ignore_index=1, label_smoothing=0.1),
            [t(2, 3, 4), whole(3, 2, 4), positive(3)],
        ),
        "cross_entropy_weights_of_shares": (
            lambda x, y, w: f.cross_entropy(x, y.softmax(1), w.detach(), label_smoothing=0.1),
            [t(2, 3, 4), t(2, 3, 4), positive(3)],
        ),
        "cross_entropy_shares": (lambda x, y: f.cross_entropy(x, y.softmax(1)), [t(4, 5), t(4, 5)]),
        "nll": (lambda x, y: f.nll_loss(x.log_softmax(1), y), [t(4, 5), whole(5, 4)]),
        "margin_ranking": (
            lambda x, y, z: f.margin_ranking_loss(x, y, z.sign(), margin=0.2),
            [t(4, 3), t(4, 3), whole(2, 4, 3).float() - 0.5],
        ),
        "triplet": (
            lambda x, y, z: f.triplet_margin_loss(x, y, z, swap=True),
            [t(4, 3), t(4, 3), t(4, 3)],
        ),
        "triplet_sums": (
            lambda x, y, z: f.triplet_margin_loss(x, y, z, p=1, reduction="none"),
            [t(4, 3), t(4, 3), t(4, 3)],
        ),
        "pairwise_distance": (lambda x, y: f.pairwise_distance(x, y, 3.0), [t(4, 3), t(4, 3)]),
        "cosine_embedding": (
            lambda x, y, z: f.cosine_embedding_loss(x, y, 2 * z - 1, margin=0.1),
            [t(4, 3), t(4, 3), whole(2, 4)],
        ),
        "multilabel_margin": (
            f.multilabel_margin_loss,
            [t(2, 4), torch.tensor([[1, 3, -1, 0], [2, -1, 0, 1]])],
        ),
        "mse": (f.mse_loss, [t(4), t(4)]),
        "l1": (lambda x, y: f.l1_loss(x, y, reduction="sum"), [t(4), t(4)]),
        "smooth_l1": (lambda x, y: f.smooth_l1_loss(x, y, beta=0.5), [t(9), t(9)]),
        "huber": (lambda x, y: f.huber_loss(x, y, delta=0.5, reduction="none"), [t(9), t(9)]),
        "bce_logits": (f.binary_cross_entropy_with_logits, [t(4, 3), torch.rand(4, 3)]),
        "bce_logits_weighted": (
            lambda x, y, w, p: f.binary_cross_entropy_with_logits(
                x, y, w.detach(), pos_weight=p.detach()
            ),
            [t(4, 3), torch.rand(4, 3), positive(3), positive(3)],
        ),
        "bce": (f.binary_cross_entropy, [torch.rand(4, 3) * 0.8 + 0.1, torch.rand(4, 3)]),
        "kl_div": (
            lambda x, y: f.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
            [t(4, 3), t(4, 3)],
        ),
        "kl_div_log": (
            lambda x, y: f.kl_div(x, y, reduction="sum", log_target=True),
            [t(4, 3), t(4, 3)],
        ),
        "focal": (_focal, [t(4, 3), torch.rand(4, 3)]),
    }


def _focal(x: Any, y: Any) -> Any:
    p = x.sigmoid()
    losses = functional.binary_cross_entropy_with_logits(x, y, reduction="none")
    return (losses * (1 - (p * y + (1 - p) * (1 - y))) ** 2).mean()
