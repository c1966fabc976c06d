"""What devices tell each other inside a function that each runs on its own: `R.ccl.*`.

The group are the devices along `mesh_axes` of the mesh, all of them unless axes are named. They are
numbered along the axes; number 0 is called worker 0.

Each device has an adjoint of its own for a value: how much the target moves with its copy. What a
device tells several others thus gets the sum of what comes back from them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType

from .cost_rules import MOVES, REDUCES
from .declare import OpError, op
from .emit import call, dtype_of
from .shapes import normalize_axis, require_real

_RUNNING: ContextVar[DeviceMesh | None] = ContextVar("running", default=None)
_REDUCTIONS = ("sum", "avg", "min", "max", "prod")


@contextmanager
def running_on(mesh: DeviceMesh) -> Iterator[None]:
    """Inside, each device of a mesh runs what is traced, and tells the others what R.ccl says."""
    token = _RUNNING.set(mesh)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def as_axes(value: Any) -> tuple[str, ...]:
    """The names of axes of a mesh, from one or several."""
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, list | tuple) and names and all(isinstance(n, str) for n in names):
        return tuple(names)
    raise TypeError(f'must be names of axes of the mesh, such as "data", but {value!r} was given')


def as_pairs(value: Any) -> tuple[tuple[int, int], ...]:
    """Pairs of the number of who sends, and of who gets."""
    if not isinstance(value, list | tuple) or not all(map(_is_pair, value)):
        raise TypeError(f"must be pairs such as [(0, 1), (1, 0)], but {value!r} was given")
    pairs = tuple((int(source), int(target)) for source, target in value)
    for numbers, verb in zip(zip(*pairs, strict=True), ("sends", "gets"), strict=False):
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"must have each device once, but one {verb} twice: {list(pairs)}")
    return pairs


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)
    )


Group = Annotated[tuple[str, ...] | None, lambda value: None if value is None else as_axes(value)]
Pairs = Annotated[tuple[tuple[int, int], ...], as_pairs]


def group_of(mesh_axes: Sequence[str] | None, mesh: DeviceMesh) -> tuple[str, ...]:
    """The axes of a mesh along which the devices of a group stand."""
    if mesh_axes is None:
        return mesh.axes
    unknown = [axis for axis in mesh_axes if axis not in mesh.axes]
    if unknown or len(set(mesh_axes)) != len(mesh_axes):
        raise OpError(
            f"`mesh_axes` names axes of the mesh once each, which are {list(mesh.axes)}, found "
            f"{list(mesh_axes)}"
        )
    return tuple(mesh_axes)


def group_axes(mesh_axes: Sequence[str] | None, num_workers: int | None = None) -> tuple[str, ...]:
    """The axes that JAX is to go along, where as many devices stand as the program says."""
    mesh = _RUNNING.get()
    if mesh is None:
        raise OpError(
            "devices tell each other something only inside a function that each of them runs: call "
            "the function by R.dist.call_local_view"
        )
    axes = group_of(mesh_axes, mesh)
    count = math.prod(map(mesh.size, axes))
    if num_workers not in (None, count):
        raise OpError(f"`num_workers` must be the number of devices, {count}, found {num_workers}")
    return axes


def communication(
    name: str, alike: bool, cost: Any = MOVES, own: tuple[str, ...] = ("mesh_axes",), **rules: Any
) -> Callable[[Callable[..., TensorType]], Op]:
    """An operator among devices, linear unless it has another `jvp`.

    `alike` says whether all devices of the group get the same, and `own` which attributes TVM's
    operator lacks.
    """
    rules.setdefault("jvp", lambda tangents, y, x, **attrs: call(name, tangents[0], **attrs))
    return op(
        f"relax.{name}",
        precision="follow",
        facts={"communicates": "alike" if alike else "apart", "own": own},
        cost=cost,
        **rules,
    )


def _allreduced(x: Any, op_type: str, in_group: bool, mesh_axes: Any) -> Any:
    axes = group_axes(mesh_axes)
    if op_type == "prod":
        return jnp.prod(lax.all_gather(x, axes), axis=0, dtype=x.dtype)
    reductions: dict[str, Any] = {
        "sum": lax.psum,
        "avg": lax.pmean,
        "min": lax.pmin,
        "max": lax.pmax,
    }
    return reductions[op_type](x, axes)


def _chosen(kind: str, y: Expr, x: Expr, op_type: str, mesh_axes: Any) -> tuple[Expr, Expr]:
    """Where a device has the extremum, as a number, and how many devices have it."""
    if op_type == "prod":
        raise OpError(f"a product over devices has no {kind}: use R.ccl.allgather and R.prod")
    chosen = call("astype", call("equal", x, y), dtype_of(x))
    return chosen, call("ccl.allreduce", chosen, mesh_axes=mesh_axes)


def _allreduce_gradient(
    g: Expr, y: Expr, x: Expr, op_type: str, in_group: bool, mesh_axes: Any
) -> Expr:
    if op_type in ("sum", "avg"):
        return call("ccl.allreduce", g, op_type, mesh_axes=mesh_axes)
    chosen, count = _chosen("gradient", y, x, op_type, mesh_axes)
    return call("ccl.allreduce", g, mesh_axes=mesh_axes) * chosen / count


def _allreduce_jvp(
    tangents: Sequence[Expr], y: Expr, x: Expr, op_type: str, in_group: bool, mesh_axes: Any
) -> Expr:
    (tangent,) = tangents
    if op_type in ("sum", "avg"):
        return call("ccl.allreduce", tangent, op_type, mesh_axes=mesh_axes)
    chosen, count = _chosen("tangent", y, x, op_type, mesh_axes)
    return call("ccl.allreduce", tangent * chosen / count, mesh_axes=mesh_axes)


@communication(
    "ccl.allreduce",
    alike=True,
    lower=_allreduced,
    gradient=_allreduce_gradient,
    jvp=_allreduce_jvp,
    cost=REDUCES,
)
def allreduce(
    x: TensorType, op_type: str = "sum", in_group: bool = True, mesh_axes: Group = None
) -> TensorType:
    """The sum of what all devices have, or by `op_type` avg, min, max or prod; all get it."""
    if op_type not in _REDUCTIONS:
        raise OpError(f"`op_type` must be one of {', '.join(_REDUCTIONS)}, found {op_type!r}")
    _require_group(in_group)
    if op_type in ("min", "max"):
        require_real(x=x)
    return x


@communication(
    "ccl.allgather",
    alike=True,
    own=("axis", "mesh_axes"),
    lower=lambda x, num_workers, in_group, axis, mesh_axes: _all_gathered(
        x, axis, group_axes(mesh_axes, num_workers)
    ),
    gradient=lambda g, y, x, num_workers, in_group, axis, mesh_axes: call(
        "ccl.reduce_scatter", g, num_workers, axis, mesh_axes
    ),
)
def allgather(
    x: TensorType, num_workers: int, in_group: bool = True, axis: int = 0, mesh_axes: Group = None
) -> TensorType:
    """What all devices have, one behind the other along `axis`; all get it."""
    _require_group(in_group)
    return scaled(x, {axis: num_workers}, {})


@communication(
    "ccl.reduce_scatter",
    alike=False,
    lower=lambda x, num_workers, axis, mesh_axes: _parts_of_sum(
        x, axis, group_axes(mesh_axes, num_workers)
    ),
    gradient=lambda g, y, x, num_workers, axis, mesh_axes: call(
        "ccl.allgather", g, num_workers, axis=axis, mesh_axes=mesh_axes
    ),
    cost=REDUCES,
)
def reduce_scatter(
    x: TensorType, num_workers: int, axis: int = 0, mesh_axes: Group = None
) -> TensorType:
    """The sum of what all devices have, of which each gets its part along `axis`."""
    return scaled(x, {}, {axis: num_workers})


@communication(
    "ccl.all_to_all",
    alike=False,
    lower=lambda x, num_workers, split_axis, concat_axis, mesh_axes: lax.all_to_all(
        x, group_axes(mesh_axes, num_workers), split_axis % x.ndim, concat_axis % x.ndim, tiled=True
    ),
    gradient=lambda g, y, x, num_workers, split_axis, concat_axis, mesh_axes: call(
        "ccl.all_to_all", g, num_workers, concat_axis, split_axis, mesh_axes
    ),
)
def all_to_all(
    x: TensorType,
    num_workers: int,
    split_axis: int = 0,
    concat_axis: int = 0,
    mesh_axes: Group = None,
) -> TensorType:
    """Part i along `split_axis` goes to device i, which has all it gets along `concat_axis`."""
    return scaled(x, {concat_axis: num_workers}, {split_axis: num_workers})


def _parts_of_sum(x: Any, axis: int, axes: tuple[str, ...]) -> Any:
    place = axis % x.ndim
    if x.shape[place] == 0:  # which XLA does not part
        return x
    return lax.psum_scatter(x, axes, scatter_dimension=place, tiled=True)


def _all_gathered(x: Any, axis: int, axes: tuple[str, ...]) -> Any:
    place = axis % x.ndim
    return x if x.shape[place] == 0 else lax.all_gather(x, axes, axis=place, tiled=True)


def _only_first(x: Any, axes: tuple[str, ...]) -> Any:
    return jnp.where(lax.axis_index(axes) == 0, x, jnp.zeros_like(x))


def _summed(x: Any, axes: tuple[str, ...]) -> Any:
    """The sum over devices of numbers, or of bools of which one is true at most."""
    return lax.psum(x, axes).astype(x.dtype)


@communication(
    "ccl.broadcast_from_worker0",
    alike=True,
    lower=lambda x, mesh_axes: _summed(
        _only_first(x, group_axes(mesh_axes)), group_axes(mesh_axes)
    ),
    gradient=lambda g, y, x, mesh_axes: call("ccl.reduce_to_worker0", g, mesh_axes),
)
def broadcast_from_worker0(x: TensorType, mesh_axes: Group = None) -> TensorType:
    """What worker 0 has; all get it."""
    return x


@communication(
    "ccl.reduce_to_worker0",
    alike=False,
    lower=lambda x, mesh_axes: _only_first(
        _summed(x, group_axes(mesh_axes)), group_axes(mesh_axes)
    ),
    gradient=lambda g, y, x, mesh_axes: call("ccl.broadcast_from_worker0", g, mesh_axes),
    cost=REDUCES,
)
def reduce_to_worker0(x: TensorType, mesh_axes: Group = None) -> TensorType:
    """The sum of what all devices have for worker 0, zeros for the others."""
    return x


def _scattered(x: Any, num_workers: int, axis: int, mesh_axes: Any) -> Any:
    axes = group_axes(mesh_axes, num_workers)
    numbers = x.astype(jnp.int8) if x.dtype == jnp.bool_ else x
    first = _only_first(numbers, axes)
    return _parts_of_sum(first, axis, axes).astype(x.dtype)


@communication(
    "ccl.scatter_from_worker0",
    alike=False,
    lower=_scattered,
    gradient=lambda g, y, x, num_workers, axis, mesh_axes: call(
        "ccl.gather_to_worker0", g, num_workers, axis, mesh_axes
    ),
)
def scatter_from_worker0(
    x: TensorType, num_workers: int, axis: int = 0, mesh_axes: Group = None
) -> TensorType:
    """What worker 0 has, of which each device gets its part along `axis`."""
    return scaled(x, {}, {axis: num_workers})


def _gathered(x: Any, num_workers: int, axis: int, mesh_axes: Any) -> Any:
    axes = group_axes(mesh_axes, num_workers)
    return _only_first(_all_gathered(x, axis, axes), axes)


@communication(
    "ccl.gather_to_worker0",
    alike=False,
    lower=_gathered,
    gradient=lambda g, y, x, num_workers, axis, mesh_axes: call(
        "ccl.scatter_from_worker0", g, num_workers, axis, mesh_axes
    ),
)
def gather_to_worker0(
    x: TensorType, num_workers: int, axis: int = 0, mesh_axes: Group = None
) -> TensorType:
    """What all devices have, along `axis`, for worker 0; zeros for the others."""
    return scaled(x, {axis: num_workers}, {})


def _permuted(x: Any, pairs: Sequence[tuple[int, int]], mesh_axes: Any) -> Any:
    axes = group_axes(mesh_axes)
    count = math.prod(lax.axis_size(axis) for axis in axes)
    beyond = sorted({number for pair in pairs for number in pair if number >= count})
    if beyond:
        raise OpError(f"`pairs` names the devices {beyond}, but there are {count}, from 0 on")
    return lax.ppermute(x, axes, pairs)


@communication(
    "ccl.permute",
    alike=False,
    lower=_permuted,
    gradient=lambda g, y, x, pairs, mesh_axes: call(
        "ccl.permute", g, [(target, source) for source, target in pairs], mesh_axes
    ),
)
def permute(x: TensorType, pairs: Pairs, mesh_axes: Group = None) -> TensorType:
    """For each pair (i, j), what device i has is what j gets; who gets nothing has zeros."""
    return x


def _require_group(in_group: bool) -> None:
    """TVM's other groups are axes of a mesh here."""
    if not in_group:
        raise OpError("`in_group` must be True: name the axes of the mesh in `mesh_axes` instead")


def scaled(x: TensorType, times: dict[int, int], parts: dict[int, int]) -> TensorType:
    """A tensor so many times as long along some axes, and one of so many parts along others."""
    for count in (*times.values(), *parts.values()):
        if count < 1:
            raise OpError(f"`num_workers` must be at least 1, found {count}")
    if x.ndim < 0 or x.dims is None:
        return TensorType(None, x.dtype, x.ndim, x.vdevice)
    dims: list[Dim] = list(x.dims)
    for given, count in parts.items():
        axis = normalize_axis(given, x.ndim)
        size = dims[axis]
        if isinstance(size, int) and size % count:
            raise OpError(
                f"dimension {axis} of size {size} has no {count} equal parts, one for each device"
            )
        dims[axis] = size // count
    for given, count in times.items():
        axis = normalize_axis(given, x.ndim)
        dims[axis] = dims[axis] * count
    return TensorType(dims, x.dtype, vdevice=x.vdevice)
