"""Numbers of 16 and 8 bits between steps: right in the mean, and zero only where they may be."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax.ir import TensorType, Var
from relaxjax.ir.op import get_op
from relaxjax.ops import OpError

STEPS = jnp.arange(400)


def lowered(name: str) -> Any:
    rule = get_op(f"relax.narrow.{name}").lower
    assert rule is not None
    return rule


def rounded(x: Any, step: Any) -> Any:
    return lowered("round")(x, step).astype("float32")


def coded(signed: bool) -> Any:
    return lambda x, step: lowered("decode")(*lowered("encode")(x, step, signed))


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


KINDS = {
    "bfloat16": (rounded, 2.0**-7, normal(3, 100)),
    "int8": (coded(True), 2.0**-3, normal(3, 100)),
    "uint8": (coded(False), 2.0**-3, normal(3, 100) ** 2),
}


@pytest.mark.parametrize(("narrow", "apart", "x"), KINDS.values(), ids=KINDS)
def test_a_number_is_rounded_to_a_neighbour_and_its_mean_is_right(
    narrow: Any, apart: float, x: Any
) -> None:
    found = np.float64(jax.jit(jax.vmap(narrow, (None, 0)))(x, STEPS))
    assert np.all(abs(found / x - 1) <= apart)
    assert np.all(abs(found.mean(0) / x - 1) < 5 * apart / 2 / np.sqrt(len(STEPS)))


@pytest.mark.parametrize("narrow", [rounded, coded(True)], ids=["bfloat16", "int8"])
def test_a_mean_that_moves_by_a_thousandth_a_step_moves(narrow: Any) -> None:
    """Rounded to the nearest it would stay where it is."""

    def step(mean: Any, count: Any) -> Any:
        return narrow(0.999 * mean, count), None

    found, _ = jax.lax.scan(step, jnp.ones(256), jnp.arange(1000))
    assert np.mean(found) == pytest.approx(0.999**1000, rel=0.05)
    assert jnp.bfloat16(0.999) == jnp.bfloat16(1)


def test_what_has_no_sign_is_zero_only_where_it_was_zero() -> None:
    x = jnp.array([1.0, 1e-9, 1e-30, 0.0])
    codes, scales = jax.jit(jax.vmap(lambda step: lowered("encode")(x, step, False)))(STEPS)
    assert codes.dtype == jnp.uint8
    assert np.all(codes[:, 0] == 255)
    assert np.all(codes[:, 1] > 1)
    assert np.all(codes[:, 2] == 1)
    assert np.all(codes[:, 3] == 0)
    assert np.all(scales == 1)


def test_what_has_a_sign_may_be_zero_by_chance_and_is_so_in_the_mean() -> None:
    x = jnp.array([1.0, 5e-6, -5e-6])
    found = np.asarray(jax.jit(jax.vmap(coded(True), (None, 0)))(x, jnp.arange(4000)))
    assert set(np.unique(np.sign(found[:, 1]))) == {0.0, 1.0}
    np.testing.assert_allclose(found.mean(0), x, rtol=0.15)


def test_zeros_stay_zeros_and_what_is_not_finite_stays_so() -> None:
    zeros = jnp.zeros(300)
    for narrow in (rounded, coded(True), coded(False)):
        made = jax.jit(jax.vmap(narrow, (0, None)))
        rows = made(
            jnp.stack([zeros, zeros.at[0].set(jnp.nan), zeros.at[0].set(jnp.inf)]), STEPS[3]
        )
        assert not jnp.any(rows[0])
        assert not jnp.any(jnp.isfinite(rows[1:, 0]))


def test_numbers_that_were_narrow_are_as_they_were() -> None:
    for narrow in (rounded, coded(True)):
        once = narrow(normal(300), jnp.int32(1))
        np.testing.assert_array_equal(narrow(once, jnp.int32(2)), once)


def v(*shape: int, dtype: str = "float32") -> Var:
    return Var("v", TensorType(shape, dtype))


FAULTY = {
    "integers": (
        lambda: get_op("relax.narrow.round")(v(2, dtype="int8"), v(dtype="int32")),
        "floats",
    ),
    "float step": (lambda: get_op("relax.narrow.encode")(v(2), v()), "`step` must be one integer"),
    "steps": (lambda: get_op("relax.narrow.round")(v(2), v(2, dtype="int32")), "one integer"),
    "codes": (lambda: get_op("relax.narrow.decode")(v(2), v(1)), "must be int8 or uint8"),
    "scales": (
        lambda: get_op("relax.narrow.decode")(v(300, dtype="int8"), v(1)),
        "one number for each block of 256, 2, found 1",
    ),
    "matrix": (
        lambda: get_op("relax.narrow.decode")(v(3, dtype="int8"), v(1, 1)),
        "float32 of one dimension",
    ),
}


@pytest.mark.parametrize(("make", "message"), FAULTY.values(), ids=FAULTY)
def test_what_it_cannot_take_is_an_error(make: Any, message: str) -> None:
    with pytest.raises(OpError, match=message):
        make()
