"""Calls of PyTorch's operators that move numbers: shapes and indexing."""

from collections.abc import Callable
from typing import Any

from torch_cases import Case, family, t, truth, whole
from torch_zoo import functional, torch


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
