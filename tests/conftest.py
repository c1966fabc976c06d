"""The ground that every test stands on: JAX on the CPU and at its strictest."""

import os

# Only a wish: whoever runs the tests on another platform says so in the same variable.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"  # a test leaves nothing in the user's folders

import hypothesis
import jax
import pytest

from relaxjax.ir.check import check_well_formed
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.passes.kinds import Pass
from relaxjax.script import from_source

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The machines of a CI differ too much in speed for a deadline, and a run there must repeat itself.
hypothesis.settings.register_profile(
    "relaxjax", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("relaxjax")


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every pass of every test: the module's text reads back as the same module."""
    run = Pass.__call__

    def checked(self: Pass, mod: IRModule) -> IRModule:
        result = run(self, mod)
        if result is not mod and check_well_formed(result):
            assert_structural_equal(from_source(result.script()), result)
        return result

    monkeypatch.setattr(Pass, "__call__", checked)
