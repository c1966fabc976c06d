"""The laws of algebra: what each makes of a program, and that values stay the same."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algebra_cases import BACKWARD, BYTES, CASES, HALF, NAN, PARAMS, SQUARES, STACK, program
from parsing import parse_flow, parse_functions, parse_main

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.ops.cost import function_cost
from relaxjax.passes import CanonicalizeBindings, SimplifyExpr
from relaxjax.passes.simplification.algebra import LAWS


def arrays() -> list[jnp.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(2, 3), (2, 3), (3,), (3, 4), (3, 5)]
    return [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]


def test_every_law_has_its_cases() -> None:
    assert {law.name for law in LAWS} == set(CASES)


ALL = [(law, *case) for law, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("law", "before", "after"), ALL, ids=lambda item: item[:60])
def test_a_law(law: str, before: str, after: str) -> None:
    """The program becomes the one expected, whose values are those of the first."""
    module, wanted = program(before), program(after)
    simpler = SimplifyExpr()(module)
    canonical = CanonicalizeBindings()
    assert_structural_equal(canonical(simpler), canonical(SimplifyExpr()(wanted)))
    if before != after:
        costs = [function_cost(m["main"]) for m in (module, simpler)]
        counts = [sum(1 for _ in m["main"].body.bindings()) for m in (module, simpler)]
        assert costs[0] is not None
        assert costs[1] is not None
        assert counts[1] <= counts[0] or int(costs[1].flops) < int(costs[0].flops)
    with jax.enable_x64("float64" in before):  # only now: no pass depends on it
        values = [to_jax(m, "main")(*arrays()) for m in (simpler, module)]
    chex.assert_trees_all_close(*values, rtol=1e-5)
    assert SimplifyExpr()(simpler) is simpler


@pytest.mark.parametrize(
    "value",
    [
        "R.add(v, x)",
        "R.subtract(R.const(1, 'float32'), x)",
        "R.divide(R.const(1, 'float32'), x)",
        "R.add(v, R.zeros((2, 3), 'float32'))",
        "R.subtract(R.zeros((2, 3), 'float32'), v)",
        "R.multiply(v, x)",
        "R.reshape(R.permute_dims(x), (6,))",
        "L.reduce_sum(L.reshape(x, new_sizes=[3, 1, 2]), axes=[0, 1])",
        # the axes are taken in another order first
        "L.reshape(L.reshape(x, new_sizes=[3, 2], dimensions=[1, 0]), new_sizes=[6])",
        "L.reshape(L.reshape(x, new_sizes=[3, 2]), new_sizes=[6], dimensions=[1, 0])",
        "L.reshape(R.matmul(x, R.permute_dims(x)), new_sizes=[2, 2], dimensions=[1, 0])",
        "R.astype(x, 'float16')",
        "R.exp(R.log(x))",
        "R.matmul(x, R.eye(3, k=1))",
        "R.matmul(x, R.const([[1, 1], [0, 1], [0, 0]], 'float32'))",
        # the factors are larger than the products
        "R.add(R.matmul(x, w), R.matmul(x, R.sin(w)))",
        "R.add(R.matmul(x, w), R.matmul(v, w))",
        "R.sum(R.broadcast_to(v, (2, 3)), axis=1)",
        "R.nn.nll_loss(R.nn.log_softmax(x, axis=0), R.argmax(y, axis=1))",
        "R.nn.nll_loss(R.log(x), R.argmax(y, axis=1))",
        # not over the classes that the loss sees
        "R.nn.nll_loss(R.reshape(R.nn.log_softmax(x), (3, 2)), R.argmax(y, axis=0))",
        "R.nn.nll_loss(R.reshape(R.nn.log_softmax(x), (1, 2, 3)), R.zeros((1, 3), 'int32'))",
        f"{BACKWARD}R.subtract(d, R.multiply(R.sum(d, axis=0, keepdims=True), R.exp(z)))",
        f"{BACKWARD}R.subtract(d, R.multiply(R.sum(z, axis=1, keepdims=True), R.exp(z)))",
        f"{BACKWARD}R.subtract(d, R.multiply(R.sum(d, axis=1, keepdims=True), R.exp(x)))",
        # of (2, 3) numbers, not of (2, 1)
        "R.collapse_sum_to(R.multiply(v, R.sum(x, axis=1, keepdims=True)), (1, 3))",
        # one after the other of what is summed up
        "R.sum(R.multiply(R.matmul(R.permute_dims(x), x), v), axis=1)",
        "R.sum(R.multiply(x, v), axis=1, keepdims=True)",
        "R.sum(R.divide(v, x), axis=0, keepdims=True)",
        "R.sum(R.multiply(R.multiply(x, y), R.multiply(y, y)), axis=0, keepdims=True)",
        # in one step the numbers would be too large for the dtype, or lose digits
        f"R.multiply(R.multiply({HALF}, R.const(300, 'float16')), R.const(300, 'float16'))",
        f"R.multiply(R.multiply({HALF}, R.const(1e-3, 'float16')), R.const(1e-3, 'float16'))",
        f"R.multiply(R.multiply({HALF}, R.const(1e-5, 'float16')), R.const(1e-5, 'float16'))",
        f"R.matmul({HALF}, R.full((3, 2), R.const(0.1, 'float16'), 'float16'))",
        f"R.sum(R.matmul({HALF}, R.astype(w, 'float16')), axis=0)",
        f"R.sum(R.broadcast_to({HALF}, (70000, 2, 3)), axis=[0])",
        f"R.collapse_sum_to(R.broadcast_to({HALF}, (70000, 2, 3)), (2, 3))",
        "R.astype(R.sum(R.ones((300, 3), 'int8'), axis=0), 'float32')",
        f"R.astype(R.collapse_sum_to(R.broadcast_to({BYTES}, (300, 2, 3)), (2, 3)), 'float32')",
        # nothing has no mean
        "R.mean(R.broadcast_to(v, (0, 3)), axis=0)",
        # what an integer dtype makes of these numbers is not theirs
        "R.astype(R.sum(R.full((2, 3), R.const(2.7, 'float32'), 'int32')), 'float32')",
        f"R.astype(R.add(R.full((2, 3), R.const(300, 'int32'), 'int8'), {BYTES}), 'float32')",
        f"R.astype(R.add(R.full((2, 3), R.const({NAN}), 'int8'), {BYTES}), 'float32')",
        # over the rows of each product too
        f"R.collapse_sum_to(R.matmul(R.permute_dims({STACK}, [0, 2, 1]), {STACK}), (1, 3))",
        # nor of other axes than those of the rows
        f"R.collapse_sum_to(R.matmul(R.permute_dims({SQUARES}), {SQUARES}), (2, 2))",
        # no transpose is undone
        "R.permute_dims(R.matmul(x, w))",
        # sums of factors would be made in a narrower dtype than those of products
        f"R.sum(R.matmul({HALF}, R.astype(w, 'float16'), out_dtype='float32'), axis=0)",
        f"""R.astype(w, 'float16')
            z = R.add(R.matmul({HALF}, z, out_dtype='float32'),
                R.matmul(R.astype(y, 'float16'), z, out_dtype='float32'))""",
        # means of integers are rounded
        "R.astype(R.mean(R.matmul(R.astype(x, 'int32'), R.astype(w, 'int32'))), 'float32')",
        # one divided by zero is an infinity of its sign
        "R.where(R.less(x, y), R.zeros((2, 3), 'float32'), R.const(-0.0, 'float32'))",
        # no float holds this number
        "R.astype(R.full((2, 3), R.const(9007199254740993, 'int64'), 'int64'), 'float32')",
    ],
)
def test_where_no_law_applies_the_module_is_the_same(value: str) -> None:
    module = program(value)
    assert SimplifyExpr()(module) is module


def test_a_product_that_is_used_elsewhere_is_not_duplicated() -> None:
    body = "z = R.matmul(R.permute_dims(w), v)\nr = R.add(R.sum(R.permute_dims(z)), R.sum(z))"
    module = parse_flow(body, w=(3, 4), v=(3, 5))
    assert SimplifyExpr()(module).script().count("R.matmul") == 1


@pytest.mark.parametrize(
    ("product", "value"),
    [
        ("R.matmul(x, w)", "R.sum(z)"),
        ("R.matmul(x, w)", "R.add(z, R.matmul(y, w))"),
        (f"R.matmul(R.permute_dims({STACK}, [0, 2, 1]), {STACK})", "R.collapse_sum_to(z, (3, 3))"),
    ],
)
def test_a_product_that_is_used_elsewhere_is_not_computed_once_more(
    product: str, value: str
) -> None:
    module = parse_flow(f"z = {product}\ns = {value}\nreturn (z, s)", PARAMS)
    assert SimplifyExpr()(module) is module


def test_a_tensor_of_unknown_shape_keeps_its_operators() -> None:
    body = "y = R.subtract(x, x)\nz = R.reshape(y, R.shape_of(x))\nreturn z"
    module = parse_main(body, x='R.Tensor(ndim=2, dtype="float32")')
    assert SimplifyExpr()(module) is module


def test_complex_numbers_that_fill_tensors() -> None:
    """What is computed of one number is one number where that is a real one."""
    module = parse_functions("""
        @R.function
        def main(x: R.Tensor((2,), "complex64")):
            one = R.ones(R.shape([2]), "complex64")
            two = R.add(one, one)
            other = R.multiply(R.multiply(x, R.const(2j, "complex64")), R.const(3j, "complex64"))
            return (two, other)
    """)
    x = jnp.asarray([1, 2j], jnp.complex64)
    simpler = SimplifyExpr()(module)
    assert "R.add" not in simpler.script()
    chex.assert_trees_all_close(*(to_jax(m, "main")(x) for m in (simpler, module)))
