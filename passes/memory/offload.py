"""Residuals that wait in the memory of the host until the backward part needs them."""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, DataflowVar, Expr, GlobalVar, Var
from relaxjax.ir.function import Binding, DataflowBlock, Function, VarBinding
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import hide_unused_outputs
from relaxjax.ir.tensor_types import has_floats
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import substitute
from relaxjax.ir.wording import counted
from relaxjax.ops.platform import chosen_platform, made_for
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings

from .loops.host_stacks import Stack, is_fetched, is_sent, stacks_of, with_stacks_on_host
from .planning.budget import MEMORY_BUDGET, Budget, budget_in_bytes
from .planning.plan import Plan
from .planning.recompute import kind_of
from .program.caller import Caller, with_open_caller
from .program.program import Program, check_sizes
from .program.step import MemoryPlanError, Step

# The bytes from which on a value is worth a transfer, and the same as a share of the peak.
_LEAST = 2**16
_LEAST_SHARE = 1 / 256
# A value is fetched when so many others have still to be stored before its first use: it comes
# while these are computed.
_AHEAD = 2


@pass_factory(opt_level=0)
def OffloadResiduals(
    mod: IRModule, func_name: str | GlobalVar, budget_bytes: Budget | None = None
) -> IRModule:
    """Keep residuals of an adjoint in the memory of the host until the backward part needs them.

    They go there after their last use in the forward part, and come back shortly before their
    first use in the backward part; steps of loops send what they stack, and the steps back fetch
    it.

    Large values that are not used for long go first, as many as the budget asks for. That is a
    number of bytes, "8GiB", or a share of the peak, of what is live on the device beside arguments
    and results. One that cannot be met is a MemoryPlanError. Without a budget, values go as long as
    the peak falls.

    A CPU has no memory but the host's: there the pass changes nothing.
    """
    name = name_of(func_name)
    limit = None
    if budget_bytes is not None:
        limit = budget_in_bytes(budget_bytes, lambda: peak_as_written(mod, name))
    return offloaded(mod, name, limit)


def offloaded(
    mod: IRModule, name: str, limit: int | None = None, caller: Caller | None = None
) -> IRModule:
    """The module with residuals of an adjoint on the host, so that its peak is within a limit.

    With a `caller`, that is the peak of the caller.
    """
    check_sizes(function_of(mod, name), name)
    if chosen_platform() == "cpu":
        _check_fits(mod, name, limit, caller)
        return mod
    opened = mod if caller is None else with_open_caller(mod, name, caller)
    choice = _Choice(opened, name, caller)
    count = choice.count(limit)
    if not count and limit is None:
        return mod
    function = choice.function(count)
    if limit is not None:
        function = function.with_attr(MEMORY_BUDGET, limit)
    return made_for(mod.with_function(name, function), [chosen_platform()])


def _check_fits(mod: IRModule, name: str, limit: int | None, caller: Caller | None) -> None:
    peak = 0 if limit is None else peak_as_written(mod, name, caller)
    if limit is not None and peak > limit:
        raise MemoryPlanError(
            f"`{name}` takes {counted(peak, 'byte')}, more than {limit:,}, and a CPU has no "
            "memory but the host's, to which values could go: let it compute values again, by "
            "Rematerialize"
        )


def without_offload(mod: IRModule, name: str) -> IRModule:
    """The module whose adjoint has on the device what it has sent to the host."""

    def stays(call: Call) -> Expr | None:
        return call.args[0] if is_sent(call) or is_fetched(call) else None

    function = expand_calls(function_of(mod, name), stays)
    if function is mod[name]:
        return mod
    return CanonicalizeBindings()(mod.with_function(name, function))


def peak_as_written(mod: IRModule, name: str, caller: Caller | None = None) -> int:
    """The most bytes that are live at once in an adjoint as it stands."""
    if caller is not None:
        mod = with_open_caller(mod, name, caller)
    return _as_written(Program.of(function_of(mod, name), mod, name, caller)).peak


def _as_written(program: Program) -> Plan:
    return Plan(program, frozenset(step.var for step in program.forward))


@dataclass(frozen=True)
class _Move:
    """That a value goes to the host after one binding, and comes back after another."""

    var: Var
    after: Var
    moment: Var
    weight: int  # its bytes, times the steps for which it is away


class _Choice:
    """What of an adjoint may wait on the host, what is worth most first."""

    def __init__(self, mod: IRModule, name: str, caller: Caller | None) -> None:
        self.mod, self.name, self.caller = mod, name, caller
        self.whole = function_of(mod, name)
        self.program = Program.of(self.whole, mod, name, caller)
        plan = _as_written(self.program)
        least = max(_LEAST, int(plan.peak * _LEAST_SHARE))
        found: list[_Move | Stack] = [*_moves(plan, least), *stacks_of(self.program, least)]
        self.ways = sorted(found, key=lambda way: -way.weight)
        self.peak = cache(self._peak)

    def count(self, limit: int | None) -> int:
        """How many suffice for a limit: without one, for the peak with all of them."""
        most = len(self.ways)
        goal = min(self.peak(0), self.peak(most)) if limit is None else limit
        if self.peak(0) <= goal:
            return 0
        if self.peak(most) > goal:
            raise MemoryPlanError(
                f"`{self.name}` cannot be computed within {counted(goal, 'byte')} with its "
                f"residuals on the host: the least is {counted(self.peak(most), 'byte')} live "
                "beside arguments and results; give at least that, or a smaller batch"
            )
        return bisect_left(range(most), True, key=lambda count: self.peak(count) <= goal)

    def function(self, count: int) -> Function:
        """The adjoint with the first of them on the host."""
        chosen = self.ways[:count]
        moved = _written(self.program, [way for way in chosen if isinstance(way, _Move)])
        stacks = [way for way in chosen if isinstance(way, Stack)]
        if not stacks:
            return moved
        changed = self.mod.with_function(self.name, with_stacks_on_host(moved, stacks))
        return function_of(CanonicalizeBindings()(changed), self.name)

    def _peak(self, count: int) -> int:
        function = self.function(count)
        mod = self.mod.with_function(self.name, function)
        program = Program.of(function, mod, self.name, self.caller, self.program)
        return _as_written(program).peak


def _moves(plan: Plan, least: int) -> Iterator[_Move]:
    """The values that can be away for a while between the two parts of a program."""
    program = plan.program
    place = {step.var: at for at, step in enumerate(program.steps)}
    stored = {kernel.buffer[0][0] for kernel in plan.kernels.all if kernel.size}
    for step in program.residuals:
        var = step.var
        if step.size < least or not isinstance(var.ty, TensorType) or var in program.results:
            continue
        readers = [place[user.var] for user in program.users[var]]
        first = min(at for at in readers if at >= program.split)
        last = max((at for at in readers if at < program.split), default=place[var])
        moment = _moment(program, stored, first)
        if moment is not None and not _is_argument(program, step):
            away = place[moment] - last
            yield _Move(var, program.steps[last].var, moment, step.size * away)


def _moment(program: Program, stored: Collection[Var], first: int) -> Var | None:
    """The value of the backward part after which something is fetched that a step needs."""
    before = (
        step.var
        for step in reversed(program.steps[program.split : first])
        if step.var in stored and step.var not in program.foreign and has_floats(step.var.ty)
    )
    return next(iter(deque(islice(before, _AHEAD), maxlen=1)), None)


def _is_argument(program: Program, step: Step) -> bool:
    """Whether the value is an argument that is only looked at in another way."""
    while step.is_view and step.inputs and step.inputs[0] in program.step_of:
        step = program.step_of[step.inputs[0]]
    return step.is_view


def _written(program: Program, moves: Collection[_Move]) -> Function:
    """The function of a program with some values away for a while."""
    function = program.function
    if not moves:
        return function
    kind = kind_of(function)

    def new(name: str, like: Var) -> Var:
        return (DataflowVar if kind is DataflowBlock else Var)(name, like.ty)

    there = {move.var: new(f"{move.var.name}_host", move.var) for move in moves}
    back = {move.var: new(f"{move.var.name}_back", move.var) for move in moves}
    backward = {step.var for step in program.backward}
    bindings: list[Binding] = []
    for binding in function.body.bindings():
        if binding.var in backward:
            binding = replace(binding, value=substitute(binding.value, back))
        bindings.append(binding)
        for move in moves:
            span = program.step_of[move.var].span
            if move.after is binding.var:
                sent = get_op("relax.memory.to_host")(move.var)
                bindings.append(VarBinding(there[move.var], sent, span=span))
            if move.moment is binding.var:
                fetched = get_op("relax.memory.to_device")(there[move.var], move.moment)
                bindings.append(VarBinding(back[move.var], fetched, span=span))
    body = replace(function.body, blocks=(kind(tuple(bindings)),))
    return hide_unused_outputs(replace(function, body=body))
