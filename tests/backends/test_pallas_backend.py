"""The backend "pallas", interpreted: kernels against plain JAX."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from parsing import parse_flow, parse_function, parse_functions
from quickly_compiled_programs import QUICK

from relaxjax import BlockBuilder, Function, TensorType, Var, build, to_jax
from relaxjax.backends import compile_pallas, pallas_supports
from relaxjax.ir.op import OPS
from relaxjax.passes import FuseOpsByPattern, RunCodegen, get_patterns_with_prefix


def normal(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def expected(region: Function, *args: Any) -> Any:
    """What the region gives as an ordinary Relax function."""
    builder = BlockBuilder()
    builder.add_func(region.without_attr("Codegen"), "region")
    return jax.jit(to_jax(builder.get(), "region"), compiler_options=QUICK)(*args)


def test_all_elementwise_operators_in_one_kernel() -> None:
    x = Var("x", TensorType((3, 5), "float32"))
    y = Var("y", TensorType((5,), "float32"))
    builder = BlockBuilder()
    with builder.function("region", [x, y]):
        results = []
        for op in OPS.values():
            needed = [p for p in op.params if p.is_arg and p.default is ...]
            others = [p for p in op.params if not p.is_arg and p.default is ...]
            if op.facts.get("elementwise") and len(needed) in (1, 2) and not others:
                try:
                    call = op(*(x, y)[: len(needed)])
                except (TypeError, ValueError):
                    continue  # of integers, or of bools
                if pallas_supports(call):
                    results.append(builder.emit(call, op.name.replace(".", "_")))
        builder.emit_func_output(results)
    assert len(results) > 45
    region = builder.get()["region"]
    args = np.abs(normal(3, 5)) % 0.5 + 0.25, np.abs(normal(5)) % 0.5 + 0.25
    found = jax.jit(compile_pallas(region), compiler_options=QUICK)(*args)
    chex.assert_trees_all_close(found, tuple(expected(region, *args)), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "other"),
    [
        ((), ()),
        ((7,), ()),
        ((7,), (1,)),
        ((3, 130), (130,)),
        ((3, 130), (3, 1)),
        ((70, 1), (70, 1)),
        ((2, 3, 4), (3, 1)),
        ((2, 3, 4), (2, 1, 4)),
        ((2, 3, 4), (1, 1, 1)),
        ((2, 0, 4), (4,)),
    ],
)
def test_shapes_that_broadcast(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    x, y = Var("x", TensorType(shape, "float32")), Var("y", TensorType(other, "float32"))
    builder = BlockBuilder()
    with builder.function("region", [x, y]):
        total = builder.emit(x + y)
        builder.emit_func_output(builder.emit(total * 2.0 - x))
    region = builder.get()["region"]
    args = normal(*shape), normal(*other)
    chex.assert_trees_all_close(
        jax.jit(compile_pallas(region))(*args), expected(region, *args), rtol=1e-6
    )


def test_a_region_of_several_shapes_is_several_kernels() -> None:
    region = parse_function("""
        @R.function
        def region(x: R.Tensor(("n", 3), "float32"), y: R.Tensor((3,), "float32")):
            a = R.multiply(y, R.const([1.0, 2.0, 3.0], "float32"))
            b = R.exp(a)
            c = R.add(x, b)
            d = (c, b)
            e = d[0]
            f = R.less(e, R.const(0.0, "float32"))
            return (e, f, b)
        """)
    args = normal(4, 3), normal(3)
    program = jax.jit(compile_pallas(region))
    assert str(program.trace(*args).jaxpr).count("pallas_call[") == 3
    chex.assert_trees_all_close(program(*args), expected(region, *args), rtol=1e-6)


LAYER = """
    @R.function
    def main({signature}) -> R.Tensor({result}, "{dtype}"):
        with R.dataflow():
            product = R.matmul(x, w)
            shifted = R.add({add})
            out = R.nn.relu(shifted)
            R.output(out)
        return out
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [(5,), (2, 3), (70,)])
def test_a_layer_is_one_kernel(rows: tuple[int, ...], dtype: str) -> None:
    dims = ", ".join(map(str, rows))
    mod = parse_functions(
        LAYER.format(
            signature=f'x: R.Tensor(({dims}, 100), "{dtype}"), w: R.Tensor((100, 66), "{dtype}"), '
            f'b: R.Tensor((66,), "{dtype}")',
            result=f"({dims}, 66)",
            dtype=dtype,
            add="b, product" if len(rows) == 2 else "product, b",
        )
    )
    args = normal(*rows, 100, dtype=dtype), normal(100, 66, dtype=dtype), normal(66, dtype=dtype)
    fused = FuseOpsByPattern(get_patterns_with_prefix("pallas"), annotate_codegen=True)(mod)
    compiled = RunCodegen()(fused)
    assert len(compiled) == 1
    text = str(jax.make_jaxpr(to_jax(compiled, "main"))(*args))
    assert text.count("pallas_call[") == 1
    chex.assert_trees_all_close(
        np.asarray(build(compiled)["main"](*args), "float32"),
        np.asarray(build(mod)["main"](*args), "float32"),
        rtol=1e-5 if dtype == "float32" else 2e-2,
        atol=1e-4 if dtype == "float32" else 0.2,
    )


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 5, 4), (3, 1, 4), (3, 5, 1), (1, 1, 1), (0, 5, 4), (3, 0, 4), (3, 5, 0)],
)
def test_products_with_sides_of_one_or_none(rows: int, inner: int, columns: int) -> None:
    mod = parse_functions(
        LAYER.format(
            signature=f'x: R.Tensor(({rows}, {inner}), "float32"), '
            f'w: R.Tensor(({inner}, {columns}), "float32"), b: R.Tensor(({columns},), "float32")',
            result=f"({rows}, {columns})",
            dtype="float32",
            add="product, b",
        )
    )
    x, w, b = normal(rows, inner), normal(inner, columns), normal(columns)
    fused = FuseOpsByPattern(get_patterns_with_prefix("pallas"), annotate_codegen=True)(mod)
    found = build(RunCodegen()(fused))["main"](x, w, b)
    chex.assert_trees_all_close(found, np.maximum(x @ w + b, 0), rtol=1e-5)


def test_a_bias_that_is_a_constant() -> None:
    body = """
        product = R.matmul(x, w)
        out = R.add(product, R.const([1.0, 2.0], "float32"))
    """
    mod = parse_flow(body, x=(2, 3), w=(3, 2))
    compiled = RunCodegen()(
        FuseOpsByPattern(get_patterns_with_prefix("pallas"), annotate_codegen=True)(mod)
    )
    assert len(compiled) == 1
    args = normal(2, 3), normal(3, 2)
    chex.assert_trees_all_close(
        build(compiled)["main"](*args), args[0] @ args[1] + np.array([1, 2], "float32"), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("x", "w", "b", "expected"),
    [
        ("(2, 3)", "(3, 4)", "(4,)", "pallas.matmul_bias_relu"),
        ("(2, 3)", "(3, 4)", "(2, 4)", "pallas.matmul"),
        ("(2, 3)", "(3, 4)", "(1,)", "pallas.matmul"),
        ("(3,)", "(3, 4)", "(4,)", None),
        ("(2, 2, 3)", "(2, 3, 4)", "(4,)", None),
    ],
)
def test_which_products_are_taken(x: str, w: str, b: str, expected: str | None) -> None:
    mod = parse_functions(f"""
        @R.function
        def main(
            x: R.Tensor({x}, "float32"), w: R.Tensor({w}, "float32"), b: R.Tensor({b}, "float32")
        ):
            with R.dataflow():
                product = R.matmul(x, w)
                shifted = R.add(product, b)
                out = R.nn.relu(shifted)
                R.output(out)
            return out
        """)
    fused = FuseOpsByPattern(get_patterns_with_prefix("pallas"))(mod)
    names = [f.attrs.get("Composite") for f in fused.relax_functions().values()]
    assert [name for name in names if name] == ([expected] if expected else [])


def test_an_inner_value_that_others_need_stays_out_of_the_kernel() -> None:
    mod = parse_flow(
        "product = R.matmul(x, w)\nout = R.nn.relu(product)\nreturn (product, out)",
        x=(2, 3),
        w=(3, 4),
    )
    fused = FuseOpsByPattern(get_patterns_with_prefix("pallas"))(mod)
    names = [f.attrs.get("Composite") for f in fused.relax_functions().values()]
    assert sorted(filter(None, names)) == ["pallas.matmul"]


def test_what_pallas_cannot_compute() -> None:
    region = parse_function("""
        @R.function
        def region(x: R.Tensor((2,), "float32")):
            y = R.sum(x)
            return y
        """)
    with pytest.raises(NotImplementedError, match=r"the backend `pallas` cannot compute `R\.sum"):
        compile_pallas(region)
    integers = Var("x", TensorType((2,), "int32"))
    assert not pallas_supports(OPS["relax.abs"](integers))
    assert pallas_supports(OPS["relax.abs"](Var("x", TensorType((2,), "float32"))))
