"""Operators in their training form, and spelt out."""

from collections.abc import Callable, Iterator
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_flow, parse_functions, parse_main, parse_module

from relaxjax import op, to_jax
from relaxjax.ir import Expr, IRModule, TensorType, assert_structural_equal
from relaxjax.ir.op import OPS
from relaxjax.passes.infrastructure.kinds import Pass
from relaxjax.passes.training.decompose_ops import (
    DecomposeOps,
    DecomposeOpsForInference,
    DecomposeOpsForTraining,
    MutateOpsForTraining,
)

LAYER_NORM = parse_flow(
    "y = R.nn.layer_norm(x, gamma, beta, axes=[1])\nreturn y", x=(2, 3, 4), gamma=(3,), beta=(3,)
)

BATCH_NORM = parse_functions("""
    @R.function
    def main(
        x: R.Tensor((4, 3), "float32"),
        gamma: R.Tensor((3,), "float32"),
        beta: R.Tensor((3,), "float32"),
        mean: R.Tensor((3,), "float32"),
        var: R.Tensor((3,), "float32"),
    ):
        with R.dataflow():
            y = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1, momentum=0.1)
            R.output(y)
        return y

    @R.function
    def other(x: R.Tensor((2, 3, 4), "float32"), g: R.Tensor((3,), "float32")):
        y = R.nn.layer_norm(x, g, g, axes=[1])
        return y
""")


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return [random.uniform(0.5, 1.5, shape).astype("float32") for shape in shapes]


def test_layer_norm_is_right_on_an_inner_axis() -> None:
    """TVM's own decomposition broadcasts gamma and beta along the wrong axis here."""
    decomposed = DecomposeOpsForTraining()(LAYER_NORM)
    assert "layer_norm" not in decomposed.script()
    inputs = arrays((2, 3, 4), (3,), (3,))
    expected = to_jax(LAYER_NORM, "main")(*inputs)
    chex.assert_trees_all_close(to_jax(decomposed, "main")(*inputs), expected, rtol=1e-5)


def test_batch_norm_trains_on_the_statistics_of_the_batch() -> None:
    decomposed = DecomposeOpsForTraining("main")(BATCH_NORM)
    x, gamma, beta, mean, var = inputs = arrays((4, 3), (3,), (3,), (3,), (3,))
    y, new_mean, new_var = to_jax(decomposed, "main")(*inputs)
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * gamma + beta
    chex.assert_trees_all_close(y, expected, rtol=1e-4, atol=1e-5)
    chex.assert_trees_all_close(new_mean, 0.9 * mean + 0.1 * x.mean(0), rtol=1e-5)
    chex.assert_trees_all_close(new_var, 0.9 * var + 0.1 * x.var(0), rtol=1e-5)


def test_batch_norm_infers_with_the_running_statistics() -> None:
    decomposed = DecomposeOpsForInference("main")(BATCH_NORM)
    assert "batch_norm" not in decomposed.script()
    x, gamma, beta, mean, var = inputs = arrays((4, 3), (3,), (3,), (3,), (3,))
    y, new_mean, new_var = to_jax(decomposed, "main")(*inputs)
    chex.assert_trees_all_close(
        y, (x - mean) / np.sqrt(var + 1e-5) * gamma + beta, rtol=1e-4, atol=1e-5
    )
    chex.assert_trees_all_equal((new_mean, new_var), (mean, var))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("decomposed", [DecomposeOpsForTraining, DecomposeOpsForInference])
def test_batch_norm_in_half_precision_is_spelt_out_in_float32(
    decomposed: Callable[[], Pass], dtype: str
) -> None:
    """As it is computed: the variance of one sample is 0, and epsilon below what float16 holds."""
    training = decomposed is DecomposeOpsForTraining
    vectors = ", ".join(
        f'{name}: R.Tensor((3,), "{dtype}")' for name in ("gamma", "beta", "mean", "var")
    )
    module = parse_flow(
        "y = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1, epsilon=1e-9, "
        f"training={training})\nreturn y",
        f'x: R.Tensor((1, 3), "{dtype}"), {vectors}',
    )
    given = [jnp.asarray(a, dtype) for a in arrays((1, 3), (3,), (3,), (3,), (3,))]

    def both(mod: IRModule) -> Any:
        outputs, back = jax.vjp(to_jax(mod, "main"), *given)
        return outputs, back(jax.tree.map(jnp.ones_like, outputs))

    expected, found = both(module), both(decomposed()(module))
    assert all(np.isfinite(leaf.astype("float32")).all() for leaf in jax.tree.leaves(found))
    chex.assert_trees_all_close(found, expected, rtol=2e-2, atol=1e-2)


def test_only_the_named_function_changes() -> None:
    decomposed = DecomposeOpsForTraining("main")(BATCH_NORM)
    assert decomposed["other"] is BATCH_NORM["other"]
    assert "layer_norm" not in DecomposeOpsForTraining()(BATCH_NORM).script()


def test_training_is_mutation_then_decomposition() -> None:
    steps = DecomposeOps()(MutateOpsForTraining()(BATCH_NORM))
    assert_structural_equal(DecomposeOpsForTraining()(BATCH_NORM), steps)


def test_where_nothing_applies_the_module_is_returned_itself() -> None:
    plain = parse_main("y = R.exp(x)\nreturn y", x=(3,))
    assert DecomposeOpsForTraining()(plain) is plain
    assert DecomposeOpsForInference()(plain) is plain
    assert MutateOpsForTraining()(plain) is plain


@pytest.fixture
def own_operator() -> Iterator[str]:
    """An operator of a user's own that declares its training form."""

    def doubled(x: Expr) -> Expr:
        return x + x

    @op("relax.test_doubling", training_form=doubled)
    def doubling(x: TensorType) -> TensorType:
        """The argument, doubled in training."""
        return x

    yield doubling.name
    del OPS[doubling.name]


def test_a_user_s_operator_declares_its_own_training_form(own_operator: str) -> None:
    module = parse_module(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        '    def main(x: R.Tensor((3,), "float32")):\n'
        "        y = R.test_doubling(x)\n        return y\n"
    )
    assert "R.add(x, x)" in MutateOpsForTraining()(module).script()


@pytest.mark.parametrize("make", [DecomposeOpsForInference, DecomposeOpsForTraining])
def test_an_unknown_function_is_an_error(make: Callable[[str], Pass]) -> None:
    with pytest.raises(ValueError, match=r"no function `mian`.*did you mean `main`"):
        make("mian")(LAYER_NORM)
    external = parse_module(
        '@I.ir_module\nclass Module:\n    helper = R.ExternFunc("helper")\n'
        "    @R.function\n"
        '    def main(x: R.Tensor((3,), "float32")):\n        y = R.exp(x)\n        return y\n'
    )
    with pytest.raises(ValueError, match="`helper` is no Relax function: it has no body"):
        make("helper")(external)
