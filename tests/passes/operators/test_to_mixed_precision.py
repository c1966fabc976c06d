"""Half precision where it gains, float32 elsewhere; and models trained so."""

from typing import Any, Literal

import numpy as np
import pytest
from parsing import parse_flow
from rewriting import check_rewrite
from same_results import assert_same_results, calls_of, drawn_arguments, results
from small_models import Classifier

from relaxjax import Trainer, VirtualMachine, build
from relaxjax.ir import IRModule, TensorType, assert_structural_equal
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD
from relaxjax.passes import Gradient, LegalizeOps, SetupTrainer, SimplifyGradient, ToMixedPrecision

IMAGE = 'x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")'
MATRIX = (
    'x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")'
)


# The same as TVM writes, with out_dtype and dtype as they are there.
LIKE_TVM = {
    "convolution": (
        "gv = R.nn.conv2d(x, w)",
        """
        x1 = R.astype(x, "float16")
        w1 = R.astype(w, "float16")
        gv = R.nn.conv2d(x1, w1, out_dtype="float32")
        """,
    ),
    "what follows it": (
        "a = R.nn.relu(x)\nb = R.nn.conv2d(a, w)\ngv = R.nn.relu(b)",
        """
        w1 = R.astype(w, "float16")
        a = R.nn.relu(x)
        a1 = R.astype(a, "float16")
        b = R.nn.conv2d(a1, w1, out_dtype="float32")
        b1 = R.astype(b, "float16")
        c = R.nn.relu(b1)
        gv = R.astype(c, "float32")
        """,
    ),
    "residual": (
        "a = R.nn.relu(R.nn.conv2d(x, w))\nb = R.nn.conv2d(a, v, padding=1)\ngv = R.add(b, a)",
        """
        x1 = R.astype(x, "float16")
        w1 = R.astype(w, "float16")
        v1 = R.astype(v, "float16")
        a = R.nn.conv2d(x1, w1, out_dtype="float32")
        a1 = R.astype(a, "float16")
        a2 = R.nn.relu(a1)
        b = R.nn.conv2d(a2, v1, padding=1, out_dtype="float32")
        b1 = R.astype(b, "float16")
        c = R.add(b1, a2)
        gv = R.astype(c, "float32")
        """,
    ),
}
V = ', v: R.Tensor((4, 4, 3, 3), "float32")'


@pytest.mark.parametrize("case", LIKE_TVM)
def test_as_tvm(case: str) -> None:
    before, after = LIKE_TVM[case]
    module = parse_flow(before, IMAGE + V)
    found = ToMixedPrecision()(module)
    assert_structural_equal(found, parse_flow(after, IMAGE + V))
    assert ToMixedPrecision()(found) is found
    assert_same_results(module, found, tolerance=3e-2)


def test_what_stays_float32_is_never_rounded() -> None:
    """TVM rounds the product to float16, and converts it back for the sum with the bias."""
    module = parse_flow("a = R.matmul(x, w)\nc = R.add(a, b)\ngv = R.nn.softmax(c)", MATRIX)
    after = """
        x1 = R.astype(x, "float16")
        w1 = R.astype(w, "float16")
        a = R.matmul(x1, w1, out_dtype="float32")
        c = R.add(a, b)
        gv = R.nn.softmax(c)
    """
    found = ToMixedPrecision()(module)
    assert_structural_equal(found, parse_flow(after, MATRIX))
    assert_same_results(module, found, tolerance=1e-2)


def test_constants_follow_where_they_fit() -> None:
    body = 'a = R.matmul(x, w)\nc = R.multiply(a, R.const({}, "float32"))\ngv = R.matmul(c, w)'
    small = ToMixedPrecision()(parse_flow(body.format("2.0"), MATRIX))
    large = ToMixedPrecision()(parse_flow(body.format("1e6"), MATRIX))
    wide = ToMixedPrecision(dtype="bfloat16")(parse_flow(body.format("1e6"), MATRIX))
    assert [str(calls_of(m, "multiply")[0].args[1].ty) for m in (small, large, wide)] == [
        'R.Tensor((), dtype="float16")',
        'R.Tensor((), dtype="float32")',
        'R.Tensor((), dtype="bfloat16")',
    ]


def test_tuples_follow() -> None:
    module = parse_flow(
        "a = R.matmul(x, w)\nc = R.concat((a, a), axis=1)\ns = R.split(c, 2, axis=1)\n"
        "gv = R.matmul(s[0], w)",
        MATRIX,
    )
    found = ToMixedPrecision()(module)
    assert_same_results(module, found, tolerance=3e-2)
    assert str(calls_of(found, "concat")[0].ty) == 'R.Tensor((4, 16), dtype="float16")'
    assert len(calls_of(found, "astype")) == 3


def test_sums_may_stay_in_half_precision() -> None:
    found = ToMixedPrecision("float16")(parse_flow("gv = R.matmul(x, w)", MATRIX))
    after = """
        x1 = R.astype(x, "float16")
        w1 = R.astype(w, "float16")
        a = R.matmul(x1, w1, out_dtype="float16")
        gv = R.astype(a, "float32")
    """
    assert_structural_equal(found, parse_flow(after, MATRIX))


def test_parameters_may_be_taken_in_half_precision() -> None:
    module = parse_flow("gv = R.add(R.matmul(x, w), b)", MATRIX)
    found = ToMixedPrecision(fp16_input_names=["w", "b"])(module)
    after = """
        x1 = R.astype(x, "float16")
        a = R.matmul(x1, w, out_dtype="float32")
        a1 = R.astype(a, "float16")
        c = R.add(a1, b)
        gv = R.astype(c, "float32")
    """
    half = MATRIX.replace('(8, 8), "float32"', '(8, 8), "float16"')
    half = half.replace('(8,), "float32"', '(8,), "float16"')
    for param, dtype in zip(found["main"].params, ["float32", "float16", "float16"], strict=True):
        assert isinstance(param.ty, TensorType)
        assert param.ty.dtype == dtype
    x, w, b = drawn_arguments(module["main"])
    halves = [x, w.astype("float16"), b.astype("float16")]
    expected = results(module, "main", [x, w, b])
    np.testing.assert_allclose(results(found, "main", halves), expected, rtol=1e-2)
    assert_structural_equal(found, parse_flow(after, half))


def test_half_parameters_outside_of_dataflow_blocks() -> None:
    """What is there in half precision is read so, and not converted forth and back."""
    check_rewrite(
        ToMixedPrecision(fp16_input_names=["x"]),
        """
        @R.function
        def main(x: R.Tensor((3, 3), "float32")) -> R.Tensor((3, 3), "float32"):
            a = R.matmul(x, x)
            return a
        """,
        """
        @R.function
        def main(x: R.Tensor((3, 3), "float16")) -> R.Tensor((3, 3), "float32"):
            a = R.matmul(x, x, out_dtype="float32")
            return a
        """,
        again=False,
    )


def test_where_nothing_gains_nothing_happens() -> None:
    module = parse_flow("gv = R.nn.softmax(R.add(x, b))", MATRIX)
    assert ToMixedPrecision()(module) is module
    integers = MATRIX.replace("float32", "int32")
    module = parse_flow("gv = R.matmul(x, w)", integers)
    assert ToMixedPrecision()(module) is module
    doubles = MATRIX.replace("float32", "float64")
    module = parse_flow("gv = R.matmul(x, w)", doubles)
    assert ToMixedPrecision()(module) is module


def test_what_the_program_asks_for_stays() -> None:
    """A result that the program wants in another dtype, and a conversion that it writes."""
    module = parse_flow('gv = R.matmul(x, w, out_dtype="float64")', MATRIX)
    assert ToMixedPrecision()(module) is module
    found = ToMixedPrecision()(parse_flow('gv = R.astype(R.matmul(x, w), "float64")', MATRIX))
    assert str(calls_of(found, "astype")[-1].ty) == 'R.Tensor((4, 8), dtype="float64")'


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_backward_programs(dtype: str) -> None:
    """Of a function in mixed precision, and of an adjoint that is turned into it."""
    scalar = parse_flow("gv = R.mean(R.nn.log_softmax(R.nn.relu(R.matmul(x, w))))", MATRIX)
    exact = SimplifyGradient()(Gradient("main")(scalar))
    before = Gradient("main")(ToMixedPrecision(dtype=dtype)(scalar))
    after = ToMixedPrecision(dtype=dtype)(exact)
    for mixed in (before, after):
        assert_same_results(exact, mixed, "main_adjoint", tolerance=2e-2)


def setup(mod: Any, scale: Literal["dynamic"] | None = None) -> IRModule:
    loss_args = [TensorType((8, 3), "float32"), TensorType((8,), "int32")]
    return SetupTrainer(CrossEntropyLoss("mean"), SGD(0.5), loss_args, False, scale)(mod)


def first_and_last_loss(mod: IRModule, dtype: str = "float32") -> tuple[float, float]:
    random = np.random.default_rng(0)
    x = random.normal(size=(8, 5)).astype("float32")
    y = random.integers(0, 3, 8).astype("int32")
    train_mod = LegalizeOps()(mod)
    trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
    trainer.xavier_uniform_init_params(seed=0)
    losses = [float(trainer.update([x], [y])) for _ in range(30)]
    assert {str(p.dtype) for p in trainer.export_params().values()} == {dtype}
    return losses[0], losses[-1]


def test_training() -> None:
    """The backbone, or the whole step, in mixed precision: the loss falls as without the pass.

    The parameters are float32 throughout, or have float32 masters.
    """
    plain: Any = Classifier
    first, last = first_and_last_loss(setup(plain))
    assert last < 0.7 * first
    for changed in (
        setup(ToMixedPrecision(dtype="bfloat16")(plain)),
        ToMixedPrecision()(setup(plain, "dynamic")),
    ):
        assert "float16" in changed.script()
        np.testing.assert_allclose(first_and_last_loss(changed), [first, last], rtol=0.05)
    narrow = ToMixedPrecision("float32", ["w0", "b0", "w1", "b1"], "bfloat16")(plain)
    mastered = first_and_last_loss(setup(narrow), "bfloat16")
    np.testing.assert_allclose(mastered, [first, last], rtol=0.1)


def test_options_that_make_no_sense() -> None:
    module = parse_flow("gv = R.matmul(x, w)", MATRIX + ', i: R.Tensor((2,), "int32")')
    with pytest.raises(ValueError, match='`dtype` must be "float16" or "bfloat16", found "int8"'):
        ToMixedPrecision(dtype="int8")(module)
    with pytest.raises(ValueError, match='`out_dtype` must be "float32" or "bfloat16"'):
        ToMixedPrecision("float16", dtype="bfloat16")(module)
    with pytest.raises(ValueError, match="names `i`, which is no float32 tensor"):
        ToMixedPrecision(fp16_input_names=["i"])(module)
