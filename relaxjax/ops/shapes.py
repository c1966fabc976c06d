"""What the type inference of many operators shares: axes, broadcasting, dtypes."""

from collections.abc import Collection, Sequence

from relaxjax.ir.dim_variables import is_never_negative
from relaxjax.ir.dims import Dim, can_prove_different, can_prove_equal, dim_max, dim_min
from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.wording import listed

from .declare import OpError


def normalize_axis(axis: int, ndim: int, name: str = "axis") -> int:
    """`axis` counted from the front; one out of range is an error."""
    if not -ndim <= axis < ndim:
        raise OpError(f"`{name}` must be in [{-ndim}, {ndim}) for {ndim} dimensions, found {axis}")
    return axis % ndim


def normalize_axes(axes: Sequence[int] | None, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """`axes` counted from the front, all of them for None; a repeated one is an error."""
    if axes is None:
        return tuple(range(ndim))
    normal = tuple(normalize_axis(axis, ndim, name) for axis in axes)
    if len(set(normal)) != len(normal):
        raise OpError(f"`{name}` names an axis twice: {list(axes)}")
    return normal


def require_ndim(name: str, ty: TensorType, ndim: int) -> None:
    """A tensor of another rank is an error; an unknown rank is not."""
    if ty.ndim not in (-1, ndim):
        noun = "dimension" if ndim == 1 else "dimensions"
        raise OpError(f"`{name}` must have {ndim} {noun}, found {ty.ndim}")


def require_choice(name: str, choice: str, choices: Collection[str]) -> None:
    """What is none of the choices is an error."""
    if choice not in choices:
        raise OpError(f"`{name}` must be one of {', '.join(choices)}, found {choice}")


def require_numbers(name: str, ty: TensorType) -> None:
    """A tensor of bools is an error."""
    if ty.dtype == "bool":
        raise OpError(f"`{name}` must have a dtype of numbers, found bool: convert it with astype")


def require_real(**tensors: TensorType) -> None:
    """A tensor of complex numbers is an error: they have no order."""
    for name, ty in tensors.items():
        if ty.dtype is not None and ty.dtype.startswith("complex"):
            raise OpError(
                f"`{name}` must have a dtype of real numbers, found {ty.dtype}: L.real and L.imag "
                "take its parts"
            )


def require_sizes(name: str, sizes: Sequence[Dim]) -> None:
    """A negative size is an error; a symbolic one is not."""
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise OpError(f"`{name}` must not be negative, found {dims_text(sizes)}")


def common_dtype(**tensors: TensorType) -> str | None:
    """The dtype that the tensors share; two different ones are an error, an unknown one is None."""
    known = {name: ty.dtype for name, ty in tensors.items() if ty.dtype is not None}
    if len(set(known.values())) > 1:
        found = " and ".join(f"`{name}` is {dtype}" for name, dtype in known.items())
        raise OpError(f"the dtypes must be the same, but {found}: convert one with astype")
    return next(iter(known.values())) if len(known) == len(tensors) else None


def common_vdevice(*tensors: TensorType) -> str | None:
    """The device that the tensors are on, None where none says one."""
    found = {ty.vdevice for ty in tensors if ty.vdevice is not None}
    if len(found) > 1:
        raise OpError(f"the tensors are on different devices: {sorted(found)}")
    return next(iter(found), None)


def broadcast_dims(
    lhs: Sequence[Dim], rhs: Sequence[Dim], names: tuple[str, str]
) -> tuple[Dim, ...] | None:
    """The shape that both broadcast to; None where it depends on symbolic dimensions.

    Two that are never equal, such as n and n + 2, broadcast where one of them is 1. `names` is what
    an error calls them: "`x1`", "`x2`".
    """
    ndim = max(len(lhs), len(rhs))
    result: list[Dim] = []
    for left, right in zip(_padded(lhs, ndim), _padded(rhs, ndim), strict=True):
        if left == 1 or can_prove_equal(left, right):
            result.append(right)
        elif right == 1:
            result.append(left)
        elif isinstance(left, int) and isinstance(right, int):
            raise OpError(
                f"the shapes {dims_text(lhs)} of {names[0]} and {dims_text(rhs)} of {names[1]} "
                f"do not broadcast: {left} against {right}"
            )
        else:
            return None
    return tuple(result)


def never_repeated(dim: Dim, wanted: Dim) -> bool:
    """Whether a dimension cannot be broadcast to another: a symbolic one may turn out to be 1."""
    return isinstance(dim, int) and dim != 1 and can_prove_different(dim, wanted)


def broadcast(
    lhs: TensorType, rhs: TensorType, dtype: str | None, names: tuple[str, str] = ("`x1`", "`x2`")
) -> TensorType:
    """The type that two tensors broadcast to; `names` is what an error calls them."""
    vdevice = common_vdevice(lhs, rhs)
    if lhs.dims is not None and rhs.dims is not None:
        dims = broadcast_dims(lhs.dims, rhs.dims, names)
        if dims is not None:
            return TensorType(dims, dtype, vdevice=vdevice)
    elif lhs.shape is not None and lhs.shape is rhs.shape:
        return TensorType(lhs.shape, dtype, vdevice=vdevice)
    unknown = -1 in (lhs.ndim, rhs.ndim)
    return TensorType(None, dtype, -1 if unknown else max(lhs.ndim, rhs.ndim), vdevice)


def one_type(**tensors: TensorType) -> TensorType:
    """The type of tensors that must have one shape and dtype, as far as it is known."""
    types = list(tensors.values())
    dtype, vdevice = common_dtype(**tensors), common_vdevice(*types)
    ranks = {ty.ndim for ty in types} - {-1}
    if len(ranks) > 1:
        raise OpError(f"{listed(tensors)} must have the same rank, found {sorted(ranks)}")
    shapes = [ty.dims for ty in types if ty.dims is not None]
    for shape in shapes[1:]:
        if any(map(can_prove_different, shapes[0], shape)):
            raise OpError(
                f"{listed(tensors)} must have one shape, found {dims_text(shapes[0])} and "
                f"{dims_text(shape)}"
            )
    known = len(shapes) == len(types) and all(same_dims(shapes[0], shape) for shape in shapes)
    return TensorType(shapes[0] if known else None, dtype, next(iter(ranks), -1), vdevice)


def with_dtype(ty: TensorType, dtype: str | None) -> TensorType:
    """The same tensor type with another dtype."""
    return TensorType(ty.shape, dtype, ty.ndim if ty.shape is None else -1, ty.vdevice)


def same_dims(lhs: Sequence[Dim] | None, rhs: Sequence[Dim] | None) -> bool:
    """Whether two shapes are known to be equal."""
    if lhs is None or rhs is None or len(lhs) != len(rhs):
        return False
    return all(map(can_prove_equal, lhs, rhs))


def at_most(lhs: Dim, rhs: Dim) -> bool:
    """Whether `lhs <= rhs` is known, where symbolic dimensions are whatever is not negative."""
    return is_never_negative(rhs - lhs)


def bounded(dim: Dim, limit: Dim) -> Dim:
    """The smaller of two dimensions."""
    return dim if at_most(dim, limit) else limit if at_most(limit, dim) else dim_min(dim, limit)


def positive_part(dim: Dim) -> Dim:
    """The dimension, or 0 where it is negative."""
    return dim if at_most(0, dim) else dim_max(dim, 0)


def element_count(dims: Sequence[Dim]) -> Dim:
    """The number of elements of a shape."""
    count: Dim = 1
    for dim in dims:
        count = count * dim
    return count


def _padded(dims: Sequence[Dim], ndim: int) -> tuple[Dim, ...]:
    return (1,) * (ndim - len(dims)) + tuple(dims)


def require_adjoint(output_grad: TensorType, result: Type) -> None:
    """The adjoint of a result that is not of its type is an error, as far as both are known."""
    assert isinstance(result, TensorType)
    found, wanted = output_grad.dims, result.dims
    known = -1 not in (output_grad.ndim, result.ndim)
    different = known and output_grad.ndim != result.ndim
    if different or any(map(can_prove_different, found or (), wanted or ())):
        raise OpError(
            f"`output_grad` must be of the type of the result, {result}, found {output_grad}"
        )
    common_dtype(output_grad=output_grad, result=result)


def dims_text(dims: Sequence[Dim]) -> str:
    """A shape as messages show it."""
    return f"({', '.join(map(str, dims))})"
