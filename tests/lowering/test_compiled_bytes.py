"""The bytes of a lowered program, by the compiler of a platform that tells them."""

from typing import Any

import pytest

from relaxjax.lowering.interpreter import LoweringError
from relaxjax.lowering.memory import compiled_bytes


class Silent:
    """A lowered program whose compiler does not tell what memory it takes."""

    options: dict[str, Any] | None = None

    def compile(self, compiler_options: dict[str, Any] | None) -> "Silent":
        self.options = compiler_options
        return self

    def memory_analysis(self) -> None:
        return None


@pytest.mark.parametrize(("platform", "named"), [(None, "cpu"), ("cpu", "cpu"), ("tpu", "tpu")])
def test_a_compiler_that_does_not_tell_is_named(platform: str | None, named: str) -> None:
    lowered: Any = Silent()
    wanted = f"^{named} does not tell how much memory `main` takes$"
    with pytest.raises(LoweringError, match=wanted):
        compiled_bytes(lowered, "main", platform)
    assert (lowered.options is not None) is (named == "cpu")  # compiled soon where that is known
