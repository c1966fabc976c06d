"""Gradients that start as zeros or ones, made only where their numbers are needed."""

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Constant, Expr, ShapeExpr, Var
from relaxjax.ir.function import Binding, BindingBlock, Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, operator_of
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import kept, map_blocks, post_order, used_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.algebra import FILL_LAWS
from relaxjax.passes.simplification.apply_laws import rewritten
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.passes.simplification.tensors import filling, is_filling, tensor_filled


@pass_factory(opt_level=2, kind="function")
def LazyGradientInit(function: Function, mod: IRModule) -> Function:
    """Make tensors of zeros and ones only where something needs their numbers, and only then.

    Nothing is added to zeros or multiplied by ones, fields of tuples that are filled in are used
    directly, and a tensor that only lent its shape is let go. What remains stands right before its
    first use.

    The laws are those of SimplifyExpr on such tensors, and hold for finite numbers.
    """
    if not any(map(_is_filling, post_order(function))):
        return function
    plain = remove_all_unused(canonical_bindings(function))
    return map_blocks(rewritten(plain, _LAWS), _delayed)


@law(where=is_filling)
def by_shape(call: Call, op: Op, known: Uses) -> Expr | None:
    """A tensor like another by its shape."""
    number = filling(call, known)
    lent = any(not isinstance(arg, ShapeExpr | Constant) for arg in call.args)
    return tensor_filled(call, number) if lent and number is not None else None


_LAWS = Laws([by_shape, *FILL_LAWS])


def _delayed(block: BindingBlock) -> BindingBlock:
    """A block in which tensors that one number fills stand right before their first use."""
    waiting: dict[Var, Binding] = {}
    order: list[Binding] = []
    for binding in block.bindings:
        if _is_filling(binding.value) and not used_vars(binding.value):
            waiting[binding.var] = binding
            continue
        needed = [var for var in used_vars(binding.value) if var in waiting]
        order += [waiting.pop(var) for var in waiting.copy() if var in needed]
        order.append(binding)
    order += waiting.values()
    return replace(block, bindings=kept(block.bindings, order))


def _is_filling(value: Expr) -> bool:
    operator = operator_of(value)
    return operator is not None and is_filling(operator)
