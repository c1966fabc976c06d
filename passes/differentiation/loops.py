"""Differentiating loops: the backward half is a loop too, over the same steps in reverse."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew
from relaxjax.ir.walk import free_vars, substitute

from .adjoint import Adjoint, Reverse, item, zeros
from .loop_sums import LaterSum, later_sums
from .parts import Halves, in_terms_of

Parts = Callable[[SeqExpr, Sequence[Var]], Halves]


def emit_loop(
    builder: BlockBuilder, binding: Binding, body: Function, active: set[Var], part: Parts
) -> Reverse:
    """Run a loop that also stacks what its steps save; the reverse runs back through the stacks.

    The carry of the way back is the adjoint of the carry, and with it the adjoints of the
    variables from outside that the body uses, summed over the steps, but for those that
    `later_sums` says are summed after it.
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
    way = _WayBack(half, carry, x, outer, kept_vars, taken)

    step = _forward_step(body, half, kept_vars)
    forward = builder.emit(step, f"{binding.var.name}_step")
    kept = builder.emit(scan(forward, init, xs, **call.attrs), f"{binding.var.name}_kept")
    ys = builder.emit(TupleGetItem(kept, 1), f"{binding.var.name}_stacked")
    result = Tuple((TupleGetItem(kept, 0), TupleGetItem(ys, 0)))
    builder.emit_binding(replace(binding, value=result))

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        """Scan the steps backwards, then hand the adjoints of all that they used on."""
        emit, name = adjoint.builder.emit, binding.var.name
        back = emit(_backward_step(way), f"{name}_step_adjoint")
        nothing = Tuple(tuple(adjoint.leaf(zeros(var.ty)) for var in way.now))
        start = Tuple((adjoint.leaf(TupleGetItem(cotangent, 0)), nothing))
        stacks = Tuple((xs, TupleGetItem(ys, 1), TupleGetItem(cotangent, 1)))
        attrs = {**call.attrs, "reverse": not call.attrs["reverse"]}
        stacks_leaf = adjoint.builder.normalize_leaf(stacks)
        done = emit(scan(back, start, stacks_leaf, **attrs), f"{name}_inputs_adjoint")
        last = adjoint.leaf(TupleGetItem(done, 0))
        adjoint.distribute(init, TupleGetItem(last, 0))
        totals = adjoint.leaf(TupleGetItem(last, 1))
        for index, var in enumerate(way.now):
            adjoint.update(var, TupleGetItem(totals, index))
        by_steps = way.stacks(xs, TupleGetItem(ys, 1), TupleGetItem(done, 1))
        for var, total in way.later.items():
            adjoint.update(var, total.of_stacks(adjoint.builder, by_steps))
        if carries_gradient(xs.ty):
            results = TupleGetItem(done, 1)
            adjoint.distribute(xs, TupleGetItem(results, 0) if way.made else results)

    return reverse


@dataclass(frozen=True)
class _WayBack:
    """What the steps of the way back are made of.

    They have the values `kept` of the steps before, and the parts `taken` of what those were given,
    and sum up the adjoints of `outer`, but for those of `later`.
    """

    half: Halves
    carry: Var
    x: Var
    outer: Sequence[Var]
    kept: tuple[Var, ...]
    taken: Mapping[Var, Expr]

    @cached_property
    def later(self) -> dict[Var, LaterSum]:
        return later_sums(self.half.backward, self.outer, {self.x, *self.taken, *self.kept})

    @cached_property
    def now(self) -> list[Var]:
        """The variables whose adjoints are summed step by step."""
        return [var for var in self.outer if var not in self.later]

    @cached_property
    def made(self) -> list[Var]:
        """What the steps compute for the sums after them."""
        parts = (var for one in self.later.values() for var in one.made(self.half.backward))
        return list(dict.fromkeys(parts))

    def stacks(self, xs: Expr, kept: Expr, results: Expr) -> dict[Var, Expr]:
        """What the steps have, as stacks: given, kept, and made on the way back."""
        found = {self.x: xs}
        found |= {var: substitute(part, {self.x: xs}) for var, part in self.taken.items()}
        found |= {var: TupleGetItem(kept, index) for index, var in enumerate(self.kept)}
        for index, var in enumerate(self.made):
            found[var] = TupleGetItem(TupleGetItem(results, 1), index)
        return found


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


def _backward_step(way: _WayBack) -> Function:
    """`body((carry adjoint, outer adjoints), (x, saved, y adjoint)) -> (the same, x adjoint)`.

    Beside the adjoint of x, a step gives what it has made for the sums after the loop.
    """
    half, x = way.half, way.x
    assert half.cotangent.ty is not None
    adjoints = Var("adjoints", Tuple((_like(way.carry), Tuple(tuple(map(_like, way.now))))).ty)
    y_type = TupleGetItem(half.cotangent, 1).ty
    at_step = Var("at_step", Tuple((x, Tuple(way.kept), Var("y", y_type))).ty)
    builder = BlockBuilder()
    with builder.scope(taken=["adjoints", "at_step"]):
        x_here, saved, y = (builder.emit(TupleGetItem(at_step, i)) for i in range(3))
        carry_adjoint, totals = (builder.emit(TupleGetItem(adjoints, i)) for i in (0, 1))
        values: dict[Var, Expr] = {
            var: builder.emit(TupleGetItem(saved, i), var.name) for i, var in enumerate(way.kept)
        }
        for var in half.saved:
            if var in way.taken:
                values[var] = builder.emit(substitute(way.taken[var], {x: x_here}), var.name)
        cotangent = Tuple((carry_adjoint, y))
        back = in_terms_of(half.backward, {**values, x: x_here, half.cotangent: cotangent})
        for binding in back.bindings():
            builder.emit_binding(binding)
        assert isinstance(back.body, Tuple)
        carry_back, x_back, *outer_back = back.body.fields
        partials = dict(zip(way.outer, outer_back, strict=True))
        helper = Adjoint(builder, {}, lambda expr: expr, {})
        sums = tuple(
            helper.leaf(helper.sum(TupleGetItem(totals, i), partials[var]))
            for i, var in enumerate(way.now)
        )
        result = Tuple((x_back, Tuple(tuple(way.made)))) if way.made else x_back
        seq = builder.sequence((Tuple((carry_back, Tuple(sums))), result))
    return _step((adjoints, at_step), seq)


def _step(params: Sequence[Var], seq: SeqExpr) -> Function:
    step, _ = renew(make_function(params, seq, ret_ty=seq.ty))
    return step


def _like(var: Var) -> Var:
    return Var(var.name, var.ty)
