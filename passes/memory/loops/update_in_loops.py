"""Updates of stacked parameters in the loop that gives their gradients."""

from collections.abc import Mapping

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Expr, TupleGetItem, Var
from relaxjax.ir.function import Function, VarBinding
from relaxjax.ir.inline import inline_functions
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import renew
from relaxjax.ir.walk import free_vars, global_vars, substitute
from relaxjax.ops.loop_types import known_steps_of
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.trainable.names import TRAIN_STEP
from relaxjax.trainable.sharding import Distribution

from ..program.caller import written_out
from ..program.loop_pairs import function_in, has_loops, loop_call
from .loop_updates import StepProgram
from .row_updates import UpdatingLoop, Writes

# The bytes of a stack from which on its update is worth kernels in each step of a loop. Measured on
# CPUs, nothing is won or lost by smaller ones (a GPT of 4 layers, 64 and 128 wide).
_LEAST = 2**18


@pass_factory(opt_level=0)
def UpdateInLoops(mod: IRModule, least_bytes: int = _LEAST) -> IRModule:
    """Let the loop back through equal layers update each layer's parameters as it goes.

    Such a loop gives the gradients of all layers as one stack, which lives until the update. Where
    that goes number by number, as SGD, Adam and most others do, each step of the loop can make it
    for its own layer: it reads the layer's parameters and states, and writes the new ones in their
    place. `train_step` is one function then, which calls neither `backbone_loss_adjoint` nor
    `optimizer`; these stay as they are.

    All else is updated as before: where the update takes a norm of gradients, where other terms
    are added to a gradient or it is asked for, on a mesh, and stacks of less than `least_bytes`.
    """
    functions = mod.relax_functions()
    if TRAIN_STEP not in functions:
        raise ValueError(
            f"UpdateInLoops: the module has no function `{TRAIN_STEP}`: apply FuseTrainStep() to "
            "it first"
        )
    function = functions[TRAIN_STEP]
    called = {var.name for var in global_vars(function)}
    others = {name: other for name, other in functions.items() if name in called}
    may_loop = any(map(has_loops, (function, *others.values())))
    if not may_loop or Distribution.of(mod) is not None:
        return mod
    step = before = _in_one(function, others)
    while (changed := _with_updates(step, least_bytes)) is not None:
        step = changed
    if step is before:
        return mod
    return mod.with_function(TRAIN_STEP, remove_all_unused(canonical_bindings(step)))


def _in_one(function: Function, others: Mapping[str, Function]) -> Function:
    """A step with the functions that it calls inside, and one name for each tensor it is given."""
    whole = canonical_bindings(renew(inline_functions(function, others), visible=True)[0])
    program = StepProgram(whole)
    first = {place: var for var, place in reversed(program.place_of.items())}
    names = {var: first[place] for var, place in program.place_of.items()}
    again = {var: one for var, one in names.items() if one is not var}
    changed = substitute(whole, again)
    return remove_all_unused(changed)


def _with_updates(step: Function, least_bytes: int) -> Function | None:
    """The step whose first loop that can make updates does so; None if there is none."""
    program = StepProgram(step)
    for loop in program.loops:
        writes = [
            one for update in program.updates(loop, least_bytes) if (one := Writes.of(update))
        ]
        if writes:
            return _Rewritten(program, loop, writes).function()
    return None


class _Rewritten:
    """A step with a loop that makes updates."""

    def __init__(self, program: StepProgram, loop: VarBinding, writes: list[Writes]) -> None:
        call = loop_call(loop)
        assert call is not None
        assert isinstance(call.args[0], Var)
        own = function_in(program.known.binding(call.args[0]))
        xs = written_out(call.args[2], program.tuples)
        count = known_steps_of(call)
        assert count is not None
        self.loop = UpdatingLoop(call, xs, own, count, writes)
        self.program, self.old, self.writes = program, loop, writes
        self.builder = BlockBuilder()
        self.emitted: set[Var] = set(program.function.params)
        # What stands for variables: those of the loop, and the stacks after it for new values.
        self.known: dict[Var, Expr] = {}

    def function(self) -> Function:
        function = self.program.function
        gone = {var for one in self.writes for var in one.update.gone}
        with self.builder.scope(taken=[param.name for param in function.params]):
            for binding in self.program.bindings:
                if binding.var is self.old.var:
                    self._emit_loop()
                elif binding.var not in gone:
                    self._emit(binding.var)
            body = self.builder.sequence(substitute(function.body.body, self.known))
        return replace(function, body=body)

    def _emit_loop(self) -> None:
        """Emit the loop, after all that its updates take."""
        numbers = [n for one in self.writes for n in one.update.numbers.values()]
        for needed in (*self.loop.stacks, *(v for n in numbers for v in free_vars(n))):
            self._emit_with_all_before(needed)
        looped, stacks = self.loop.emit(self.builder)
        self.known[self.old.var] = looped
        for at, stack in enumerate(self.loop.stacks):
            new = self.builder.emit(TupleGetItem(stacks, at), f"{stack.name}_new")
            for one in self.writes:
                if stack in one.new:
                    self.known[one.new[stack]] = new

    def _emit_with_all_before(self, var: Var) -> None:
        """Emit a binding earlier than it was, and what it takes before it."""
        waiting = [var]
        while waiting:
            last = waiting[-1]
            binding = self.program.known.bindings.get(last)
            if last in self.emitted or binding is None:
                waiting.pop()
                continue
            missing = [v for v in free_vars(binding.value) if v not in self.emitted]
            waiting += missing
            if not missing:
                self._emit(waiting.pop())

    def _emit(self, var: Var) -> None:
        """Emit a binding; a part of the loop's result is of another type than it was."""
        if var in self.emitted:
            return
        self.emitted.add(var)
        binding = self.program.known.binding(var)
        value = substitute(binding.value, self.known)
        if isinstance(value, TupleGetItem) and value is not binding.value:
            self.known[var] = self.builder.emit(replace(value, ty=None), var.name)
        else:
            self.builder.emit_binding(replace(binding, value=value))
