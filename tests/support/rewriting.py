"""What a pass makes of a script, for tests that say it in script."""

from parsing import parse_functions

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.passes import Pass


def check_rewrite(given: Pass, before: str, after: str, *, again: bool = True) -> IRModule:
    """The pass makes of some functions others, and with `again` it leaves those alone."""
    module = parse_functions(before)
    changed = given(module)
    assert_structural_equal(changed, parse_functions(after))
    if again:
        assert given(changed) is changed
    return changed


def check_kept(given: Pass, text: str) -> None:
    """The pass has nothing to do: the result is the very module."""
    module = parse_functions(text)
    assert given(module) is module
