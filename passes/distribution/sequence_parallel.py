"""Sequences in parts: the values between the products of a model of sequences."""

from collections.abc import Callable, Sequence
from typing import Any

from relaxjax.ir.device_mesh import Placement, parts_text
from relaxjax.ir.dims import Dim
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.retype import retyped
from relaxjax.ir.types import TensorType
from relaxjax.ops.shapes import same_dims
from relaxjax.passes.infrastructure.base import pass_factory

from .placing import along, axis_of, can_be_parted, inputs_of, mesh_for, model_of, with_placements

_NORMS = ("relax.nn.layer_norm", "relax.nn.rms_norm")


@pass_factory(opt_level=0)
def SequenceParallel(
    mod: IRModule, mesh: Any = None, axis: str | None = None, func_name: str | None = None
) -> IRModule:
    """Part the second dimension of inputs, that of sequences, and of what normalisations give.

    Between the products of a transformer each position is computed alone, so a device needs
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
    places = {p: along(over, along_axis, 1, ty.placement) for p, ty in inputs.items()}
    placed = with_placements(mod, places, [over])
    known = [(ty.dims, places[p]) for p, ty in inputs.items() if ty.dims is not None]
    changed = expand_calls(placed[name], _annotating(known, over.size(along_axis)))
    return placed if changed is placed[name] else placed.with_function(name, retyped(changed))


def _annotating(
    inputs: Sequence[tuple[Sequence[Dim], Placement]], size: int
) -> Callable[[Call], Expr | None]:
    """A rule that has normalised sequences lie as an input with the same batch and length does."""
    annotate = get_op("relax.dist.annotate_sharding")

    def rule(call: Call) -> Expr | None:
        ty = call.ty
        if not isinstance(call.op, Op) or call.op.name not in _NORMS:
            return None
        if not isinstance(ty, TensorType) or ty.dims is None or not can_be_parted(ty, 1, size):
            return None
        like = next((p for dims, p in inputs if same_dims(dims[:2], ty.dims[:2])), None)
        if like is None:
            return None
        parts = [dim if dim in (0, 1) else None for dim in like.parts]
        return annotate(call, like.mesh, parts_text(parts))

    return rule
