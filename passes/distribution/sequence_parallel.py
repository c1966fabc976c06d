"""Sequences in parts: the values between the products of a model of sequences."""

from collections.abc import Callable
from typing import Any

from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.ir.dims import can_prove_equal
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.retype import retyped
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory

from .placing import (
    along,
    axis_of,
    can_be_parted,
    inputs_of,
    mesh_for,
    model_of,
    with_placements,
)

_NORMS = ("relax.nn.layer_norm", "relax.nn.rms_norm")


@pass_factory(opt_level=0)
def SequenceParallel(
    mod: IRModule, mesh: Any = None, axis: str | None = None, func_name: str | None = None
) -> IRModule:
    """Part the second dimension of inputs, that of sequences, and of what normalisations give.

    Between the products of a transformer each position is computed by itself, so a device needs
    only its part of the sequence there, and keeps less for the way back. XLA gathers it where
    attention, or a product whose weight is parted, needs all.

    Args:
        mesh: as in AnnotateSharding.
        axis: the axis of the mesh, by default the last one.
        func_name: the model, by default `backbone` or `main`. The module says by `param_num` and
            `state_num` which parameters are inputs.
    """
    over = mesh_for(mod, mesh)
    name, function = model_of(mod, func_name)
    along_axis = axis_of(over, axis, -1)
    inputs = {
        param: param.ty
        for param in inputs_of(mod, name, function)
        if isinstance(param.ty, TensorType) and param.ty.ndim > 1
    }
    lengths = [ty.dims[1] for ty in inputs.values() if ty.dims is not None]
    places = {p: along(over, along_axis, 1, ty.placement) for p, ty in inputs.items()}
    placed = with_placements(mod, places, [over])

    def is_sequence(ty: TensorType) -> bool:
        if ty.ndim < 2 or ty.dims is None or not can_be_parted(ty, 1, over.size(along_axis)):
            return False
        return any(can_prove_equal(ty.dims[1], length) for length in lengths)

    rule = _annotating(over, along_axis, is_sequence)
    changed = expand_calls(placed[name], rule)
    return placed if changed is placed[name] else placed.with_function(name, retyped(changed))


def _annotating(
    mesh: DeviceMesh, axis: str, is_sequence: Callable[[TensorType], bool]
) -> Callable[[Call], Expr | None]:
    """A rule that puts an annotation behind each normalisation of sequences."""
    annotate = get_op("relax.dist.annotate_sharding")

    def rule(call: Call) -> Expr | None:
        if not isinstance(call.op, Op) or call.op.name not in _NORMS:
            return None
        if not isinstance(call.ty, TensorType) or not is_sequence(call.ty):
            return None
        data = call.args[0].ty
        before = data.placement if isinstance(data, TensorType) else None
        return annotate(call, mesh, along(mesh, axis, 1, before).text)

    return rule
