"""The forms of a program that its plans are made of: other loops, shapes, and orders of reads."""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.ir.types import Type
from relaxjax.ops.platform import chosen_platform

from ..loops.lean_loops import with_lean_loops
from ..program.caller import Caller
from ..program.in_place import with_reads_first
from ..program.matrix_rows import with_matrix_rows
from ..program.program import Program
from ..program.step import Step
from .planner import BALANCED, FREE, POLICIES
from .plans_by_count import Chooser


@dataclass
class Forms:
    """The forms of the function `name`, and what chooses among the plans of each.

    They are numbered: as it stands, with gradients that come after the reads of their parameters
    and with rows of matrices between products, and then with loops that save ever less besides.
    """

    mod: IRModule
    name: str
    caller: Caller | None
    program: Program  # as it stands
    total: int  # its flops
    decided: Collection[str]  # names of values that are to be there as they were
    chooser_of: Callable[[IRModule], Chooser]
    default: Any = None  # what `by_default` decided of them, once it has
    _made: list[tuple[Program, IRModule]] = field(default_factory=list)
    _leaner: list[IRModule] = field(default_factory=list)  # of what is tied, as far as asked for

    def chooser(self, mod: IRModule) -> Chooser:
        found = self.chooser_of(mod)
        self._made.append((found.planner.program, mod))
        return found

    @cached_property
    def tied(self) -> IRModule:
        """The module whose gradients come after the other reads of their parameters.

        On a CPU, what is computed between products of matrices has their shape.
        """
        mod = self.mod
        if chosen_platform() == "cpu" and not self.decided:
            mod = with_matrix_rows(mod, self.name)
        if self.caller is None:
            return mod
        return with_reads_first(mod, self.name, self.caller.differentiated, self.program)

    def module(self, number: int) -> IRModule:
        """The form of some number."""
        if number < 2:
            return (self.mod, self.tied)[number]
        found = next(islice(self.lean(self.tied), number - 2, None), None)
        if found is None:
            raise ValueError(f"there is no form {number} of the program")
        return found[1]

    def number(self, program: Program) -> int | None:
        """The number of the form that a program is of, for which a chooser was made.

        None for what only the default plans: loops that save less in the program as it stands, and
        data that waits.
        """
        mod = next(mod for made, mod in self._made if made is program)
        if mod is self.mod:
            return 0
        if mod is self.tied:
            return 1
        return next((at for at, lean in enumerate(self._leaner, 2) if lean is mod), None)

    def lean(self, mod: IRModule, to: str = POLICIES[-1]) -> Iterator[tuple[str, IRModule]]:
        """A module with loops that save ever less, by each policy to the last one that counts.

        The values whose names are `decided` are there as they were.
        """
        levels = [
            (_costs_nothing, FREE * self.total),
            (_is_any, BALANCED * self.total),
            (_is_any, math.inf),
        ]
        before = mod
        for policy, (again, most) in zip(POLICIES[1:], levels, strict=True):
            lean = with_lean_loops(mod, self.name, again, most)
            if lean is not before and lean is not mod and self._has_same_values(lean):
                if mod is self.tied:
                    self._leaner.append(lean)
                yield policy, lean
            before = lean
            if policy == to:
                return

    @property
    def with_own_rows(self) -> IRModule:
        """What is tied, with loops by "free" whose steps back take their own rows alone."""
        lean = with_lean_loops(self.tied, self.name, _costs_nothing, FREE * self.total, True)
        return lean if self._has_same_values(lean) else self.tied

    def _has_same_values(self, other: IRModule) -> bool:
        """Whether a form has the values that are decided, as the program has them."""

        def values(mod: IRModule) -> set[tuple[str, Type | None]]:
            bindings = mod[self.name].body.bindings()
            return {(b.var.name, b.var.ty) for b in bindings if b.var.name in self.decided}

        return values(self.mod) == values(other)


def _costs_nothing(step: Step) -> bool:
    return step.fusible or step.is_view


def _is_any(step: Step) -> bool:
    return step.pure
