"""The adjoint of a model, as it is compiled."""

from collections.abc import Sequence
from typing import Any

from whole_model import WholeModel, type_of

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.infer import unify
from relaxjax.ir.module import IRModule
from relaxjax.lowering.selection import with_called
from relaxjax.passes import (
    BindSymbolicVars,
    CanonicalizeBindings,
    ChannelsLast,
    EliminateCommonSubexpr,
    FuseProductLoss,
    Gradient,
    LegalizeOps,
    MultiplyRowsOnce,
    Pass,
    SimplifyGradient,
)
from relaxjax.passes.training.fast_forms import fast_forms

from .stepped import planned

ADJOINT = "main_adjoint"


def prepared(
    model: WholeModel, simplify: bool = True, policy: str | None = None, first: Sequence[Pass] = ()
) -> IRModule:
    """The passes `first` on the model, then Gradient, and what makes its program fast or small.

    Where it is simplified, convolutions are computed with their channels last before Gradient.

    By a memory `policy`, it is planned as a part of a training step with Adam.
    """
    wanted = [param.name for param in model.module["main"].params[: len(model.params)]]
    mod = fixed(model)
    for one in first:
        mod = one(mod)
    if simplify:
        for one in (MultiplyRowsOnce(), FuseProductLoss(), ChannelsLast()):
            mod = one(mod)
    mod = Gradient("main", require_grads=wanted, lazy=simplify)(mod)
    if not simplify:
        return LegalizeOps()(mod)
    mod = with_called(mod, [ADJOINT])
    for one in (
        SimplifyGradient(),
        LegalizeOps(),
        EliminateCommonSubexpr(),
        CanonicalizeBindings(),
        *fast_forms(ADJOINT),
    ):
        mod = one(mod)
    return mod if policy is None else planned(mod, ADJOINT, len(model.params), policy)


def fixed(model: WholeModel) -> IRModule:
    """The module for the shapes of its arguments."""
    sizes: dict[SymbolicVar, Any] = {}
    args = (*model.params, *model.inputs)
    for param, arg in zip(model.module["main"].params, args, strict=True):
        unify(param.ty, type_of(arg), sizes)
    return BindSymbolicVars(sizes)(model.module) if sizes else model.module
