"""What a mask chooses of a tensor, `x[mask]`, as far as its size need not be known.

Its elements stay at their places: all others are zeros, and what is computed of these is finite,
with finite derivatives, and left out in the end by a sum, a mean or a loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Constant, Expr, Var
from relaxjax.ir.op import Op
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, where

from .aten.promotion import cast
from .aten.shapes import broadcast_sizes, expand, place_of, shaped
from .aten.table import TABLE

# What gives finite numbers for finite ones, and has finite derivatives there.
_SMOOTH = """
    add.Tensor add.Scalar sub.Tensor sub.Scalar rsub.Scalar mul.Tensor mul.Scalar neg.default
    abs.default square.default relu.default sigmoid.default tanh.default gelu.default silu.default
    clone.default detach.default to.dtype to.dtype_layout _to_copy.default
    pow.Tensor_Scalar div.Tensor div.Scalar
"""
_ELEMENTWISE = {f"aten.{name}" for name in _SMOOTH.split()}
_OF_ELEMENTS = {
    f"aten.{name}.default"
    for name in (
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
        "binary_cross_entropy_with_logits",
    )
}
_OF_CLASSES = {f"aten.{name}.default" for name in ("cross_entropy_loss", "nll_loss_nd", "nll_loss")}
_SUMS = {f"aten.{name}": "sum" for name in ("sum.default", "sum.dim_IntList")}
_MEANS = {f"aten.{name}": "mean" for name in ("mean.default", "mean.dim")}
_READS = {"aten.index.Tensor", "aten._unsafe_index.Tensor"}
_WRITES = {"aten.index_put.default", "aten._unsafe_index_put.default"}

BY_MASK = "aten.masked_select.default"

UNKNOWN_SIZE = (
    "what is read by a mask has as many elements as the mask is true at, which no compiled program "
    "knows"
)
_MEND = (
    "it may be added to and multiplied, summed, averaged, given to a loss, or written back by the "
    "same mask; else choose by torch.where"
)
# Whether two masks are the same, for all that the program says.
Same: TypeAlias = Callable[[Expr, Expr], bool]


@dataclass(frozen=True)
class Chosen:
    """The elements of `data` at which `mask` is true, which covers its first axes."""

    data: Expr
    mask: Expr

    @property
    def rest(self) -> int:
        """How many axes the elements have that are chosen as one."""
        return ndim_of(self.data) - ndim_of(self.mask)


@dataclass(frozen=True)
class ChosenCount:
    """How many elements a mask chooses: no number that a compiled program has."""


def concerned(target: str, given: Mapping[str, Any]) -> bool:
    """Whether an operator reads by a mask of unknown elements, or takes what was read by one."""
    if target == BY_MASK:
        return not isinstance(given["mask"], Constant)
    if target in _READS and _mask_of(given["self"], given["indices"]) is not None:
        return True
    return any(isinstance(one, Chosen | ChosenCount) for one in _flat(given.values()))


def computed(target: str, given: Mapping[str, Any], same: Same) -> Any:
    """What an operator gives for what was chosen: that again, or a tensor."""
    chosen = [one for one in _flat(given.values()) if isinstance(one, Chosen)]
    if any(isinstance(one, ChosenCount) for one in _flat(given.values())):
        raise ValueError(f"{UNKNOWN_SIZE}: divide by `mask.sum()`")
    if target == BY_MASK or target in _READS:
        if chosen:
            raise ValueError(f"{UNKNOWN_SIZE}: {_MEND}")
        return _read(**given)
    if not all(same(one.mask, chosen[0].mask) for one in chosen):
        raise ValueError(f"{UNKNOWN_SIZE}, and here two masks meet: choose by torch.where")
    if target in _WRITES:
        return _written(given, same)
    found = _of_chosen(target, given, chosen)
    if found is None:
        raise ValueError(f"{UNKNOWN_SIZE}: {_MEND}")
    return found


def _of_chosen(target: str, given: Mapping[str, Any], chosen: Sequence[Chosen]) -> Any:
    """What an operator gives where all that is chosen is so by one mask; None for others."""
    first = chosen[0]
    if target == "aten.sym_size.int":
        return _size(first, given["dim"])
    if target == "aten.broadcast_tensors.default" and chosen == given["tensors"]:
        return chosen if len({(one.rest, dims_of(one.data)) for one in chosen}) == 1 else None
    if target in _ELEMENTWISE and _is_finite(target, given):
        return Chosen(TABLE[target].rule(**_data(given, first)), first.mask)
    if target in _SUMS or target in _MEANS:
        return _reduced(target, first, **{k: v for k, v in given.items() if k != "self"})
    if target in _OF_ELEMENTS:
        plain = TABLE[target].rule(**_data(given, first) | {"reduction": 0})
        kinds = [None, "aten.mean.default", "aten.sum.default"]
        kind, losses = kinds[given.get("reduction", 1)], Chosen(plain, first.mask)
        return losses if kind is None else _reduced(kind, losses)
    if target in _OF_CLASSES and len(chosen) == 2 and given.get("reduction", 1):
        return _classified(target, given)
    return None


def same_value(one: Expr, other: Expr, value_of: Callable[[Var], Expr | None]) -> bool:
    """Whether two values are one, or computed in the same way of the same, and not drawn."""
    waiting, seen = [(one, other)], set[tuple[Expr, Expr]]()
    while waiting:
        pair = waiting.pop()
        if pair in seen or pair[0] == pair[1]:
            continue
        seen.add(pair)
        first, second = (value_of(x) if isinstance(x, Var) else x for x in pair)
        if not isinstance(first, Call) or not isinstance(second, Call):
            return False
        if _computing(first) != _computing(second) or (isinstance(first.op, Op) and first.op.draws):
            return False
        waiting += zip(first.args, second.args, strict=True)
    return True


def _computing(value: Call) -> tuple[Any, ...]:
    """What a call does with its arguments, and how many it takes."""
    return value.op, value.attrs, value.ty_args, len(value.args)


def _flat(values: Any) -> list[Any]:
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _mask_of(self: Any, indices: Sequence[Any]) -> Expr | None:
    """The mask, if one alone says what is read, from the first axis on."""
    first, *others = indices
    is_open = isinstance(first, Expr) and not isinstance(first, Constant)
    is_mask = is_open and dtype_of(first) == "bool" and ndim_of(first) > 0
    return first if is_mask and others == [None] * len(others) else None


def _read(self: Expr, indices: Sequence[Any] = (), mask: Expr | None = None) -> Chosen:
    if mask is not None:  # masked_select, where the two are spread over each other
        sizes = broadcast_sizes(self, mask)
        self, mask = expand(self, sizes), expand(mask, sizes)
    else:
        mask = indices[0]
    assert mask is not None
    return Chosen(_only_at(mask, self, 0), mask)


def _only_at(mask: Expr, data: Expr, other: Any) -> Expr:
    sizes = [*dims_of(mask), *[1] * (ndim_of(data) - ndim_of(mask))]
    return where(shaped(mask, sizes), data, cast(other, dtype_of(data)))


def _size(chosen: Chosen, dim: int) -> Dim | ChosenCount:
    place = dim % (chosen.rest + 1)
    return dims_of(chosen.data)[ndim_of(chosen.mask) + place - 1] if place else ChosenCount()


def _data(given: Mapping[str, Any], chosen: Chosen) -> dict[str, Any]:
    """The arguments with the data of what is chosen; others must broadcast along its last axes."""

    def plain(value: Any) -> Any:
        if isinstance(value, Chosen):
            if value.rest == chosen.rest:
                return value.data
        elif not isinstance(value, Expr) or ndim_of(value) <= chosen.rest:
            return value
        raise ValueError(f"{UNKNOWN_SIZE}, and here it meets a tensor of another shape: {_MEND}")

    return {name: plain(value) for name, value in given.items()}


def _is_finite(target: str, given: Mapping[str, Any]) -> bool:
    """Whether powers and quotients of zeros are finite, as the other operators are."""
    if target == "aten.pow.Tensor_Scalar":
        return isinstance(given["exponent"], int) and given["exponent"] > 0
    if "div" in target:
        divisor = given["other"]
        return isinstance(divisor, int | float) and divisor != 0 and len(given) == 2
    return True


def _reduced(
    target: str, chosen: Chosen, dim: Any = None, keepdim: bool = False, dtype: str | None = None
) -> Expr | Chosen:
    behind = ndim_of(chosen.mask) - 1  # the axes of the mask are one in torch
    given = range(chosen.rest + 1) if dim is None or dim == [] else dim
    places = [
        place_of(one, chosen.rest + 1) for one in ([given] if isinstance(given, int) else given)
    ]
    others = [place + behind for place in places if place]
    rule = TABLE[target].rule
    if 0 not in places:
        return Chosen(rule(chosen.data, others, keepdim, dtype), chosen.mask)
    if keepdim:
        raise ValueError(f"{UNKNOWN_SIZE}, and the axis is kept: {_MEND}")
    data = _only_at(chosen.mask, chosen.data, 0)
    axes = [*range(behind + 1), *others]
    total: Expr = TABLE["aten.sum.dim_IntList"].rule(data, axes, False, dtype)
    if target in _SUMS:
        return total
    count: Expr = call("sum", cast(chosen.mask, dtype_of(total)))
    for axis in others:
        count = count * number(dims_of(data)[axis], count)
    return total / count


def _classified(target: str, given: Mapping[str, Any]) -> Expr:
    """The loss of the classes of all rows, of which those that are not chosen are to be ignored."""
    scores, labels = given["self"], given["target"]
    ignored = given.get("ignore_index", -100)
    if scores.rest != 1 or labels.rest != 0:
        raise ValueError(f"{UNKNOWN_SIZE}: {_MEND}")
    rows = shaped(scores.data, [-1, dims_of(scores.data)[-1]])
    classes = shaped(_only_at(labels.mask, labels.data, ignored), [-1])
    found: Expr = TABLE[target].rule(**{**given, "self": rows, "target": classes})
    return found


def _written(given: Mapping[str, Any], same: Same) -> Expr:
    """A tensor with what was chosen of another in its place, where the mask is the same."""
    x, values, mask = given["self"], given["values"], _mask_of(given["self"], given["indices"])
    if mask is None or not isinstance(values, Chosen) or not same(mask, values.mask):
        raise ValueError(f"{UNKNOWN_SIZE}: {_MEND}")
    new = cast(values.data, dtype_of(x))
    sizes = [*dims_of(mask), *[1] * (ndim_of(x) - ndim_of(mask))]
    return where(shaped(mask, sizes), x + new if given.get("accumulate") else new, x)
