"""Products of transposed matrices on a CPU: which they are, what they become, what stays."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_flow

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering import to_jax, to_python
from relaxjax.passes import Gradient, LegalizeOps

A, B = (jnp.asarray(np.random.default_rng(0).normal(size=s), "float32") for s in ((5, 3), (4, 5)))
BOTH = "R.matmul(R.permute_dims(a), R.permute_dims(b, [1, 0]))"


def product(value: str, a: str = '(5, "m")', b: str = "(4, 5)") -> IRModule:
    return parse_flow(f"y = {value}", a=f'R.Tensor({a}, "float32")', b=f'R.Tensor({b}, "float32")')


def test_one_transpose_is_written_out() -> None:
    body = """
        product = L.dot_general(
            b, a, dimension_numbers=[[[1], [0]], [[], []]], preferred_element_type="float32"
        )
        barrier = L.optimization_barrier(product)
        kept = barrier[0]
        y = L.transpose(kept, permutation=[1, 0])
    """
    expected = parse_flow(body, a=(5, "m"), b=(4, 5))
    legal = LegalizeOps("cpu")(product(BOTH))
    assert_structural_equal(legal, expected.with_attr("platform", "cpu"))
    assert LegalizeOps("cpu")(legal) is legal


@pytest.mark.parametrize(
    ("target", "value", "shapes"),
    [
        ("cuda", BOTH, {}),
        ("cpu", "R.matmul(R.permute_dims(a), b)", {"a": "(4, 3)"}),
        ("cpu", "R.matmul(b, R.permute_dims(a))", {"a": "(3, 5)"}),
        ("cpu", BOTH.replace("(a)", "(a, [0, 1])"), {"a": "(3, 5)"}),
        ("cpu", BOTH.replace("(a)", "(a, [0, 2, 1])"), {"a": "(2, 5, 3)"}),
    ],
    ids=["for another target", "left", "right", "in its order", "a stack"],
)
def test_others_stay_products_of_what_they_were(
    target: str, value: str, shapes: dict[str, str]
) -> None:
    assert "barrier" not in LegalizeOps(target)(product(value, **shapes)).script()


def test_a_transpose_with_another_use_stays() -> None:
    mod = parse_flow(
        "x = R.permute_dims(a)\ny = R.matmul(x, R.permute_dims(b))\nreturn (x, y)",
        a=(5, 3),
        b=(4, 5),
    )
    legal = LegalizeOps("cpu")(mod)
    assert legal.script().count("L.transpose") == 2
    chex.assert_trees_all_close(to_jax(legal, "main")(A, B), (A.T, A.T @ B.T), rtol=1e-5)


def test_values_and_derivatives_are_those_of_the_product() -> None:
    mod = product(BOTH)
    legal: Any = to_jax(LegalizeOps("cpu")(mod), "main")
    space: dict[str, Any] = {}
    exec(to_python(LegalizeOps("cpu")(mod)), space)

    def plain(a: Any, b: Any) -> Any:
        return a.T @ b.T

    def slopes(function: Any) -> Any:
        return jax.grad(lambda a, b: jnp.sum(jnp.sin(function(a, b))), (0, 1))(A, B)

    for found in (legal, jax.jit(legal), space["main"]):
        chex.assert_trees_all_close(found(A, B), plain(A, B), rtol=1e-5)
        chex.assert_trees_all_close(slopes(found), slopes(plain), rtol=1e-4)
    stacks = jnp.stack([A, 2 * A])
    chex.assert_trees_all_close(
        jax.vmap(legal, (0, None))(stacks, B), jnp.stack([plain(A, B), 2 * plain(A, B)]), rtol=1e-5
    )


def test_the_legalised_product_has_an_adjoint() -> None:
    body = f"""
        y = {BOTH}
        total = R.sum(R.sin(y))
    """
    mod = parse_flow(body, a=(5, 3), b=(4, 5))
    legal, plain = Gradient("main")(LegalizeOps("cpu")(mod)), Gradient("main")(mod)
    found, expected = (to_jax(m, "main_adjoint")(A, B) for m in (legal, plain))
    chex.assert_trees_all_close(found, expected, rtol=1e-4)
