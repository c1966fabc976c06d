"""LegalizeOps as a pass; what it does is tested with `legalize` itself."""

import jax.numpy as jnp
import pytest
from parsing import parse_flow

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.passes import LegalizeOps, Sequential

BEFORE = parse_flow("y = R.exp(x)\nz = R.add(y, x)\nreturn z", x=(2, 3))

AFTER = parse_flow("y = L.exp(x)\nz = L.add(y, x)\nreturn z", x=(2, 3))


def test_operators_become_calls_of_jax_lax() -> None:
    assert_structural_equal(LegalizeOps()(BEFORE), AFTER)
    assert_structural_equal(Sequential([LegalizeOps(target="llvm")])(BEFORE), AFTER)


def test_it_does_nothing_twice() -> None:
    assert LegalizeOps()(AFTER) is AFTER


def test_options() -> None:
    custom = LegalizeOps(customize_map={"relax.exp": jnp.sin}, skip_ops=["relax.add"])
    assert 'y: R.Tensor((2, 3), dtype="float32") = L.sin(x)' in custom(BEFORE).script()
    assert "R.add(y, x)" in custom(BEFORE).script()


def test_an_unknown_operator_names_the_pass() -> None:
    with pytest.raises(KeyError) as caught:
        LegalizeOps(skip_ops=["relax.expp"])(BEFORE)
    assert "did you mean `relax.exp`" in str(caught.value)
    assert any("LegalizeOps" in note for note in caught.value.__notes__)
