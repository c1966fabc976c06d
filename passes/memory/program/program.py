"""A backward program as its planner sees it: steps in order, and what is known of them together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from relaxjax.ir.expr import Tuple, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.uses import values_of_kind
from relaxjax.ir.walk import type_symbols, used_vars
from relaxjax.ops.decisions import decisions
from relaxjax.ops.platform import chosen_platform

from .caller import Caller, CallersPart, callers_part
from .loop_bodies import loop_bodies, loops_part
from .step import MemoryPlanError, Step, read_step


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of an adjoint function, of which the first `split` are the forward program.

    After its own there may be those of a function that calls it.
    """

    function: Function
    steps: tuple[Step, ...]
    split: int
    callers_part: CallersPart | None = None
    loops: Mapping[Var, "Program"] = field(default_factory=dict)  # what each computes a step
    is_whole: bool = False  # no loop's body: its arguments are stored
    platform: str = field(default_factory=chosen_platform)  # whose compiler stores its values

    @staticmethod
    def of(
        function: Function,
        mod: IRModule,
        name: str,
        caller: Caller | None = None,
        like: "Program | None" = None,
    ) -> "Program":
        """Read an adjoint: what the function it is of returns, then a tuple of the gradients.

        Bindings that a program `like` it has as well are known from there.
        """
        body = function.body.body
        if not (isinstance(body, Tuple) and len(body.fields) >= 2):
            raise MemoryPlanError(
                f"`{name}` returns {body.ty}, which is not what an adjoint returns: a result and a "
                "tuple of gradients; give the name of a function that Gradient has written"
            )
        bindings = list(function.body.bindings())
        closures = values_of_kind(bindings, Function)
        known = {step.var: step for step in like.steps} if like else {}

        def read(binding: Binding, function: str) -> Step:
            step = known.get(binding.var)
            # What a loop costs is not said by its binding alone.
            if (
                step is not None
                and step.binding is binding
                and closures.keys().isdisjoint(step.inputs)
            ):
                return step
            return read_step(binding, mod, function, closures)

        steps = tuple(read(binding, name) for binding in bindings)
        results = {var for field in body.fields[:-1] for var in used_vars(field)}
        last = max((i for i, step in enumerate(steps) if step.var in results), default=-1)
        read_before = {loop.function: loop for loop in like.loops.values()} if like else {}
        loops = dict(Program._loops(closures, bindings, mod, name, read_before))
        if caller is None:
            return Program(function, steps, last + 1, None, loops, True)
        part = callers_part(mod.with_function(name, function), name, caller)
        after = tuple(read(binding, caller.name) for binding in part.bindings)
        return Program(function, (*steps, *after), last + 1, part, loops, True)

    @staticmethod
    def _loops(
        closures: Mapping[Var, Function],
        bindings: Sequence[Binding],
        mod: IRModule,
        name: str,
        read_before: Mapping[Function, "Program"] = MappingProxyType({}),
    ) -> Iterator[tuple[Var, "Program"]]:
        """The loops among some bindings, and what each of them computes in a step."""
        for var, function in loop_bodies(closures, bindings):
            if function in read_before:
                yield var, read_before[function]
                continue
            body = list(function.body.bindings())
            own = values_of_kind(body, Function)
            part = loops_part(function)
            with suppress(MemoryPlanError):  # its shapes may be known to the loop only
                steps = tuple(read_step(b, mod, name, own) for b in (*body, *part.bindings))
                loops = dict(Program._loops(own, body, mod, name))
                yield var, Program(function, steps, len(steps), part, loops)

    @property
    def forward(self) -> tuple[Step, ...]:
        return self.steps[: self.split]

    @property
    def backward(self) -> tuple[Step, ...]:
        return self.steps[self.split :]

    @cached_property
    def step_of(self) -> dict[Var, Step]:
        return {step.var: step for step in self.steps}

    @cached_property
    def decisions(self) -> frozenset[Var]:
        """The forward values that might be others if they were computed again."""
        params = frozenset(self.function.params)
        bindings = [step.binding for step in self.forward if step.var not in params]
        return decisions(bindings, params if self.is_whole else ())

    @cached_property
    def not_again(self) -> frozenset[Var]:
        """The forward values that are not computed twice: what has effects, and decisions."""
        return self.decisions | {step.var for step in self.forward if not step.pure}

    @cached_property
    def results(self) -> frozenset[Var]:
        """The variables that are returned: their bytes are the caller's."""
        if self.callers_part is not None:
            return self.callers_part.results
        return frozenset(used_vars(self.function.body.body))

    @property
    def given(self) -> Mapping[Var, Var]:
        """What stands for parameters whose memory results take, and the first name of each."""
        return {} if self.callers_part is None else self.callers_part.given

    @property
    def in_place(self) -> Mapping[Var, Var | None]:
        """The results that take the memory of parameters, and which."""
        return {} if self.callers_part is None else self.callers_part.in_place

    @cached_property
    def foreign(self) -> frozenset[Var]:
        """The variables that are not of the adjoint, but of what calls it."""
        part = self.callers_part
        return frozenset(binding.var for binding in part.bindings) if part else frozenset()

    @cached_property
    def gradients(self) -> frozenset[Var]:
        """The results of the backward program that its caller computes with."""
        return self.pinned & frozenset(step.var for step in self.backward)

    @cached_property
    def updated_alone(self) -> frozenset[Var]:
        """The gradients that the caller takes one by one: nothing that it computes needs two."""
        # Which one each step needs: None for several, all of which are `together` by then.
        behind: dict[Var, Var | None] = {var: var for var in self.gradients}
        together: set[Var | None] = set()
        for step in self.steps[len(self.steps) - len(self.foreign) :]:
            if isinstance(step.binding.value, Tuple):
                continue
            found = {behind[var] for var in step.inputs if var in behind}
            if len(found) > 1:
                together |= found
            if found:
                behind[step.var] = found.pop() if len(found) == 1 else None
        return self.gradients - together

    @cached_property
    def pinned(self) -> frozenset[Var]:
        """The values that must be as they are: what calls the adjoint uses them."""
        late = [step for step in self.steps if step.var in self.foreign]
        return frozenset(var for step in late for var in step.inputs) - self.foreign

    @cached_property
    def users(self) -> dict[Var, list[Step]]:
        """The steps that use each variable."""
        found: dict[Var, list[Step]] = {}
        for step in self.steps:
            for var in step.inputs:
                found.setdefault(var, []).append(step)
        return found

    @cached_property
    def depth(self) -> dict[Var | None, int]:
        """How many steps each value lies behind."""
        found: dict[Var | None, int] = {}
        for step in self.steps:
            found[step.var] = 1 + max((found.get(var, 0) for var in step.inputs), default=0)
        return found

    @cached_property
    def kernel_depth(self) -> dict[Var, int]:
        """How many steps each value lies behind that others are not computed inside of."""
        found: dict[Var, int] = {}
        for step in self.steps:
            inside = step.pointwise or step.is_view
            before = max((found.get(var, 0) for var in step.inputs), default=0)
            found[step.var] = before if inside else before + 1
        return found

    @cached_property
    def residuals(self) -> tuple[Step, ...]:
        """The forward values that the backward program uses."""
        late = {var for step in self.backward for var in step.inputs}
        return tuple(step for step in self.forward if step.var in late)


def check_sizes(function: Function, name: str) -> None:
    """Raise where the arguments of an adjoint may be of several sizes."""
    for param in function.params:
        symbols = dict.fromkeys(str(symbol) for symbol in type_symbols(param.ty))
        if symbols:
            values = ", ".join(f'"{symbol}": 32' for symbol in symbols)
            raise MemoryPlanError(
                f"memory is planned for one size of arguments, but `{name}` takes `{param.name}` "
                f"of type {param.ty}: give symbolic dimensions their values in the module before, "
                f"as by BindSymbolicVars({{{values}}})"
            )
