"""Parameters that are split as the batch is: each device gets all of one where it is used.

Left to itself, XLA may as well gather what is multiplied by a parameter, which grows with the
batch. A loop over layers has their parameters as rows of stacks: its body gathers those of its own
layer, and so does the backward loop, so that there is one layer at a time. Layers that are apart
are gathered again on the way back, and not before the layer behind them is done.

A table of which rows are looked up stays apart: XLA finds the rows where they lie. If it is parted
along what a row has, so is all that is found, and then whatever comes of that: where that is more
than the table, the table is gathered, too.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias, TypeGuard

import jax
from jax.sharding import Mesh

from relaxjax.ir.device_mesh import DeviceMesh, parts_text
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.tensor_types import has_floats, static_dims
from relaxjax.ir.types import TensorType
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
    function: Function = mod[name]
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
    late = _behind_results(function.body)
    body = gather.sequence(function.body, split, late)
    return mod.with_function(name, replace(function, body=body))


@dataclass
class _Gathered:
    """Where the whole of a variable is, for early bindings and again for late ones.

    The late ones wait for a `moment`. What the early ones used last is there still for them.
    """

    late: Collection[Var]
    early: dict[Var, Var] = field(default_factory=dict)
    again: dict[Var, Var] = field(default_factory=dict)
    used_last: Collection[Var] = ()
    moment: Var | None = None

    def for_binding(self, binding: Binding, var: Var) -> tuple[dict[Var, Var], Var | None]:
        """Where the whole of a variable is for a binding, and what to wait for to gather it."""
        is_late = binding.var in self.late and self.moment is not None
        if is_late and var not in self.used_last:
            return self.again, self.moment
        return self.early, None

    def passed(self, binding: Binding, used: Collection[Var]) -> None:
        """Go on behind a binding, which used some variables whole."""
        if binding.var not in self.late:
            self.used_last = used or self.used_last
        elif has_floats(binding.var.ty):
            self.moment = binding.var


@dataclass(frozen=True)
class _Gathering:
    """What is gathered along which axes of a mesh."""

    mesh: DeviceMesh
    axes: Axes

    def sequence(
        self, seq: SeqExpr, known: Mapping[Var, Splits], late: Collection[Var] = ()
    ) -> SeqExpr:
        """A sequence of bindings, in which variables are parameters or tuples of them.

        What the `late` ones need is gathered again for them.
        """
        splits = dict(known)
        rows: dict[Expr, Splits] = {}  # what the body of a loop gets of stacks at a step
        for binding in seq.bindings():
            value = binding.value
            splits[binding.var] = _splits_of(value, splits)
            if _is_loop(value):
                body, _, stacks = value.args
                rows[body] = _rows(_splits_of(stacks, splits))
        gathered = _Gathered(late)
        blocks = []
        for block in seq.blocks:
            bindings: list[Binding] = []
            for binding in block.bindings:
                bindings += self._binding(binding, splits, rows.get(binding.var), gathered)
            blocks.append(replace(block, bindings=tuple(bindings)))
        return replace(seq, blocks=tuple(blocks))

    def _binding(
        self, binding: Binding, splits: Mapping[Var, Splits], rows: Splits, gathered: _Gathered
    ) -> Iterator[Binding]:
        """A binding, behind those of what it needs all of."""
        value = binding.value
        if isinstance(value, Function) and rows is not None:
            value = replace(value, body=self.sequence(value.body, {value.params[1]: rows}))
        mapping: dict[Var, Var] = {}
        is_apart = _is_apart(binding, splits)
        for var in _used_whole(value, is_apart):
            split = splits.get(var)
            if not isinstance(split, tuple) or not self._is_gathered(split):
                continue
            whole, moment = gathered.for_binding(binding, var)
            if var not in whole:
                bindings = [*self._steps(var, split, moment)]
                whole[var] = bindings[-1].var
                yield from (replace(one, span=binding.span) for one in bindings)
            mapping[var] = whole[var]
        gathered.passed(binding, mapping)
        yield replace(binding, value=_with_whole(value, mapping, is_apart))

    def _is_gathered(self, split: Split) -> bool:
        """Whether it is split along the axes of the batch, and else as a placement can say it."""
        others = [[axis for axis in entry if axis not in self.axes] for entry in split]
        in_order = [sorted(entry, key=self.mesh.axes.index) for entry in others]
        return others != list(map(list, split)) and others == in_order

    def _steps(self, var: Var, split: Split, moment: Var | None) -> Iterator[VarBinding]:
        """What gathers a variable, once a moment has come.

        What waits is still split: XLA would gather it before that, and keep it.
        """
        source = var
        if moment is not None:
            late, source = (Var(f"{var.name}_late", var.ty) for _ in range(2))
            yield VarBinding(late, get_op("relax.grad.delay")(var, moment))
            yield VarBinding(source, self._lying(late, split))
        others = tuple(tuple(a for a in entry if a not in self.axes) for entry in split)
        yield VarBinding(Var(f"{var.name}_whole", var.ty), self._lying(source, others))

    def _lying(self, var: Var, split: Split) -> Expr:
        parts = [
            next((dim for dim, entry in enumerate(split) if axis in entry), None)
            for axis in self.mesh.axes
        ]
        annotate = get_op("relax.dist.annotate_sharding")
        return annotate(var, self.mesh, parts_text(parts))


def _behind_results(seq: SeqExpr) -> set[Var]:
    """What an adjoint computes behind the last of what the function itself gives."""
    bound = [binding.var for binding in seq.bindings()]
    fields = seq.body.fields[:-1] if isinstance(seq.body, Tuple) else ()
    results = {var for one in fields for var in used_vars(one)}
    last = max((at for at, var in enumerate(bound) if var in results), default=len(bound))
    return set(bound[last + 1 :])


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


def _used_whole(value: Expr, is_apart: bool) -> tuple[Var, ...]:
    """The variables of a binding that it computes with, and does not hand on or look rows up in."""
    if isinstance(value, Var | Tuple | TupleGetItem) or _is_loop(value):
        return ()
    if is_apart and isinstance(value, Call):
        return tuple(var for arg in value.args[1:] for var in used_vars(arg))
    return used_vars(value)


def _is_apart(binding: Binding, splits: Mapping[Var, Splits]) -> bool:
    """Whether a binding looks rows up in a table that is to stay apart."""
    value = binding.value
    if not _is_lookup(value):
        return False
    table = value.args[0]
    split = splits.get(table) if isinstance(table, Var) else None
    if not isinstance(split, tuple):
        return True
    parted = {dim for dim, entry in enumerate(split) if entry}
    size, found = _size(table), _size(binding.var)
    is_smaller = size is not None and found is not None and size < found
    return not is_smaller or parted <= _looked_up(value)


def _looked_up(value: Call) -> set[int]:
    """The dimensions of a table along which its indices go."""
    if value.op is get_op("relax.take"):
        axis, ty = value.attrs["axis"], value.args[0].ty
        return {axis % ty.ndim} if isinstance(ty, TensorType) and axis is not None else {0}
    return set(value.attrs["dimension_numbers"]["GatherDimensionNumbers"]["start_index_map"])


def _size(expr: Expr) -> int | None:
    """How many numbers a tensor has, None where that is not known."""
    dims = static_dims(expr.ty)
    return None if dims is None else prod(dims)


def _is_lookup(value: Expr) -> TypeGuard[Call]:
    return isinstance(value, Call) and operator_name(value) in _LOOKUPS


def _with_whole(value: Expr, mapping: Mapping[Var, Var], is_apart: bool) -> Expr:
    if not is_apart or not isinstance(value, Call):
        return substitute(value, mapping)
    table, *others = value.args
    return replace(value, args=(table, *(substitute(other, mapping) for other in others)))
