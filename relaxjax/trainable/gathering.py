"""Parameters that are split as the batch is: each device gets all of one where it is used.

Left to itself, XLA may as well gather what is multiplied by a parameter, which grows with the
batch. A loop over layers has their parameters as rows of stacks: its body gathers those of its own
layer, and so does the backward loop, so that there is one layer at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

import jax
from jax.sharding import Mesh

from relaxjax.ir.device_mesh import DeviceMesh, parts_text
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.walk import substitute, used_vars

from .arguments import Arguments
from .names import ADJOINT
from .sharding import WHOLE, Axes, Distribution, Split, stored_splits
from .storage import params_of

# The split of a parameter, or those of a tuple of them; None of any other value.
Splits: TypeAlias = "Split | list[Splits] | None"

_SCAN = "relax.scan"
_LOOKUPS = ("lax.gather", "relax.take")  # of a few rows: XLA finds them where they lie


def with_gathered_params(mod: IRModule, mesh: Mesh | None) -> IRModule:
    """The module whose adjoint says on a mesh where it needs all of a parameter."""
    spread = Distribution.of(mod)
    if mesh is None or spread is None:
        return mod
    arguments = Arguments.of(mod, ADJOINT)
    own, storage = params_of(mod, arguments.params)
    of_params, of_states = spread.group("params"), spread.group("states")
    params = stored_splits([of_params.get(var.name, WHOLE) for var in own], storage)
    splits: dict[Var, Split] = dict(zip(arguments.params, params, strict=True))
    splits |= {var: of_states.get(var.name, WHOLE) for var in arguments.states}
    return gathering(mod, ADJOINT, splits, spread.batch, mesh)


def gathering(
    mod: IRModule, name: str, splits: Mapping[Var, Split], axes: Axes, mesh: Mesh
) -> IRModule:
    """The module, a function of which gathers its parameters along some axes as it uses them."""
    function = mod[name]
    assert isinstance(function, Function)
    split = {
        var: split
        for var, split in splits.items()
        if any(axis in axes for entry in split for axis in entry)
    }
    if not split:
        return mod
    places = {device: n for n, device in enumerate(jax.devices(mesh.devices.flat[0].platform))}
    on = [places[device] for device in mesh.devices.flat]
    gather = _Gathering(DeviceMesh(mesh.devices.shape, on, list(mesh.axis_names)), axes)
    return mod.with_function(name, replace(function, body=gather.sequence(function.body, split)))


@dataclass(frozen=True)
class _Gathering:
    """What is gathered along which axes of a mesh."""

    mesh: DeviceMesh
    axes: Axes

    def sequence(self, seq: SeqExpr, known: Mapping[Var, Splits]) -> SeqExpr:
        """A sequence of bindings, in which variables are parameters or tuples of them."""
        splits = dict(known)
        rows: dict[Expr, Splits] = {}  # what the body of a loop gets of stacks at a step
        for binding in seq.bindings():
            value = binding.value
            splits[binding.var] = _splits_of(value, splits)
            if _is_loop(value):
                body, _, stacks = value.args
                rows[body] = _rows(_splits_of(stacks, splits))
        whole: dict[Var, Var] = {}
        blocks = []
        for block in seq.blocks:
            bindings: list[Binding] = []
            for binding in block.bindings:
                bindings += self._binding(binding, splits, rows.get(binding.var), whole)
            blocks.append(replace(block, bindings=tuple(bindings)))
        return replace(seq, blocks=tuple(blocks))

    def _binding(
        self,
        binding: Binding,
        splits: Mapping[Var, Splits],
        rows: Splits,
        whole: dict[Var, Var],
    ) -> Iterator[Binding]:
        """A binding, behind those of what it needs all of."""
        value = binding.value
        if isinstance(value, Function) and rows is not None:
            value = replace(value, body=self.sequence(value.body, {value.params[1]: rows}))
        for var in _used_whole(value):
            split = splits.get(var)
            if isinstance(split, tuple) and self._is_gathered(split) and var not in whole:
                whole[var] = Var(f"{var.name}_whole", var.ty)
                yield VarBinding(whole[var], self._gathered(var, split), span=binding.span)
        mapping = {var: whole[var] for var in _used_whole(value) if var in whole}
        yield replace(binding, value=_with_whole(value, mapping))

    def _is_gathered(self, split: Split) -> bool:
        """Whether it is split along the axes of the batch, and else as a placement can say it."""
        others = [[axis for axis in entry if axis not in self.axes] for entry in split]
        in_order = [sorted(entry, key=self.mesh.axes.index) for entry in others]
        return others != list(map(list, split)) and others == in_order

    def _gathered(self, var: Var, split: Split) -> Expr:
        parts = [
            next((dim for dim, entry in enumerate(split) if axis in entry), None)
            if axis not in self.axes
            else None
            for axis in self.mesh.axes
        ]
        annotate = get_op("relax.dist.annotate_sharding")
        return annotate(var, self.mesh, parts_text(parts))


def _splits_of(value: Expr, splits: Mapping[Var, Splits]) -> Splits:
    match value:
        case Var():
            return splits.get(value)
        case Tuple(fields=fields):
            return [_splits_of(field, splits) for field in fields]
        case TupleGetItem(tuple_value=inner, index=index):
            found = _splits_of(inner, splits)
            return found[index] if isinstance(found, list) else None
        case _:
            return None


def _rows(splits: Splits) -> Splits:
    """The splits of the rows of stacks, where each device has some of every row."""
    if isinstance(splits, list):
        return [_rows(one) for one in splits]
    return splits[1:] if splits and not splits[0] else None


def _is_loop(value: Expr) -> TypeGuard[Call]:
    return isinstance(value, Call) and value.op is get_op(_SCAN)


def _used_whole(value: Expr) -> tuple[Var, ...]:
    """The variables of a binding that it computes with, and does not hand on or look rows up in."""
    if isinstance(value, Var | Tuple | TupleGetItem) or _is_loop(value):
        return ()
    if _is_lookup(value):
        return tuple(var for arg in value.args[1:] for var in used_vars(arg))
    return used_vars(value)


def _is_lookup(value: Expr) -> TypeGuard[Call]:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name in _LOOKUPS


def _with_whole(value: Expr, mapping: Mapping[Var, Var]) -> Expr:
    if not _is_lookup(value):
        return substitute(value, mapping)
    table, *others = value.args
    return replace(value, args=(table, *(substitute(other, mapping) for other in others)))
