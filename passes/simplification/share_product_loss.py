"""The loss and the adjoints of a product's scores, made in one pass over the scores."""

from collections.abc import Sequence

from relaxjax.ir.expr import Call, TupleGetItem
from relaxjax.ir.function import Binding, BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.walk import used_vars
from relaxjax.passes.infrastructure.base import pass_factory

_LOSS, _BACKWARD = "relax.nn.product_nll_loss", "relax.grad.product_nll_loss_backward"


@pass_factory(opt_level=0, kind="function")
def ShareProductLoss(function: Function, mod: IRModule) -> Function:
    """Take the loss of a product's scores from where its adjoints are computed.

    They are computed of the same scores, a product of the size of which a backward program has
    three then, and not four. It is not done where the adjoint of the loss needs the loss.
    """
    blocks = tuple(map(_shared, function.body.blocks))
    if all(new is old for new, old in zip(blocks, function.body.blocks, strict=True)):
        return function
    return replace(function, body=SeqExpr(blocks, function.body.body, span=function.body.span))


def _shared(block: BindingBlock) -> BindingBlock:
    bindings = list(block.bindings)
    for binding in block.bindings:
        backward = _call(binding, _BACKWARD)
        if backward is not None:
            bindings = _with_loss_of(bindings, binding, backward)
    unchanged = len(bindings) == len(block.bindings) and all(
        new is old for new, old in zip(bindings, block.bindings, strict=True)
    )
    return block if unchanged else replace(block, bindings=tuple(bindings))


def _with_loss_of(bindings: Sequence[Binding], backward: Binding, call: Call) -> list[Binding]:
    """The bindings with the loss of `backward`, before which stands what it needs and no more."""
    end = next(place for place, binding in enumerate(bindings) if binding is backward)
    for start, binding in enumerate(bindings[:end]):
        loss = _call(binding, _LOSS)
        if loss is None or loss.args != call.args[1:] or loss.attrs != call.attrs:
            continue
        behind, before = [], []
        late = {binding.var}
        for other in bindings[start + 1 : end + 1]:
            if late & set(used_vars(other.value)):
                late.add(other.var)
                behind.append(other)
            else:
                before.append(other)
        if backward.var not in late:
            taken = VarBinding(binding.var, TupleGetItem(backward.var, 0), span=binding.span)
            return [*bindings[:start], *before, taken, *behind, *bindings[end + 1 :]]
    return list(bindings)


def _call(binding: Binding, name: str) -> Call | None:
    value = binding.value
    if not isinstance(binding, VarBinding) or not isinstance(value, Call):
        return None
    return value if isinstance(value.op, Op) and value.op.name == name else None
