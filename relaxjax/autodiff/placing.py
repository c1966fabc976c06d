"""Where the arrays of a loss lie on a mesh, as a user says it to a function of arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AxisType, Mesh, NamedSharding

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.types import TensorType
from relaxjax.ops.platform import chosen_platform, platform_name
from relaxjax.passes.training.setup_trainer import spread_over
from relaxjax.trainable.gathering import gathering
from relaxjax.trainable.sharding import (
    WHOLE,
    Axes,
    Distribution,
    MeshLike,
    axes_of,
    device_numbers,
    named_sharding,
)
from relaxjax.trainable.sharding_rules import ShardingLike, distribution

from .arguments import Arguments


@dataclass(frozen=True)
class Placing:
    """A mesh, and how arrays are split on it."""

    given: MeshLike
    sharding: ShardingLike

    @staticmethod
    def of(
        mesh: MeshLike | None, sharding: ShardingLike | None, devices: int | None
    ) -> "Placing | None":
        """As people say it; None where they leave arrays where they are."""
        spread = spread_over(mesh, sharding, devices)
        return None if spread is None else Placing(*spread)

    @property
    def platform(self) -> str:
        """The platform of the mesh's devices."""
        if isinstance(self.given, Mesh):
            return platform_name(self.given.devices.flat[0])
        return chosen_platform()

    @cached_property
    def mesh(self) -> Mesh:
        """The mesh, within which XLA decides what it moves."""
        axes, numbers = axes_of(self.given), device_numbers(self.given)
        return Distribution(axes, devices=numbers).mesh(jax.devices(self.platform))

    @property
    def whole(self) -> NamedSharding:
        """Where an array lies that every device has all of."""
        return named_sharding(self.mesh, WHOLE)

    def shardings(
        self,
        names: Sequence[str],
        ways: Sequence[str],
        params: Sequence[Any],
        states: Sequence[Any] = (),
        batch: Sequence[Any] = (),
    ) -> tuple[list[NamedSharding], list[NamedSharding], list[NamedSharding]]:
        """Those of parameters, of what else a step changes, and of a batch."""
        mesh, sharding = self.mesh, by_name(self.sharding, names, ways)
        groups = {
            "params": list(map(var_of, names, params)),
            "states": [var_of(f"state {n}", array) for n, array in enumerate(states)],
        }
        inputs = {"inputs": [var_of(str(n), array) for n, array in enumerate(batch)]}
        axes = axes_of(self.given)
        found = distribution(sharding, axes, groups, inputs, device_numbers(self.given))

        def of_group(group: str, vars_: Sequence[Var]) -> list[NamedSharding]:
            splits = found.group(group)
            return [named_sharding(mesh, splits.get(var.name, WHOLE)) for var in vars_]

        placed = [of_group(group, vars_) for group, vars_ in (groups | inputs).items()]
        return placed[0], placed[1], placed[2]

    def of_call(self, arguments: Arguments, given: Sequence[Any]) -> "CallPlaces":
        """Where a program has what it takes: what it captured, then the arguments of a loss.

        What these are differentiated by are parameters, what else they have is of a batch.
        """
        check_placeable(given)
        leaves, names, ways = arguments.leaves, arguments.names, arguments.ways
        asked = arguments.asked
        beside = [place for place in arguments.traced if place not in asked]
        params, _, batch = self.shardings(
            unique([names[place] for place in asked]),
            [ways[place] for place in asked],
            [leaves[place] for place in asked],
            batch=[leaves[place] for place in beside],
        )
        found = dict(zip([*asked, *beside], [*params, *batch], strict=True))
        own = [found[place] for place in arguments.traced]
        axes = {axis for one in batch for entry in one.spec for axis in as_axes(entry)}
        return CallPlaces(self.mesh, tuple(axes), [*[self.whole] * (len(given) - len(own)), *own])


@dataclass(frozen=True)
class CallPlaces:
    """The shardings of what the program of a loss takes, and the axes along which a batch is."""

    mesh: Mesh
    axes: Axes
    arrays: list[NamedSharding]

    def with_gathered_params(self, mod: IRModule, name: str, wanted: Sequence[int]) -> IRModule:
        """The module whose function gathers what it is differentiated by where it uses that."""
        params = mod[name].params
        splits = {params[place]: tuple(map(as_axes, self.arrays[place].spec)) for place in wanted}
        return gathering(mod, name, splits, self.axes, self.mesh)


def as_axes(entry: str | Axes | None) -> Axes:
    """The axes that an entry of a spec names."""
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def unique(names: Sequence[str]) -> list[str]:
    """Names as a program has them, which are all different."""
    made = Names()
    return [made.unique(name) for name in names]


def by_name(sharding: ShardingLike, names: Sequence[str], ways: Sequence[str]) -> ShardingLike:
    """A sharding with patterns as the names of those parameters that they are for.

    They may go by the ways to parameters, such as `layers/0/w`, or by their names in the program.
    """
    if not isinstance(sharding, Mapping):
        return sharding
    found: dict[str, Any] = {}
    for pattern, spec in sharding.items():
        matching = [
            name
            for name, way in zip(names, ways, strict=True)
            if fnmatchcase(way, pattern) or fnmatchcase(name, pattern)
        ]
        if not matching:
            raise ValueError(
                f"the pattern {pattern!r} of `sharding` is for none of the parameters "
                f"{', '.join(ways)}{did_you_mean(pattern, ways)}"
            )
        found = {**dict.fromkeys(matching, spec), **found}  # the first pattern says it
    return found


def placed(arrays: Any, shardings: Any) -> Any:
    """A pytree of arrays, or of the types of arrays, where they belong.

    What is there already is not copied. What JAX traces is told to be there.
    """
    return jax.tree.map(_placed, arrays, shardings)


def check_placeable(arrays: Sequence[Any]) -> None:
    """Refuse arrays whose types say where they lie, or that are one device's part of others."""
    for array in arrays:
        ty = jax.typeof(array)
        if ty.manual_axis_type.varying or AxisType.Manual in ty.sharding.mesh.axis_types:
            raise ValueError(
                "`mesh` places whole arrays, but inside jax.shard_map each device has its part "
                "of them: leave out `mesh` there"
            )
        if AxisType.Explicit in ty.sharding.mesh.axis_types:
            raise ValueError(
                f"`mesh` places arrays, but the type {ty.str_short()} of one says already where it "
                "lies, on a mesh with explicit axes: leave out `mesh`, and the program goes by "
                "these types"
            )


def _placed(array: Any, sharding: NamedSharding) -> Any:
    if isinstance(array, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)
    if isinstance(array, Tracer):
        return jax.lax.with_sharding_constraint(array, sharding)
    if isinstance(array, jax.Array) and array.sharding.is_equivalent_to(sharding, array.ndim):
        return array
    return jax.device_put(array, sharding)


def var_of(name: str, array: Any) -> Var:
    """A variable for an array."""
    ty = jax.typeof(array)
    return Var(name, TensorType(ty.shape, str(ty.dtype)))
