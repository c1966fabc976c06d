"""A model in training at a glance: its layers with their shapes, parameters, FLOPs and bytes.

A layer begins at a binding that reads a parameter of two dimensions or more, and ends where the
next one begins. What computes something of parameters alone counts in the layer that reads it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from relaxjax.ir.dim_variables import dim_vars, substitute_dim
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.tables import aligned, html_lines, html_table, shown_bytes, shown_flops
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import free_vars, type_symbols
from relaxjax.ir.wording import counted
from relaxjax.ops.cost import cost_of, function_cost
from relaxjax.ops.cost_rules import Cost, byte_count, elements
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import BACKBONE, BACKBONE_LOSS, TRAIN_STEP

from .layout import Layout

_TITLES = ("layer", "gives", "parameters", "numbers", "bytes", "forward", "moves")
_NAMED = 4  # of the parameters of a layer


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One layer: what it is called and gives, its parameters, and what it costs as it predicts.

    `flops` and `moved_bytes` are those of one sample where the batch has a symbolic size, and None
    where they cannot be known.
    """

    name: str
    gives: str
    params: tuple[str, ...]
    numbers: int
    bytes: int
    flops: int | None
    moved_bytes: int | None


@dataclass(frozen=True, slots=True, repr=False)
class ModelSummary:
    """A model's layers in their order, and what all of it comes to.

    `print(summary)` shows it as a table, and so does a notebook.
    """

    layers: tuple[LayerSummary, ...]
    param_numbers: int
    param_bytes: int
    state_bytes: int  # of the model
    optimizer_bytes: int
    forward_flops: int | None
    step_flops: int | None  # of one training step: forward, backward and the optimizer's update
    symbols: tuple[str, ...]  # sizes that the model leaves open; costs are those of 1

    def __str__(self) -> str:
        return "\n".join([*aligned(self._rows()), "", *self._sums()])

    def __repr__(self) -> str:
        return (
            f"<ModelSummary of {counted(len(self.layers), 'layer')}: {self.param_numbers:,} "
            f"numbers in parameters, {_flops(self.step_flops)} a training step>"
        )

    def _repr_html_(self) -> str:
        return f"<div>{html_table(self._rows())}{html_lines(self._sums())}</div>"

    def _rows(self) -> list[tuple[str, ...]]:
        return [_TITLES, *map(_row, self.layers)]

    def _sums(self) -> list[str]:
        held = {
            f"{self.param_numbers:,} numbers in parameters": self.param_bytes,
            "model states": self.state_bytes,
            "optimizer states": self.optimizer_bytes,
        }
        return [
            ", ".join(f"{what}: {shown_bytes(count)}" for what, count in held.items()),
            f"forward: {_flops(self.forward_flops)}, training step: {_flops(self.step_flops)}"
            + "".join(f", {name} = 1" for name in self.symbols),
        ]


def summary_of(mod: IRModule, layout: Layout) -> ModelSummary:
    """The summary of a module that `SetupTrainer` made."""
    params = [var.ty for var in layout.params.vars]
    forward = forward_function(mod)
    return ModelSummary(
        layers=tuple(_layers(mod)),
        param_numbers=sum(_at_one(elements(ty)) for ty in params),
        param_bytes=_bytes(params),
        state_bytes=_bytes([var.ty for var in layout.states.vars]),
        optimizer_bytes=_bytes([var.ty for var in layout.optimizer.vars]),
        forward_flops=_flops_of(mod, forward),
        step_flops=_flops_of(mod, TRAIN_STEP),
        symbols=tuple(
            dict.fromkeys(s.name for var in mod[forward].params for s in type_symbols(var.ty))
        ),
    )


def forward_function(mod: IRModule) -> str:
    """The function that computes forward: the model, or a loss from JAX that holds its own."""
    return BACKBONE if BACKBONE in mod else BACKBONE_LOSS


@dataclass(slots=True)
class _Open:
    """A layer that is being read: what belongs to it so far."""

    params: list[Var] = field(default_factory=list)
    last: Var | None = None
    cost: Cost | None = field(default_factory=Cost)

    def add(self, var: Var, cost: Cost | None) -> None:
        self.last = var
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def closed(self) -> LayerSummary:
        assert self.last is not None
        types = [var.ty for var in self.params]
        return LayerSummary(
            name=self.last.name,
            gives=_shape(self.last.ty),
            params=tuple(var.name for var in self.params),
            numbers=sum(_at_one(elements(ty)) for ty in types),
            bytes=_bytes(types),
            flops=None if self.cost is None else _at_one(self.cost.flops),
            moved_bytes=None if self.cost is None else _at_one(self.cost.bytes),
        )


def _layers(mod: IRModule) -> Iterator[LayerSummary]:
    """The layers of the model, in the order of its bindings."""
    name = forward_function(mod)
    # What is computed of parameters alone: of which ones, and what it costs.
    prepared: dict[Var, tuple[tuple[Var, ...], Cost | None]] = {
        var: ((var,), Cost()) for var in Arguments.of(mod, name).params
    }
    closures: dict[Var, Function] = {}
    seen: set[Var] = set()
    layer = _Open()
    for binding in mod[name].body.bindings():
        value: Expr = binding.value
        if isinstance(value, Function):  # the body of a loop, whose cost is that of the loop
            closures[binding.var] = value
            continue
        read = free_vars(value)
        cost = cost_of(value, mod, closures) if isinstance(value, Call) else Cost()
        ready = [prepared[var] for var in read if var in prepared]
        found = tuple(dict.fromkeys(var for sources, _ in ready for var in sources))
        costs = [cost, *(each for _, each in ready)]
        if read and len(ready) == len(read):
            prepared[binding.var] = (found, _sum(costs))
            continue
        new = [var for var in found if var not in seen]
        if any(_is_matrix(var.ty) for var in new) and layer.params:
            yield layer.closed()
            layer = _Open()
        seen.update(new)
        layer.params += new
        layer.add(binding.var, _sum(costs) if new else cost)
    if layer.last is not None:
        yield layer.closed()


def _sum(costs: Sequence[Cost | None]) -> Cost | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known, start=Cost()) if len(known) == len(costs) else None


def _is_matrix(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) and (ty.ndim or 0) >= 2


def _flops_of(mod: IRModule, name: str) -> int | None:
    cost = function_cost(mod[name], mod)
    return None if cost is None else _at_one(cost.flops)


def _bytes(types: Sequence[Type | None]) -> int:
    return sum(_at_one(byte_count(ty)) for ty in types)


def _at_one(count: Dim) -> int:
    """A count with 1 for each size that is left open."""
    found = substitute_dim(count, dict.fromkeys(dim_vars(count), 1))
    assert isinstance(found, int)
    return found


def _shape(ty: Type | None) -> str:
    if isinstance(ty, TupleType):
        return f"({', '.join(map(_shape, ty.fields))})"
    if not isinstance(ty, TensorType) or ty.dims is None:
        return "-" if ty is None else str(ty)
    return f"{ty.dtype}[{', '.join(map(str, ty.dims))}]"


def _row(layer: LayerSummary) -> tuple[str, ...]:
    moved = "?" if layer.moved_bytes is None else shown_bytes(layer.moved_bytes)
    first, others = layer.params[:_NAMED], len(layer.params) - _NAMED
    params = ", ".join(first) + (f" and {others} more" if others > 0 else "")
    counts = (f"{layer.numbers:,}", shown_bytes(layer.bytes), _flops(layer.flops), moved)
    return layer.name, layer.gives, params or "-", *counts


def _flops(count: int | None) -> str:
    return "?" if count is None else shown_flops(count)
