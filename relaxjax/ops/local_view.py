"""A function that each device of a mesh runs on its own parts of tensors."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jax

from relaxjax.ir.device_mesh import DeviceMesh, Placement, as_mesh, placement_parts
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr, GlobalVar, Var
from relaxjax.ir.infer import call_type
from relaxjax.ir.types import FuncType, TensorType, TupleType, Type
from relaxjax.ir.wording import counted

from .ccl import running_on
from .cost_rules import UNKNOWN
from .declare import OpError, op
from .distributed import as_placement
from .meshes import jax_mesh, spec_of
from .placements import as_stated


def as_placements(value: Any) -> tuple[str, ...]:
    """The texts of several placements."""
    if not isinstance(value, list | tuple):
        raise TypeError(f'must be a list of texts such as ["S[0]", "R"], but {value!r} was given')
    return tuple(map(as_placement, value))


Placements = Annotated[tuple[str, ...], as_placements]


def placements_over(mesh: DeviceMesh, texts: Sequence[str]) -> list[Placement]:
    """The placements over a mesh that texts say."""
    return [Placement(mesh, placement_parts(text)) for text in texts]


def _mapped(
    func: Callable[..., Any],
    args: Sequence[Any],
    device_mesh: DeviceMesh,
    in_placements: Sequence[str],
    out_placements: Sequence[str],
) -> Any:
    given = placements_over(device_mesh, in_placements)
    for index, (placement, arg) in enumerate(zip(given, args, strict=True)):
        try:
            placement.check(arg.shape, arg.ndim)
        except ValueError as error:
            raise OpError(f"argument {index}: {error}") from None
    is_tuple = False

    def run(*parts: Any) -> tuple[Any, ...]:
        nonlocal is_tuple
        with running_on(device_mesh):
            found = func(*parts)
        is_tuple = isinstance(found, tuple)
        return found if isinstance(found, tuple) else (found,)

    in_specs = tuple(map(spec_of, given))
    out_specs = tuple(map(spec_of, placements_over(device_mesh, out_placements)))
    # Which results all devices have alike was found in the program, of which JAX sees less.
    mapped = jax.shard_map(
        run, mesh=jax_mesh(device_mesh), in_specs=in_specs, out_specs=out_specs, check_vma=False
    )
    results = mapped(*args)
    return results if is_tuple else results[0]


@op(
    "relax.dist.call_local_view",
    lower=_mapped,
    facts={"local_view": True},
    cost=UNKNOWN,
    places=as_stated,
)
def call_local_view(
    func: Expr,
    args: TupleType,
    device_mesh: Annotated[DeviceMesh, as_mesh],
    in_placements: Placements,
    out_placements: Placements,
) -> Type:
    """Each device of a mesh calls a function of the module on its own parts of `args`.

    `in_placements` says for each argument, `out_placements` for each result, how the whole is
    parted. Inside, R.ccl tells other devices what one has. A result is parted along every axis of
    the mesh along which devices may have different ones.
    """
    if not isinstance(func, GlobalVar) or not isinstance(func.ty, FuncType):
        raise OpError(f"`func` must be a function of the module, such as cls.f, found `{func}`")
    given = placements_over(device_mesh, in_placements)
    if len(given) != len(args.fields):
        raise OpError(
            f"`in_placements` has {len(given)} placements for "
            f"{counted(len(args.fields), 'argument')}"
        )
    pairs = enumerate(zip(args.fields, given, strict=True))
    parts = [Var(f"arg{index}", _part(index, ty, place)) for index, (ty, place) in pairs]
    try:
        local = call_type(Call(func, tuple(parts)))
    except TypeError as error:
        raise OpError(f"on each device, {error}") from None
    results = local.fields if isinstance(local, TupleType) else (local,)
    stated = placements_over(device_mesh, out_placements)
    if len(stated) != len(results):
        raise OpError(f"`out_placements` has {len(stated)} placements for {len(results)} results")
    wholes = tuple(map(_whole, results, stated))
    return TupleType(wholes) if isinstance(local, TupleType) else wholes[0]


def _part(index: int, ty: Type, placement: Placement) -> TensorType:
    """The type of a device's part of an argument."""
    if not isinstance(ty, TensorType):
        raise OpError(f"argument {index} must be a tensor, found {ty}")
    try:
        placement.check(ty.dims, ty.ndim)
    except ValueError as error:
        raise OpError(f"argument {index}: {error}") from None
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim)
    return TensorType(_resized(ty.dims, placement, lambda dim, size: dim // size), ty.dtype)


def _whole(ty: Type, placement: Placement) -> TensorType:
    """The type of a result of which each device has a part."""
    if not isinstance(ty, TensorType):
        raise OpError(f"each device must give tensors, found {ty}")
    if ty.dims is None:
        return TensorType(None, ty.dtype, ty.ndim, placement=placement)
    placement.check(None, ty.ndim)
    dims = _resized(ty.dims, placement, lambda dim, size: dim * size)
    return TensorType(dims, ty.dtype, placement=placement)


def _resized(
    dims: Sequence[Dim], placement: Placement, change: Callable[[Dim, int], Dim]
) -> tuple[Dim, ...]:
    counts = map(placement.parts_of, range(len(dims)))
    return tuple(
        change(dim, count) if count > 1 else dim for dim, count in zip(dims, counts, strict=True)
    )
