"""Differentiating loops: the backward half is a loop too, over the same steps in reverse."""

from collections.abc import Callable, Mapping, Sequence

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew
from relaxjax.ir.walk import free_vars, substitute

from .adjoint import Adjoint, Reverse, item, zeros
from .parts import Halves, in_terms_of

Parts = Callable[[SeqExpr, Sequence[Var]], Halves]


def emit_loop(
    builder: BlockBuilder, binding: Binding, body: Function, active: set[Var], part: Parts
) -> Reverse:
    """Run a loop that also stacks what its steps save; the reverse runs back through the stacks.

    The carry of the way back is the adjoint of the carry, and with it the adjoints of the
    variables from outside that the body uses, summed over the steps.
    """
    call = binding.value
    assert isinstance(call, Call)
    assert isinstance(call.op, Op)
    scan, (_, init, xs) = call.op, call.args
    body, _ = renew(body, visible=True)
    carry, x = body.params
    outer = [var for var in free_vars(body) if var in active]
    half = part(body.body, [carry, x, *outer])
    needed = [var for var in (carry,) if var in free_vars(half.backward)]
    taken = _taken_out_of(x, half.forward)
    kept_vars = (*(var for var in half.saved if var not in taken), *needed)

    step = _forward_step(body, half, kept_vars)
    forward = builder.emit(step, f"{binding.var.name}_step")
    kept = builder.emit(scan(forward, init, xs, **call.attrs), f"{binding.var.name}_kept")
    ys = builder.emit(TupleGetItem(kept, 1), f"{binding.var.name}_stacked")
    result = Tuple((TupleGetItem(kept, 0), TupleGetItem(ys, 0)))
    builder.emit_binding(replace(binding, value=result))

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        """Scan the steps backwards, then hand the adjoints of all that they used on."""
        emit, name = adjoint.builder.emit, binding.var.name
        step_back = _backward_step(half, carry, x, outer, kept_vars, taken)
        back = emit(step_back, f"{name}_step_adjoint")
        nothing = Tuple(tuple(adjoint.leaf(zeros(var.ty)) for var in outer))
        start = Tuple((adjoint.leaf(TupleGetItem(cotangent, 0)), nothing))
        stacks = Tuple((xs, TupleGetItem(ys, 1), TupleGetItem(cotangent, 1)))
        attrs = {**call.attrs, "reverse": not call.attrs["reverse"]}
        stacks_leaf = adjoint.builder.normalize_leaf(stacks)
        done = emit(scan(back, start, stacks_leaf, **attrs), f"{name}_inputs_adjoint")
        last = adjoint.leaf(TupleGetItem(done, 0))
        adjoint.distribute(init, TupleGetItem(last, 0))
        totals = adjoint.leaf(TupleGetItem(last, 1))
        for index, var in enumerate(outer):
            adjoint.update(var, TupleGetItem(totals, index))
        if carries_gradient(xs.ty):
            adjoint.distribute(xs, TupleGetItem(done, 1))

    return reverse


def _taken_out_of(x: Var, seq: SeqExpr) -> dict[Var, Expr]:
    """The variables that are parts of what each step is given: it is given them on the way back."""
    taken: dict[Var, Expr] = {}
    for binding in seq.bindings():
        match binding.value:
            case TupleGetItem(tuple_value=Var() as whole, index=index) if whole in (x, *taken):
                taken[binding.var] = TupleGetItem(taken.get(whole, whole), index)
    return taken


def _forward_step(body: Function, half: Halves, kept_vars: Sequence[Var]) -> Function:
    """`body(carry, x) -> (carry, (y, saved))`."""
    assert isinstance(half.forward.body, Tuple)
    builder = BlockBuilder()
    with builder.scope():
        for binding in half.forward.bindings():
            builder.emit_binding(binding)
        result = builder.normalize_leaf(half.forward.body.fields[0])
        carry, y = (builder.normalize_leaf(item(result, i)) for i in (0, 1))
        seq = builder.sequence((carry, Tuple((y, Tuple(tuple(kept_vars))))))
    return _step(body.params, seq)


def _backward_step(
    half: Halves,
    carry: Var,
    x: Var,
    outer: Sequence[Var],
    kept_vars: Sequence[Var],
    taken: Mapping[Var, Expr],
) -> Function:
    """`body((carry adjoint, outer adjoints), (x, saved, y adjoint)) -> (the same, x adjoint)`."""
    assert half.cotangent.ty is not None
    adjoints = Var("adjoints", Tuple((_like(carry), Tuple(tuple(map(_like, outer))))).ty)
    y_type = TupleGetItem(half.cotangent, 1).ty
    at_step = Var("at_step", Tuple((x, Tuple(tuple(kept_vars)), Var("y", y_type))).ty)
    builder = BlockBuilder()
    with builder.scope(taken=["adjoints", "at_step"]):
        x_here, saved, y = (builder.emit(TupleGetItem(at_step, i)) for i in range(3))
        carry_adjoint, totals = (builder.emit(TupleGetItem(adjoints, i)) for i in (0, 1))
        values: dict[Var, Expr] = {
            var: builder.emit(TupleGetItem(saved, i), var.name) for i, var in enumerate(kept_vars)
        }
        for var in half.saved:
            if var in taken:
                values[var] = builder.emit(substitute(taken[var], {x: x_here}), var.name)
        cotangent = Tuple((carry_adjoint, y))
        back = in_terms_of(half.backward, {**values, x: x_here, half.cotangent: cotangent})
        for binding in back.bindings():
            builder.emit_binding(binding)
        assert isinstance(back.body, Tuple)
        carry_back, x_back, *outer_back = back.body.fields
        helper = Adjoint(builder, {}, lambda expr: expr, {})
        sums = tuple(
            helper.leaf(helper.sum(TupleGetItem(totals, i), new))
            for i, new in enumerate(outer_back)
        )
        seq = builder.sequence((Tuple((carry_back, Tuple(sums))), x_back))
    return _step((adjoints, at_step), seq)


def _step(params: Sequence[Var], seq: SeqExpr) -> Function:
    step, _ = renew(make_function(params, seq, ret_ty=seq.ty))
    return step


def _like(var: Var) -> Var:
    return Var(var.name, var.ty)
