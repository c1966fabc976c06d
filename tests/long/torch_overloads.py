"""Calls of PyTorch's operators on numbers: elementwise, activations and reductions."""

from collections.abc import Callable
from typing import Any

from torch_cases import Case, bounds, family, inside, positive, t, truth, whole, words
from torch_zoo import functional, torch


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
