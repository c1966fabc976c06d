"""Arrays in memory of the host are rearranged without a program of JAX's."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from relaxjax.trainable.storage import Place, Storage, rearranged


def turned(array: Any) -> Any:
    return array.transpose((1, 2, 0))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int32", ml_dtypes.bfloat16, ml_dtypes.int4])
def test_nothing_is_compiled_for_an_array_of_the_host(dtype: Any) -> None:
    own = np.arange(24).reshape(2, 3, 4).astype(dtype)
    array = jnp.asarray(own)
    jax.clear_caches()
    with jax.no_tracing():
        moved = rearranged(turned, array)
    assert isinstance(moved, jax.Array)
    assert moved.dtype == array.dtype
    np.testing.assert_array_equal(np.asarray(moved), own.transpose((1, 2, 0)))


def test_a_trainers_arrays_move_without_a_program() -> None:
    storage = Storage.apart(3).moved({0: (1, 0), 1: (1, 0)}).stacked([(0, 1)])
    own = [jnp.full((2, 3), 1.0), jnp.full((2, 3), 2.0), jnp.ones(4)]
    with jax.no_tracing():
        stored = storage.inside(own)
        again = storage.outside(stored)
    assert [array.shape for array in stored] == [(2, 3, 2), (4,)]
    for found, wanted in zip(again, own, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_is_moved_has_memory_of_its_own() -> None:
    """A step takes the memory of what is stored for its new values."""
    array = jnp.arange(8.0).reshape(1, 8)
    moved = Place(0, order=(1, 0)).inside(array)
    jax.jit(lambda a: a * 0, donate_argnums=0)(moved)
    np.testing.assert_array_equal(array, np.arange(8.0).reshape(1, 8))


def test_numpys_arrays_stay_numpys() -> None:
    found = rearranged(turned, np.zeros((2, 3, 4)))
    assert isinstance(found, np.ndarray)
    assert found.shape == (3, 4, 2)


def test_an_array_stays_where_it_is() -> None:
    device = jax.devices("cpu")[-1]
    placed = rearranged(turned, jax.device_put(jnp.zeros((2, 3, 4)), device))
    assert placed.committed
    assert placed.devices() == {device}
    assert not rearranged(turned, jnp.zeros((2, 3, 4))).committed


def test_jax_moves_what_it_traces_and_what_numpy_does_not_have() -> None:
    assert jax.jit(lambda array: rearranged(turned, array))(jnp.zeros((2, 3, 4))).shape == (3, 4, 2)
    keys = jax.random.split(jax.random.key(0), (2, 3, 4))
    assert rearranged(turned, keys).dtype == keys.dtype
    with jax.enable_x64(True):
        wide = jnp.full((2, 3, 4), 1 / 3, "float64")
    moved = rearranged(turned, wide)  # outside, where JAX would take it for one of 32 bits
    assert moved.dtype == "float64"
    assert float(moved[0, 0, 0]) == 1 / 3
