"""Composite functions by a table of patterns."""

from collections.abc import Sequence
from typing import Any

from relaxjax.dpl import FusionPattern, PatternCheckContext, PatternEntry, as_fusion_pattern
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory

from .fuse_ops_by_pattern import FuseOpsByPattern


@pass_factory(opt_level=0)
def MergeComposite(mod: IRModule, pattern_table: Sequence[PatternEntry]) -> IRModule:
    """Make what patterns of a table fit composite functions, which another compiler takes as one.

    Args:
        pattern_table: tuples of a name, a pattern and, if wanted, a check: a function of the call
            that fits, which says whether it is to be taken. Earlier ones go first.
            `FusionPattern`s may stand beside them.
    """
    patterns = [_with_plain_check(entry) for entry in pattern_table]
    return FuseOpsByPattern(patterns)(mod)


def _with_plain_check(entry: PatternEntry) -> FusionPattern:
    if not isinstance(entry, tuple) or len(entry) != 3:
        return as_fusion_pattern(entry)
    name, pattern, check = entry
    if not callable(check):
        raise TypeError(
            f"the check of `{name}` must be a function of the call that fits, found `{check!r}`"
        )

    def taken(context: PatternCheckContext) -> Any:
        return check(context.matched_expr)

    return as_fusion_pattern((name, pattern, {}, taken))
