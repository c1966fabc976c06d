"""Differentiating loops: the backward program is a loop too, over the same steps in reverse."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import Dim
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import renew
from relaxjax.ir.tuples import Path, at, field_of
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import free_vars
from relaxjax.ops.loop_types import steps_of_loop

from .activity import in_full
from .adjoint import ZERO, Adjoint, Reverse, zeros
from .dependence import Dependence, Functions
from .loop_sums import Later, later_sums
from .residuals import hoisted
from .tuple_paths import add_at, by_path, dependent_paths, unpacked
from .vjp import Vjp, VjpOf, in_terms_of


def emit_loop(
    builder: BlockBuilder,
    binding: Binding,
    body: Function,
    active: set[Var],
    functions: Functions,
    vjp_of: VjpOf,
) -> Reverse:
    """Emit a loop that also stacks the residuals of its steps; its reverse reads the stacks.

    The carry of the backward loop is the adjoints of the dependent parts of the carry, and of the
    variables from outside that the body reads, summed over the steps, but for those that
    `later_sums` says are summed after it.
    """
    call = binding.value
    assert isinstance(call, Call)
    assert isinstance(call.op, Op)
    scan, (_, init, xs) = call.op, call.args
    body, _ = renew(body, visible=True)
    dependence = Dependence(in_full(active), functions)
    invariants, loop = _differentiated(body, dependence, call, active, vjp_of)

    for invariant in invariants:
        builder.emit_binding(invariant)
    forward = builder.emit(loop.forward_step(body.params), f"{binding.var.name}_step")
    kept = builder.emit(scan(forward, init, xs, **call.attrs), f"{binding.var.name}_kept")
    ys = builder.emit(TupleGetItem(kept, 1), f"{binding.var.name}_stacked")
    result = Tuple((TupleGetItem(kept, 0), TupleGetItem(ys, 0)))
    builder.emit_binding(replace(binding, value=result))

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        """Scan the steps in reverse, then hand the adjoints on to all that they read."""
        emit, name = adjoint.builder.emit, binding.var.name
        back = emit(loop.backward_step(), f"{name}_step_adjoint")
        start = [adjoint.leaf(at(cotangent, (0, *path))) for path in loop.carry]
        start += [adjoint.leaf(adjoint.whole(ZERO, var)) for var in loop.now]
        given = [adjoint.leaf(at(cotangent, (1, *path))) for path in loop.ys]
        stacks = _fields(xs, TupleGetItem(ys, 1), Tuple(tuple(given)))
        attrs = {**call.attrs, "reverse": not call.attrs["reverse"]}
        args = (back, Tuple(tuple(start)), adjoint.builder.normalize_leaf(stacks))
        done = emit(scan(*args, **attrs), f"{name}_inputs_adjoint")
        last, rows = (adjoint.leaf(TupleGetItem(done, index)) for index in (0, 1))
        add_at(adjoint, init, by_path(last, loop.carry))
        for index, var in enumerate(loop.now, len(loop.carry)):
            adjoint.add(var, TupleGetItem(last, index))
        by_steps = loop.stacks(xs, TupleGetItem(ys, 1), given, rows)
        for var, total in loop.later.items():
            adjoint.add(var, total.of_stacks(adjoint.builder, by_steps))
        add_at(adjoint, xs, by_path(rows, loop.x))

    return reverse


def _differentiated(
    body: Function, dependence: Dependence, call: Call, active: set[Var], vjp_of: VjpOf
) -> "tuple[list[Binding], _Loop]":
    """The steps of a loop, differentiated by the dependent parts of the carry, of x and outside.

    Before it stand the loop-invariant residuals.
    """
    inputs = dependence.step_inputs(body, *call.args[1:])
    seq = body.body
    tensors: list[dict[Path, Var]] = []
    for param in body.params:
        seq, found = unpacked(seq, param)
        tensors.append(found)
    carry, x = map(dependent_paths, tensors, inputs.values())
    outer = [var for var in free_vars(body) if var in active]
    by = (*(tensors[0][path] for path in carry), *(tensors[1][path] for path in x), *outer)
    varying = [var for found in tensors for var in found.values()]
    invariants, vjp = hoisted(vjp_of(seq, by), varying)
    backward, cotangents = unpacked(vjp.backward, vjp.cotangent)
    vjp = dataclasses.replace(vjp, backward=backward)
    carries, given = tensors
    steps = steps_of_loop(call)
    loop = _Loop(vjp, carries, given, body.params[1], carry, x, outer, cotangents, steps)
    return invariants, loop


@dataclass(frozen=True)
class _Loop:
    """The parts that a step of the forward loop, and one of the backward loop, are made of.

    `carries` and `given` are the tensors in the carry and in the x of a step, and `carry` and `x`
    the paths to the dependent ones. `cotangents` are the adjoints of the tensors in its result.
    """

    vjp: Vjp
    carries: Mapping[Path, Var]
    given: Mapping[Path, Var]
    x_param: Var
    carry: Sequence[Path]
    x: Sequence[Path]
    outer: Sequence[Var]
    cotangents: Mapping[Path, Var]
    steps: Dim

    @cached_property
    def needed(self) -> dict[Var, None]:
        """The variables of a step that the backward program reads, in order."""
        given = (self.given, self.carries, self.cotangents)
        own = {*self.vjp.residuals, *(var for tensors in given for var in tensors.values())}
        return dict.fromkeys(var for var in free_vars(self.vjp.backward) if var in own)

    @cached_property
    def residuals(self) -> tuple[Var, ...]:
        """The residuals of a step with its carry, which no stack holds; its x is there anyway."""
        return (*self.vjp.residuals, *(var for var in self.carries.values() if var in self.needed))

    @cached_property
    def ys(self) -> list[Path]:
        """The paths to those of the stacked results whose adjoints are needed."""
        return [
            path[1:] for path, var in self.cotangents.items() if path[0] == 1 and var in self.needed
        ]

    @property
    def cotangents_of_ys(self) -> list[Var]:
        return [self.cotangents[1, *path] for path in self.ys]

    @cached_property
    def adjoints(self) -> list[tuple[Var, Expr]]:
        """The variables from outside, each with its adjoint in one step."""
        assert isinstance(self.vjp.backward.body, Tuple)
        own = self.vjp.backward.body.fields[len(self.carry) + len(self.x) :]
        return list(zip(self.outer, own, strict=True))

    @cached_property
    def later(self) -> dict[Var, Later]:
        own = {*self.given.values(), *self.residuals, *self.cotangents.values()}
        return later_sums(self.vjp.backward, self.adjoints, own, self.steps)

    @cached_property
    def now(self) -> list[Var]:
        """The variables whose adjoints are summed step by step."""
        return [var for var in self.outer if var not in self.later]

    @cached_property
    def factors(self) -> list[Var]:
        """What the steps of the backward loop give out for the sums after it."""
        wanted = dict.fromkeys(var for one in self.later.values() for var in one.factors)
        stacked = {*self.given.values(), *self.residuals, *self.cotangents_of_ys}
        return [var for var in wanted if var not in stacked]

    def stacks(self, xs: Expr, saved: Expr, ys: Sequence[Expr], results: Expr) -> dict[Var, Expr]:
        """The variables of the steps as stacks: of x, of residuals, and what the steps give out."""
        found = {var: at(xs, path) for path, var in self.given.items()}
        found |= {var: TupleGetItem(saved, index) for index, var in enumerate(self.residuals)}
        found |= dict(zip(self.cotangents_of_ys, ys, strict=True))
        for index, var in enumerate(self.factors, len(self.x)):
            found[var] = TupleGetItem(results, index)
        return found

    def forward_step(self, params: Sequence[Var]) -> Function:
        """`body(carry, x) -> (carry, (y, residuals))`."""
        builder = BlockBuilder()
        with builder.scope(taken=[param.name for param in params]):
            for param, tensors in zip(params, (self.carries, self.given), strict=True):
                for path, var in tensors.items():
                    if path:
                        builder.emit_binding(VarBinding(var, at(param, path)))
            emit_sequence(builder, self.vjp.forward)
            result = builder.normalize_leaf(self.vjp.result)
            carry, y = (builder.normalize_leaf(field_of(result, i)) for i in (0, 1))
            seq = builder.sequence((carry, Tuple((y, Tuple(self.residuals)))))
        return _step(params, seq)

    def backward_step(self) -> Function:
        """`body(adjoints of carry and outside, (x, residuals, y adjoints)) -> (these, x adjoints)`.

        Beside the adjoints of x, a step gives the factors of the sums after the loop.
        """
        carried = (*(self.carries[path] for path in self.carry), *self.now)
        adjoints = Var("adjoints", Tuple(carried).ty)
        ys = Tuple(tuple(self.cotangents_of_ys))
        at_step = Var("at_step", _fields(self.x_param, Tuple(self.residuals), ys).ty)
        builder = BlockBuilder()
        with builder.scope(taken=["adjoints", "at_step"]):
            values = self._values(builder, adjoints, at_step)
            back = in_terms_of(self.vjp.backward, values)
            emit_sequence(builder, back)
            assert isinstance(back.body, Tuple)
            count, end = len(self.carry), len(self.carry) + len(self.x)
            partials = dict(zip(self.outer, back.body.fields[end:], strict=True))
            helper = Adjoint(builder, {}, lambda expr: expr, {})
            sums = (
                helper.leaf(helper.total(TupleGetItem(adjoints, index), partials[var]))
                for index, var in enumerate(self.now, count)
            )
            carry = Tuple((*back.body.fields[:count], *sums))
            factors = (values.get(var, var) for var in self.factors)
            seq = builder.sequence((carry, Tuple((*back.body.fields[count:end], *factors))))
        return _step((adjoints, at_step), seq)

    def _values(self, builder: BlockBuilder, adjoints: Var, at_step: Var) -> dict[Var, Expr]:
        """The variables of the steps in terms of the parameters of a backward step."""
        fields = iter(range(3))
        x, saved, ys = (
            builder.emit(TupleGetItem(at_step, next(fields))) if there else at_step
            for there in (self.x_param.ty != TupleType(), self.residuals, self.ys)
        )
        found: dict[Var, Expr] = {var: at(x, path) for path, var in self.given.items()}
        found |= {var: TupleGetItem(saved, index) for index, var in enumerate(self.residuals)}
        found |= {var: TupleGetItem(ys, i) for i, var in enumerate(self.cotangents_of_ys)}
        for index, path in enumerate(self.carry):
            found[self.cotangents[0, *path]] = TupleGetItem(adjoints, index)
        return {
            var: builder.emit(found[var] if var in found else zeros(var.ty), var.name)
            for var in self.needed
        }


def _fields(x: Expr, saved: Expr, ys: Expr) -> Tuple:
    """The x of a backward step, without what is empty."""
    return Tuple(tuple(part for part in (x, saved, ys) if part.ty != TupleType()))


def _step(params: Sequence[Var], seq: SeqExpr) -> Function:
    step, _ = renew(make_function(params, seq, ret_ty=seq.ty))
    return step
