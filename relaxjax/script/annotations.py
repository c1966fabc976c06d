"""The types of a script: `R.Tensor((2, "n"), "float32")` and its like.

Each function here gives a type. Dimensions that are written as text need a scope to be read in: a
type that has some is an `Unresolved` until `resolve` is told what they mean.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relaxjax.ir.device_mesh import DeviceMesh, Placement, as_mesh, is_module_read, placement_parts
from relaxjax.ir.dims import Dim, as_dim
from relaxjax.ir.expr import Call, PrimExpr, ShapeExpr, Var
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.types import (
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    dtype_name,
)
from relaxjax.ops.devices import as_vdevice

from .scalars import ScalarType

DimReader: TypeAlias = Callable[[str], Dim]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A type with dimensions written as text; `build` makes it, given what the texts mean."""

    build: Callable[[DimReader], Type]


Annotation: TypeAlias = Type | Unresolved


def as_annotation(value: Any) -> Annotation:
    """What stands as an annotation, as a type: `R.Tensor` is `R.Tensor()`, None the empty tuple."""
    if isinstance(value, Type | Unresolved):
        return value
    if value is None:
        return TupleType(())
    if isinstance(value, ScalarType):
        return value.type
    if any(value is bare for bare in _BARE):
        return as_annotation(value())
    raise TypeError(f"`{value!r}` is no type: write R.Tensor(shape, dtype), R.Shape, R.Tuple, ...")


def resolve(annotation: Any, read_dim: DimReader | None = None) -> Type:
    """The type that an annotation means, its texts read by `read_dim`."""
    found = as_annotation(annotation)
    return found if isinstance(found, Type) else found.build(read_dim or _refuse_text)


def object_type() -> Type:
    """Any value at all."""
    return ObjectType()


def tensor(
    shape: Any = None, dtype: Any = None, vdevice: str | VDevice | None = None, ndim: int = -1
) -> Any:
    """A tensor: `Tensor((2, "n"), "float32")`, `Tensor("float32")`, `Tensor(ndim=2)`."""
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    name, device = _dtype(dtype), None if vdevice is None else as_vdevice(vdevice)
    if shape is None or isinstance(shape, Var):
        return TensorType(_shape_var(shape), name, ndim, device)
    return _with_dims(shape, lambda dims: TensorType(dims, name, ndim, device))


def device_mesh(shape: Any, device_range: Any, axes: Any = None) -> DeviceMesh:
    """Devices in rows and columns: `device_mesh((2, 4), I.Range(0, 8), axes=["data", "model"])`.

    The range says which they are in the list of the platform's devices.
    """
    return DeviceMesh(shape, device_range, axes)


def placed_tensor(
    shape: Any = None,
    dtype: Any = None,
    device_mesh: str | DeviceMesh = "mesh[0]",
    placement: str = "",
    ndim: int = -1,
    *,
    vdevice: str | VDevice | None = None,
) -> Any:
    """A tensor parted over a mesh: `DTensor((128, 128), "float32", "mesh[0]", "S[1]")`.

    The placement has for each axis of the mesh the dimension that it parts, or `R` for none.
    """
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    name, device = _dtype(dtype), None if vdevice is None else as_vdevice(vdevice)
    parts = placement_parts(placement)

    def build(dims: Any) -> TensorType:
        place = Placement(as_mesh(device_mesh), parts)
        return TensorType(dims, name, ndim, device, placement=place)

    if shape is None or isinstance(shape, Var):
        found = _shape_var(shape)
        return Unresolved(lambda read: build(found)) if _is_later(device_mesh) else build(found)
    if _is_later(device_mesh):
        return Unresolved(lambda read: resolve(_with_dims(shape, build), read))
    return _with_dims(shape, build)


def _is_later(device_mesh: Any) -> bool:
    """Whether a mesh is named that a module lists, and Python itself runs the module's text."""
    return isinstance(device_mesh, str) and not is_module_read()


def shape(values: Any = None, ndim: int = -1) -> Any:
    """A shape as a value: `Shape([2, "n"])`, `Shape(ndim=2)`."""
    if values is None:
        return ShapeType(None, ndim)
    return _with_dims(values, ShapeType)


def prim(dtype: Any = None, value: Any = None) -> Type:
    """A number of the host: `Prim("int64")`."""
    if dtype is None or value is not None:
        raise TypeError('a scalar of the host is known by its dtype only: write R.Prim("int64")')
    return PrimType(dtype_name(dtype))


def tuple_of(*fields: Any) -> Any:
    """A tuple: `Tuple(R.Tensor, R.Shape)`, or with its fields in a list."""
    if len(fields) == 1 and isinstance(fields[0], list | tuple):
        fields = tuple(fields[0])
    return _with_types(fields, TupleType)


def function(
    params: Any = None,
    ret: Any = object_type,
    purity: bool | None = None,
    derive_func: Callable[[Call], Type] | None = None,
) -> Any:
    """A function: `Callable((R.Tensor,), R.Tensor, True)`. Without parameters it is opaque.

    `derive_func` takes a call and gives the type of its result. An opaque function is taken to be
    impure unless `purity` says otherwise.
    """
    if derive_func is not None and not callable(derive_func):
        raise TypeError(f"`derive_func` is a function from a call to a type, not `{derive_func!r}`")
    pure = params is not None if purity is None else bool(purity)
    ret = object_type if ret is None else ret
    if params is None:
        return _with_types([ret], lambda types: FuncType(None, types[0], pure, derive_func))
    items = list(params) if isinstance(params, list | tuple) else [params]
    return _with_types(
        [ret, *items], lambda types: FuncType(types[1:], types[0], pure, derive_func)
    )


_BARE = (tensor, placed_tensor, shape, prim, tuple_of, function, object_type)


def _with_dims(values: Any, build: Callable[[tuple[Dim, ...]], Type]) -> Annotation:
    items = _dims(values)
    if not any(isinstance(item, str) for item in items):
        return build(tuple(map(as_dim, items)))
    return Unresolved(
        lambda read: build(tuple(read(i) if isinstance(i, str) else as_dim(i) for i in items))
    )


def _with_types(values: Iterable[Any], build: Callable[[tuple[Type, ...]], Type]) -> Annotation:
    items = [as_annotation(value) for value in values]
    if not any(isinstance(item, Unresolved) for item in items):
        return build(tuple(map(resolve, items)))
    return Unresolved(lambda read: build(tuple(resolve(item, read) for item in items)))


def _dims(values: Any) -> Sequence[Any]:
    if isinstance(values, ShapeExpr):
        return values.values
    if not isinstance(values, list | tuple):
        raise TypeError(
            f'a shape is a tuple or list such as (2, "n"), or a variable that holds a shape, '
            f"but `{values!r}` was given"
        )
    return [item.value if isinstance(item, PrimExpr) else item for item in values]


def _shape_var(shape: Var | None) -> Var | None:
    if shape is None or isinstance(shape.ty, ShapeType):
        return shape
    raise TypeError(f"`{shape.name}` stands for a shape, but its type is {shape.ty}")


def _dtype(dtype: Any) -> str | None:
    if dtype is None or dtype in ("", "void"):
        return None
    return dtype.dtype if isinstance(dtype, ScalarType) else dtype_name(dtype)


def _refuse_text(text: str) -> Dim:
    raise TypeError(
        f'the dimension "{text}" is written as text, which only the types of parameters, results, '
        f"variables and R.match_cast may have: declare it by `n = T.int64()` and write it bare"
    )
