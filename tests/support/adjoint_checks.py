"""Arguments for small programs, and their adjoints compared with `jax.grad`, for tests."""

import chex
import jax
import jax.numpy as jnp
import numpy as np

from relaxjax import from_source, to_jax
from relaxjax.ir import IRModule, assert_structural_equal, well_formed
from relaxjax.passes import Gradient


def array(*shape: int, seed: int = 0) -> jax.Array:
    """Numbers around one: nothing is near a kink, a pole or zero."""
    return jnp.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, shape), jnp.float32)


def signed_array(*shape: int, seed: int = 0) -> jax.Array:
    """Numbers of both signs."""
    return jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, shape), jnp.float32)


def float_places(args: tuple[jax.Array, ...]) -> tuple[int, ...]:
    """Which of the arguments have gradients."""
    return tuple(i for i, arg in enumerate(args) if jnp.issubdtype(arg.dtype, jnp.floating))


def check_adjoint(module: IRModule, *args: jax.Array, rtol: float = 1e-5) -> IRModule:
    """Compare with `jax.grad`, and see that the adjoint is well-formed and survives its text."""
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    assert_structural_equal(from_source(adjoint.script()), adjoint)
    floats = float_places(args)
    forward = to_jax(module, "main")
    expected = jax.jit(jax.value_and_grad(forward, argnums=floats))(*args)
    value, gradients = jax.jit(to_jax(adjoint, "main_adjoint"))(*args)
    found = value, tuple(gradients[i] for i in floats)
    chex.assert_trees_all_close(found, expected, rtol=rtol, atol=1e-6)
    return adjoint
