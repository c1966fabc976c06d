"""Differentiating loops: the backward half is a loop too, over the same steps in reverse."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import free_vars

from .activity import in_full
from .adjoint import ZERO, Adjoint, Reverse, item, zeros
from .loop_sums import LaterSum, later_sums
from .moving import Functions, Moving
from .parts import Halves, in_terms_of
from .tensors import Way, at, hand_on, numbered, opened, ways_that_move
from .unsaved import apart_from_steps

Parts = Callable[[SeqExpr, Sequence[Var]], Halves]


def emit_loop(
    builder: BlockBuilder,
    binding: Binding,
    body: Function,
    active: set[Var],
    functions: Functions,
    part: Parts,
) -> Reverse:
    """Run a loop that also stacks what its steps save; the reverse runs back through the stacks.

    The carry of the way back is the adjoints of what moves in the carry, and with them those of the
    variables from outside that the body uses, summed over the steps, but for those that
    `later_sums` says are summed after it.
    """
    call = binding.value
    assert isinstance(call, Call)
    assert isinstance(call.op, Op)
    scan, (_, init, xs) = call.op, call.args
    body, _ = renew(body, visible=True)
    before, way = _way_back(body, Moving(in_full(active), functions), call, active, part)

    for made in before:
        builder.emit_binding(made)
    forward = builder.emit(way.forward_step(body.params), f"{binding.var.name}_step")
    kept = builder.emit(scan(forward, init, xs, **call.attrs), f"{binding.var.name}_kept")
    ys = builder.emit(TupleGetItem(kept, 1), f"{binding.var.name}_stacked")
    result = Tuple((TupleGetItem(kept, 0), TupleGetItem(ys, 0)))
    builder.emit_binding(replace(binding, value=result))

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        """Scan the steps backwards, then hand the adjoints of all that they used on."""
        emit, name = adjoint.builder.emit, binding.var.name
        back = emit(way.backward_step(), f"{name}_step_adjoint")
        start = [adjoint.leaf(at(cotangent, (0, *path))) for path in way.carry]
        start += [adjoint.leaf(adjoint.whole(ZERO, var)) for var in way.now]
        given = [adjoint.leaf(at(cotangent, (1, *path))) for path in way.ys]
        stacks = _fields(xs, TupleGetItem(ys, 1), Tuple(tuple(given)))
        attrs = {**call.attrs, "reverse": not call.attrs["reverse"]}
        args = (back, Tuple(tuple(start)), adjoint.builder.normalize_leaf(stacks))
        done = emit(scan(*args, **attrs), f"{name}_inputs_adjoint")
        last, rows = (adjoint.leaf(TupleGetItem(done, index)) for index in (0, 1))
        hand_on(adjoint, init, numbered(last, way.carry))
        for index, var in enumerate(way.now, len(way.carry)):
            adjoint.add(var, TupleGetItem(last, index))
        by_steps = way.stacks(xs, TupleGetItem(ys, 1), given, rows)
        for var, total in way.later.items():
            adjoint.add(var, total.of_stacks(adjoint.builder, by_steps))
        hand_on(adjoint, xs, numbered(rows, way.x))

    return reverse


def _way_back(
    body: Function, moving: Moving, call: Call, active: set[Var], part: Parts
) -> "tuple[list[Binding], _WayBack]":
    """How to go back through the steps: by what moves in the carry, in x and outside.

    And what is made before, because each step would make it alike.
    """
    inputs = moving.step_inputs(body, *call.args[1:])
    seq = body.body
    tensors: list[dict[Way, Var]] = []
    for param in body.params:
        seq, found = opened(seq, param)
        tensors.append(found)
    carry, x = map(ways_that_move, tensors, inputs.values())
    outer = [var for var in free_vars(body) if var in active]
    by = (*(tensors[0][way] for way in carry), *(tensors[1][way] for way in x), *outer)
    varying = [var for found in tensors for var in found.values()]
    before, half = apart_from_steps(part(seq, by), varying)
    backward, cotangents = opened(half.backward, half.cotangent)
    half = dataclasses.replace(half, backward=backward)
    carries, given = tensors
    way = _WayBack(half, carries, given, body.params[1], carry, x, outer, cotangents)
    return before, way


@dataclass(frozen=True)
class _WayBack:
    """What the steps of the way back are made of.

    `carries` and `given` are the tensors in the carry and in what a step is given, and `carry` and
    `x` the ways to those that move. `cotangents` are the adjoints of the tensors in its result.
    """

    half: Halves
    carries: Mapping[Way, Var]
    given: Mapping[Way, Var]
    x_param: Var
    carry: Sequence[Way]
    x: Sequence[Way]
    outer: Sequence[Var]
    cotangents: Mapping[Way, Var]

    @cached_property
    def needed(self) -> dict[Var, None]:
        """What the way back uses of a step, in order."""
        given = (self.given, self.carries, self.cotangents)
        own = {*self.half.saved, *(var for tensors in given for var in tensors.values())}
        return dict.fromkeys(var for var in free_vars(self.half.backward) if var in own)

    @cached_property
    def kept(self) -> tuple[Var, ...]:
        """What the steps save. Nothing gives the carry back, but what they were given is there."""
        return (*self.half.saved, *(var for var in self.carries.values() if var in self.needed))

    @cached_property
    def ys(self) -> list[Way]:
        """The ways to those of the stacked results whose adjoints are needed."""
        return [
            way[1:] for way, var in self.cotangents.items() if way[0] == 1 and var in self.needed
        ]

    @property
    def cotangents_of_ys(self) -> list[Var]:
        return [self.cotangents[1, *way] for way in self.ys]

    @cached_property
    def adjoints(self) -> list[tuple[Var, Expr]]:
        """The variables from outside, each with its adjoint in one step."""
        assert isinstance(self.half.backward.body, Tuple)
        own = self.half.backward.body.fields[len(self.carry) + len(self.x) :]
        return list(zip(self.outer, own, strict=True))

    @cached_property
    def later(self) -> dict[Var, LaterSum]:
        own = {*self.given.values(), *self.kept, *self.cotangents.values()}
        return later_sums(self.half.backward, self.adjoints, own)

    @cached_property
    def now(self) -> list[Var]:
        """The variables whose adjoints are summed step by step."""
        return [var for var in self.outer if var not in self.later]

    @cached_property
    def made(self) -> list[Var]:
        """What the steps give out for the sums after them."""
        parts = dict.fromkeys(var for one in self.later.values() for var in one.factors)
        stacked = {*self.given.values(), *self.kept, *self.cotangents_of_ys}
        return [var for var in parts if var not in stacked]

    def stacks(self, xs: Expr, kept: Expr, ys: Sequence[Expr], results: Expr) -> dict[Var, Expr]:
        """What the steps have, as stacks: given, kept, and made on the way back."""
        found = {var: at(xs, way) for way, var in self.given.items()}
        found |= {var: TupleGetItem(kept, index) for index, var in enumerate(self.kept)}
        found |= dict(zip(self.cotangents_of_ys, ys, strict=True))
        for index, var in enumerate(self.made, len(self.x)):
            found[var] = TupleGetItem(results, index)
        return found

    def forward_step(self, params: Sequence[Var]) -> Function:
        """`body(carry, x) -> (carry, (y, saved))`."""
        assert isinstance(self.half.forward.body, Tuple)
        builder = BlockBuilder()
        with builder.scope(taken=[param.name for param in params]):
            for param, tensors in zip(params, (self.carries, self.given), strict=True):
                for way, var in tensors.items():
                    if way:
                        builder.emit_binding(VarBinding(var, at(param, way)))
            for binding in self.half.forward.bindings():
                builder.emit_binding(binding)
            result = builder.normalize_leaf(self.half.forward.body.fields[0])
            carry, y = (builder.normalize_leaf(item(result, i)) for i in (0, 1))
            seq = builder.sequence((carry, Tuple((y, Tuple(self.kept)))))
        return _step(params, seq)

    def backward_step(self) -> Function:
        """`body(adjoints of carry and outside, (x, saved, y adjoints)) -> (the same, x adjoints)`.

        Beside the adjoints of x, a step gives what it has made for the sums after the loop.
        """
        carried = (*(self.carries[way] for way in self.carry), *self.now)
        adjoints = Var("adjoints", Tuple(carried).ty)
        ys = Tuple(tuple(self.cotangents_of_ys))
        at_step = Var("at_step", _fields(self.x_param, Tuple(self.kept), ys).ty)
        builder = BlockBuilder()
        with builder.scope(taken=["adjoints", "at_step"]):
            values = self._values(builder, adjoints, at_step)
            back = in_terms_of(self.half.backward, values)
            for binding in back.bindings():
                builder.emit_binding(binding)
            assert isinstance(back.body, Tuple)
            count, moving = len(self.carry), len(self.carry) + len(self.x)
            partials = dict(zip(self.outer, back.body.fields[moving:], strict=True))
            helper = Adjoint(builder, {}, lambda expr: expr, {})
            sums = (
                helper.leaf(helper.total(TupleGetItem(adjoints, index), partials[var]))
                for index, var in enumerate(self.now, count)
            )
            carry = Tuple((*back.body.fields[:count], *sums))
            made = (values.get(var, var) for var in self.made)
            seq = builder.sequence((carry, Tuple((*back.body.fields[count:moving], *made))))
        return _step((adjoints, at_step), seq)

    def _values(self, builder: BlockBuilder, adjoints: Var, at_step: Var) -> dict[Var, Expr]:
        """What the variables of the steps are on the way back."""
        fields = iter(range(3))
        x, kept, ys = (
            builder.emit(TupleGetItem(at_step, next(fields))) if there else at_step
            for there in (self.x_param.ty != TupleType(), self.kept, self.ys)
        )
        found: dict[Var, Expr] = {var: at(x, way) for way, var in self.given.items()}
        found |= {var: TupleGetItem(kept, index) for index, var in enumerate(self.kept)}
        found |= {var: TupleGetItem(ys, i) for i, var in enumerate(self.cotangents_of_ys)}
        for index, way in enumerate(self.carry):
            found[self.cotangents[0, *way]] = TupleGetItem(adjoints, index)
        return {
            var: builder.emit(found[var] if var in found else zeros(var.ty), var.name)
            for var in self.needed
        }


def _fields(x: Expr, saved: Expr, ys: Expr) -> Tuple:
    """What a step back is given, without what is empty."""
    return Tuple(tuple(part for part in (x, saved, ys) if part.ty != TupleType()))


def _step(params: Sequence[Var], seq: SeqExpr) -> Function:
    step, _ = renew(make_function(params, seq, ret_ty=seq.ty))
    return step
