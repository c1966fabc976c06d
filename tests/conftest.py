"""The ground that every test stands on: JAX on the CPU and at its strictest."""

import os

# Only a wish: whoever runs the tests on another platform says so in the same variable.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import hypothesis
import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The machines of a CI differ too much in speed for a deadline, and a run there must repeat itself.
hypothesis.settings.register_profile(
    "relaxjax", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
hypothesis.settings.load_profile("relaxjax")
