"""The backend "numpy": each operator against its lowering, and what it is for: looking inside."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from operator_evaluation import call_of, lowered
from operator_sample_table import SAMPLES
from parsing import parse_flow, parse_function

from relaxjax import BlockBuilder, Call, Var, build
from relaxjax.backends import compile_numpy, evaluate_numpy, numpy_supports
from relaxjax.backends.numpy_operators import NUMPY
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType, is_float
from relaxjax.passes import (
    AnnotateTarget,
    MergeCompilerRegions,
    PartitionGraph,
    RunCodegen,
    Sequential,
)
from relaxjax.testing.equations import run

EACH = 3  # samples of one operator


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_numpy_computes_what_the_lowering_does(name: str) -> None:
    op = get_op(name)
    assert SAMPLES[name]
    for index, sample in enumerate(SAMPLES[name][:EACH]):
        call, arrays = call_of(op, sample)
        if not numpy_supports(call):
            continue
        assert isinstance(call.ty, TensorType)
        builder = BlockBuilder()
        with builder.function("region", list(arrays)):
            builder.emit_func_output(builder.emit(call))
        values = [array.value(sample.seed(index + i)) for i, array in enumerate(arrays.values())]

        def wanted(*given: Any, call: Call = call, arrays: Any = tuple(arrays)) -> Any:
            return lowered(call, dict(zip(arrays, given, strict=True)))

        with jax.enable_x64(True):
            expected = np.asarray(run(wanted, *values))
        found = evaluate_numpy(builder.get()["region"], values)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        tight = call.ty.dtype == "float64" or not is_float(call.ty.dtype or "")
        tolerance = 1e-9 if tight else 2e-2
        np.testing.assert_allclose(
            np.asarray(found, "float64"),
            np.asarray(expected, "float64"),
            rtol=tolerance,
            atol=tolerance,
        )


def evaluated(text: str, *values: Any) -> Any:
    """What NumPy makes of a call whose result stands in the values' place."""
    types = ", ".join(f'x{i}: R.Tensor({v.shape}, "{v.dtype}")' for i, v in enumerate(values))
    lines = ("@R.function", f"def region({types}):", f"    y = {text}", "    return y")
    return evaluate_numpy(parse_function("\n".join(lines)), values)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("text", "expected"), [("sum(x0)", 1000), ("mean(x0)", 1), ("einsum((x0, x0), 'i,i->')", 1000)]
)
def test_half_precision_is_summed_up_in_more(dtype: str, text: str, expected: float) -> None:
    found = evaluated(f"R.{text}", np.ones(1000, jnp.dtype(dtype)))
    assert (float(found), str(found.dtype)) == (expected, dtype)


@pytest.mark.parametrize(("dtype", "more"), [("int8", "int32"), ("float16", "float32")])
def test_products_are_computed_in_the_dtype_that_they_are_to_have(dtype: str, more: str) -> None:
    x = np.full((1, 700), 100, dtype)
    found = evaluated(f"R.matmul(x0, R.permute_dims(x0), out_dtype='{more}')", x)
    assert (found.item(), str(found.dtype)) == (7_000_000, more)


@pytest.mark.parametrize(
    ("row", "expected"), [([-np.inf] * 2, -np.inf), ([np.inf, 0.0], np.inf), ([], -np.inf)]
)
def test_logsumexp_of_what_is_infinite(row: list[float], expected: float) -> None:
    assert evaluated("R.logsumexp(x0, axis=0)", np.array(row, "float32")) == expected


REGION = parse_function("""
    @R.function
    def region(x: R.Tensor(("n", 2), "float32"), dims: R.Shape(["m"])):
        n, m = T.int64(), T.int64()
        R.func_attr({"Codegen": "numpy"})
        a = R.broadcast_to(x, R.shape([m, n, 2]))
        b = R.sum(a, axis=0)
        return (a, b)
    """)


def test_symbolic_dimensions_and_shapes_come_with_the_arguments() -> None:
    x = np.arange(6, dtype="float32").reshape(3, 2)
    wide, total = compile_numpy(REGION)(jnp.asarray(x), (4,))
    chex.assert_trees_all_close((wide, total), (np.broadcast_to(x, (4, 3, 2)), 4 * x))


def test_each_value_can_be_looked_at() -> None:
    seen: dict[str, tuple[int, ...]] = {}

    def look(var: Var, value: np.ndarray) -> None:
        seen[var.name] = value.shape

    x = jnp.zeros((3, 2), "float32")
    jax.block_until_ready(compile_numpy(REGION, on_value=look)(x, (4,)))
    assert seen == {"a": (4, 3, 2), "b": (3, 2)}


def test_a_partitioned_program_reports_its_values_while_it_runs() -> None:
    mod = parse_flow("a = R.log(x)\nb = R.square(a)\nreturn b", x=(2,))
    infinite: list[str] = []

    def look(var: Var, value: np.ndarray) -> None:
        if not np.all(np.isfinite(value)):
            infinite.append(var.name)

    passes = Sequential([AnnotateTarget("numpy"), MergeCompilerRegions(), PartitionGraph()])
    compiled = RunCodegen({"numpy": {"on_value": look}})(passes(mod))
    executable = build(compiled)
    jax.block_until_ready(executable["main"](np.array([1, 2], "float32")))
    assert infinite == []
    jax.block_until_ready(executable["main"](np.array([1, 0], "float32")))
    assert infinite == ["lv1", "b"]


def test_a_result_of_unknown_shape_is_not_for_a_callback() -> None:
    x = Var("x", TensorType(None, "float32", 2))
    assert not numpy_supports(get_op("relax.exp")(x))
    assert numpy_supports(get_op("relax.exp")(Var("x", TensorType((2, 3), "float32"))))


def test_under_vmap_and_in_64_bits() -> None:
    region = parse_function("""
        @R.function
        def region(x: R.Tensor((2,), "float64")) -> R.Tensor((2,), "float64"):
            y = R.exp(x)
            return y
        """)
    x = np.array([[0.5, 1.0], [1.5, 2.0]])
    with jax.enable_x64(True):
        result = jax.vmap(compile_numpy(region))(jnp.asarray(x))
        assert result.dtype == "float64"
    np.testing.assert_allclose(result, np.exp(x), rtol=1e-15)


def test_what_numpy_cannot_compute() -> None:
    region = parse_function("""
        @R.function
        def region(x: R.Tensor((2,), "float32")):
            y = R.linear_recurrence(x, x)
            return y
        """)
    with pytest.raises(NotImplementedError, match=r"`numpy` cannot compute relax\.linear_recurr"):
        compile_numpy(region)
    nested = parse_function("""
        @R.function
        def region(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
            if flag:
                y = x
            else:
                y = x
            return y
        """)
    with pytest.raises(NotImplementedError, match="a region may not hold `if flag"):
        evaluate_numpy(nested, [np.zeros(2, "float32"), np.array(True)])


def test_what_looks_at_values_is_a_function() -> None:
    with pytest.raises(TypeError, match="`on_value` must be a function of a variable and an array"):
        compile_numpy(REGION, on_value=3)  # type: ignore[arg-type]
