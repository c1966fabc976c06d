"""Another batch size for a model whose sizes are numbers."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from relaxjax.ir.bind import GIVE_ITS_NAME
from relaxjax.ir.expr import Call, Expr, ShapeExpr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.retype import retyped
from relaxjax.ir.tensor_types import known_dims, static_dims
from relaxjax.ir.types import TensorType
from relaxjax.ir.wording import quoted
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function

Sizes = tuple[int, ...]


@pass_factory(opt_level=0)
def ChangeBatch(mod: IRModule, data: Mapping[Any, int], batch_size: int = 16) -> IRModule:
    """Give a model another batch size: in its parameters, and in the shapes written inside.

    A reshape follows the elements, a broadcast the tensor. Any other shape that names the old batch
    size means the batch; where a parameter has a second dimension of this size, that is an error. A
    multiple of it there stays, and so does a constant that it is hidden in, such as the factor in
    the gradient of a mean: change the batch before Gradient.

    Args:
        data: the axis of the batch for each parameter that has one, by its name or by the variable
            itself. All functions that have such parameters change.
        batch_size: the new batch size.
    """
    functions = mod.relax_functions()
    _check_names(data, [param for function in functions.values() for param in function.params])
    changed: dict[str, Function] = {}
    for name, function in functions.items():
        axes = {p: data[k] for p in function.params for k in (p, p.name) if k in data}
        if axes:
            with in_function(name, function):
                changed[name] = _changed(function, axes, batch_size)
    return mod.with_functions(changed)


def _check_names(data: Mapping[Any, int], params: Sequence[Var]) -> None:
    names = {param.name for param in params}
    for key in data:
        if key not in names and key not in params:
            name = str(key.name if isinstance(key, Var) else key)
            if name in names:
                raise ValueError(f"the parameter `{name}` is another variable: {GIVE_ITS_NAME}")
            there = f"; there are {quoted(sorted(names))}" if names else ""
            hint = did_you_mean(name, names)
            raise ValueError(f"no function has a parameter `{name}`{hint}{there}")


def _changed(function: Function, axes: Mapping[Var, int], new: int) -> Function:
    old = _batch_size(axes)
    if old == new:
        return function
    values: dict[Var, Expr] = {p: Var(p.name, _resized(p, axis, new)) for p, axis in axes.items()}
    others = [size for param in function.params for size in _other_sizes(param, axes.get(param))]

    def shapes(call: Call, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(
            _shape(call, arg, args[0], old, new, others) if isinstance(arg, ShapeExpr) else arg
            for arg in args
        )

    return retyped(function, values, arguments=shapes)


def _other_sizes(param: Var, axis: int | None) -> list[int]:
    """The sizes of a parameter's axes but that of its batch."""
    sizes = list(static_dims(param.ty) or ())
    if axis is not None:
        del sizes[axis]
    return sizes


def _batch_size(axes: Mapping[Var, int]) -> int:
    sizes: set[Any] = set()
    for param, axis in axes.items():
        dims = known_dims(param)
        if dims is None or not -len(dims) <= axis < len(dims):
            raise ValueError(f"`{param.name}` is of type {param.ty}: it has no axis {axis}")
        sizes.add(dims[axis])
    (size, *more) = sizes
    if more or not isinstance(size, int):
        raise ValueError(
            f"the batch size must be one number for all parameters, found {sorted(map(str, sizes))}"
            + ("" if more else ": BindSymbolicVars gives a dimension a size")
        )
    return size


def _resized(param: Var, axis: int, size: int) -> TensorType:
    assert isinstance(param.ty, TensorType)
    dims = list(param.ty.dims or ())
    dims[axis] = size
    return replace(param.ty, shape=tuple(dims))


def _shape(
    call: Call, shape: ShapeExpr, data: Expr, old: int, new: int, others: Sequence[int]
) -> ShapeExpr:
    """A shape that a call is given, for the new batch size."""
    before, after = ((static_dims(item.ty) or ()) for item in (call.args[0], data))
    wanted = tuple(dim for dim in shape.values if isinstance(dim, int))
    name = getattr(call.op, "name", "")
    if len(wanted) < len(shape.values):
        return shape
    if name == "relax.reshape":
        return shape if before == after else ShapeExpr(_reshaped(before, after, wanted))
    kept = dict(enumerate(zip(reversed(before), reversed(after), strict=False)))
    dims = []
    for place, dim in enumerate(reversed(wanted)):
        one, other = kept.get(place, (None, None))
        if other is not None and one == dim:
            dims.append(other)
        elif dim == old and old in others:
            raise ValueError(
                f"{name}: the shape {shape} names {old}, which is the batch size and the size of "
                "another dimension: name the batch where the model is written, as in "
                'R.Tensor(("batch", ...)) and R.shape([batch, ...]), and give it its size by '
                f'BindSymbolicVars({{"batch": {new}}})'
            )
        else:
            dims.append(new if dim == old else dim)
    return ShapeExpr(tuple(reversed(dims)))


def _reshaped(before: Sizes, after: Sizes, wanted: Sizes) -> Sizes:
    """The shape for as many elements as there are after, in the order of those before."""
    result, ends = list(wanted), _ends(wanted)
    for axis, (one, other) in enumerate(zip(before, after, strict=True)):
        if one == other:
            continue
        outer = math.prod(before[:axis])
        places = [p for p, (start, end) in enumerate(ends) if start <= outer < end]
        exact = [place for place in places if outer % ends[place][0] == 0]
        if not exact or result[exact[0]] * other % one:
            raise ValueError(
                f"the axis of size {one} in {before} is no part of an axis of {wanted}"
            )
        result[exact[0]] = result[exact[0]] * other // one
    return tuple(result)


def _ends(sizes: Sizes) -> list[tuple[int, int]]:
    """For each axis the product of the sizes before it, and that with its own."""
    products = [math.prod(sizes[:place]) for place in range(len(sizes) + 1)]
    return list(pairwise(products))
