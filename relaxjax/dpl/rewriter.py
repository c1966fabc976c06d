"""Rewriters as objects: a rule that is applied to functions and modules, and joined with others."""

from collections.abc import Sequence
from typing import TypeVar

from relaxjax.ir.builder import Names
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.structural import structural_equal

from .pattern import DFPattern
from .rewrite import CallRewriter, Rule, rewrite_by
from .written_rules import Replacement, called, written_rule

Program = TypeVar("Program", Function, IRModule)


class PatternMatchingRewriter:
    """Rules that rewrite what their patterns fit, in a function or all functions of a module."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)

    @staticmethod
    def from_pattern(pattern: DFPattern, func: CallRewriter) -> "PatternMatchingRewriter":
        """The rule that `rewrite_call` would apply."""
        return PatternMatchingRewriter([(pattern, func)])

    @staticmethod
    def from_module(mod: IRModule) -> "PatternMatchingRewriter":
        """A rule written as two functions of the same parameters, `pattern` and `replacement`.

        Private functions that the replacement calls come into the module that is rewritten. A
        dimension of the parameters is the same one wherever its name stands.
        """
        return PatternMatchingRewriter([written_rule(mod)])

    def __call__(self, program: Program) -> Program:
        if isinstance(program, Function):
            return self._on_function(program)
        check_module(program, "a rewriter")
        rules, helpers = _named_in(program, self.rules)
        functions = program.relax_functions()
        changed = {name: rewrite_by(rules, function) for name, function in functions.items()}
        new = [function for name, function in changed.items() if function is not functions[name]]
        return program.with_functions({**called(helpers, new), **changed})

    def __or__(self, other: "PatternMatchingRewriter") -> "OrRewriter":
        """Both, each where it applies; where both do, this one."""
        return OrRewriter(self, other)

    def _on_function(self, function: Function) -> Function:
        changed = rewrite_by(self.rules, function)
        helpers = {n: f for _, rule in self.rules for n, f in _helpers(rule).items()}
        needed = called(helpers, [changed] if changed is not function else [])
        if needed:
            raise ValueError(
                f"the replacement calls `{min(needed)}`, which no function can bring along: apply "
                "the rewriter to the module of this function"
            )
        return changed


class ExprPatternRewriter(PatternMatchingRewriter):
    """The rewriter of one pattern."""

    def __init__(self, pattern: DFPattern, func: CallRewriter) -> None:
        super().__init__([(pattern, func)])


class OrRewriter(PatternMatchingRewriter):
    """Two rewriters, each where it applies; where both do, the first."""

    def __init__(self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter) -> None:
        super().__init__([*lhs.rules, *rhs.rules])
        self.lhs = lhs
        self.rhs = rhs


def _helpers(rewriter: CallRewriter) -> dict[str, Function]:
    return dict(rewriter.helpers) if isinstance(rewriter, Replacement) else {}


def _named_in(mod: IRModule, rules: Sequence[Rule]) -> tuple[list[Rule], dict[str, Function]]:
    """The rules with names for their helpers that no other function has, and all the helpers."""
    names = Names([var.name for var in mod.functions])
    helpers: dict[str, Function] = {}
    named: list[Rule] = []
    for pattern, rewriter in rules:
        if isinstance(rewriter, Replacement) and rewriter.helpers:
            taken = {**mod.relax_functions(), **helpers}
            rewriter = rewriter.renamed(
                {
                    name: name
                    if name in taken and structural_equal(taken[name], helper)
                    else names.unique(name)
                    for name, helper in rewriter.helpers.items()
                }
            )
            helpers |= rewriter.helpers
        named.append((pattern, rewriter))
    return named, helpers
