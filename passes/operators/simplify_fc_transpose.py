"""Taking the weights of dense layers as the layers use them: transposed already."""

from collections.abc import Sequence

from relaxjax.ir.builder import make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import post_order, rewrite
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.named_params import check_params
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings


@pass_factory(opt_level=0, kind="function")
def SimplifyFCTranspose(
    function: Function, mod: IRModule, target_weight_name: Sequence[str] = ()
) -> Function:
    """Take the named weights transposed, so that a dense layer need not transpose them.

    `search_fc_transpose` finds the names. A weight is a parameter of two dimensions that the
    function reads by permute_dims only; a parameter of the other shape
    replaces it, whose name gets a `_t`. The caller hands in the transposed array.
    """
    kind = "parameter of two dimensions that is read transposed only"
    check_params("target_weight_name", target_weight_name, mod, _weights, kind, _becomes)
    found = [param for param in _weights(function) if param.name in target_weight_name]
    return _with_transposed(function, found) if found else function


def search_fc_transpose(function: Function) -> list[str]:
    """The names of the parameters that a function reads transposed only."""
    return [param.name for param in _weights(function)]


def _weights(function: Function) -> list[Var]:
    transposes = [expr for expr in post_order(function) if _is_transpose(expr)]
    read = [expr.args[0] for expr in transposes if isinstance(expr, Call)]
    counts = count_uses(function)
    return [p for p in function.params if p in read and counts.get(p, 0) == read.count(p)]


def _is_transpose(expr: Expr) -> bool:
    if not isinstance(expr, Call) or expr.op is not get_op("relax.permute_dims"):
        return False
    ty, axes = expr.args[0].ty, expr.attrs["axes"]
    known = isinstance(ty, TensorType) and ty.dims is not None and ty.ndim == 2
    return known and (axes is None or [axis % 2 for axis in axes] == [1, 0])


def _with_transposed(function: Function, weights: Sequence[Var]) -> Function:
    new = {weight: _transposed(weight) for weight in weights}

    def rule(expr: Expr) -> Expr:
        if isinstance(expr, Call) and _is_transpose(expr) and isinstance(expr.args[0], Var):
            return new.get(expr.args[0], expr)
        return expr

    body = rewrite(function.body, rule)
    changed = make_function(
        [new.get(param, param) for param in function.params],
        body,
        ret_ty=function.ret_ty,
        pure=function.pure,
        attrs=function.attrs,
        span=function.span,
    )
    return remove_all_unused(canonical_bindings(changed))


def _becomes(name: str) -> tuple[str]:
    return (f"{name}_t",)


def _transposed(weight: Var) -> Var:
    assert isinstance(weight.ty, TensorType)
    assert weight.ty.dims is not None
    ty = replace(weight.ty, shape=weight.ty.dims[::-1])
    return Var(*_becomes(weight.name), ty, span=weight.span)
