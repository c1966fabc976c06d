"""The laws of algebra: what each makes of a program, and that values stay the same."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.lowering import to_jax
from relaxjax.ops.cost import function_cost
from relaxjax.passes.simplification.algebra import LAWS
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings
from relaxjax.passes.simplification.simplify_expr import SimplifyExpr
from relaxjax.script import from_source

PARAMS = (
    'x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32"), '
    'v: R.Tensor((3,), "float32"), w: R.Tensor((3, 4), "float32")'
)

HALF = "R.astype(x, 'float16')"
BYTES = "R.astype(x, 'int8')"
NAN = "float('nan'), 'float32'"
STACK = "R.stack((x, y))"
SQUARES = "R.stack((R.matmul(x, R.permute_dims(x)), R.matmul(y, R.permute_dims(y))))"

# The adjoint of nll_loss after log_softmax, as far as nll_loss: `z` is bound again behind it.
BACKWARD = (
    "R.nn.log_softmax(x)\n            t = R.argmax(y, axis=1)\n"
    "            d = R.grad.nll_loss_backward(R.sum(v), z, t, reduction='mean')\n            z = "
)

# The same of scores of texts, whose samples are put in one row for the loss.
TEXTS = "R.nn.log_softmax(R.reshape(x, (1, 2, 3)))"
TEXTS_BACKWARD = (
    f"{TEXTS}\n            f = R.reshape(z, (2, 3))\n            t = R.argmax(y, axis=1)\n"
    "            d = R.grad.nll_loss_backward(R.sum(v), f, t, reduction='mean')\n"
    "            m = R.reshape(d, (1, 2, 3))\n            z = "
)

# A line of its own for each law and each of its cases: what is written, and what becomes of it.
CASES = {
    "unit": [
        ("R.add(x, R.const(0, 'float32'))", "x"),
        ("R.multiply(R.const(1, 'float32'), x)", "x"),
        ("R.divide(x, R.ones((2, 3), 'float32'))", "x"),
        ("R.subtract(x, R.zeros((2, 3), 'float32'))", "x"),
    ],
    "zero": [("R.multiply(x, R.const(0, 'float32'))", "R.zeros((2, 3), 'float32')")],
    "filled": [
        (
            "R.negative(R.full((2, 3), R.const(2, 'float32'), 'float32'))",
            "R.full((2, 3), R.const(-2, 'float32'), 'float32')",
        ),
        ("R.exp(R.zeros((2, 3), 'float32'))", "R.ones((2, 3), 'float32')"),
        (
            "R.divide(R.ones((2, 3), 'float64'), R.const(-3.0, 'float64'))",
            f"R.full((2, 3), R.const({-1 / 3}, 'float64'), 'float64')",
        ),
    ],
    "moved": [
        ("R.permute_dims(R.ones((3, 2), 'float32'))", "R.ones((2, 3), 'float32')"),
        ("R.broadcast_to(R.zeros((3,), 'float32'), (2, 3))", "R.zeros((2, 3), 'float32')"),
    ],
    "difference": [
        ("R.subtract(x, x)", "R.zeros((2, 3), 'float32')"),
        ("R.subtract(R.const(0, 'float32'), x)", "R.negative(x)"),
        ("R.subtract(x, R.negative(y))", "R.add(x, y)"),
    ],
    "sum_with_negative": [
        ("R.add(x, R.negative(y))", "R.subtract(x, y)"),
        ("R.add(R.negative(x), y)", "R.subtract(y, x)"),
    ],
    "doubled": [("R.add(x, x)", "R.multiply(x, R.const(2, 'float32'))")],
    "undone": [
        ("R.negative(R.negative(x))", "x"),
        ("R.log(R.exp(x))", "x"),
        ("R.floor(R.floor(x))", "R.floor(x)"),
    ],
    "scalar_beside": [
        (
            "R.multiply(x, R.full((2, 3), R.const(3, 'float32'), 'float32'))",
            "R.multiply(x, R.const(3, 'float32'))",
        ),
        (
            "R.subtract(R.full((3,), R.const(3, 'float32'), 'float32'), x)",
            "R.subtract(R.const(3, 'float32'), x)",
        ),
    ],
    "numbers_together": [
        (
            "R.multiply(R.multiply(x, R.const(2, 'float32')), R.const(3, 'float32'))",
            "R.multiply(x, R.multiply(R.const(3, 'float32'), R.const(2, 'float32')))",
        ),
        (
            f"""R.multiply(R.const(3, 'int8'), R.multiply({BYTES}, R.const(100, 'int8')))
            z = R.astype(z, 'float32')""",
            f"""R.multiply({BYTES}, R.const(44, 'int8'))
            z = R.astype(z, 'float32')""",
        ),
    ],
    "permuted": [
        ("R.permute_dims(R.permute_dims(x))", "x"),
        ("R.permute_dims(x, axes=[0, 1])", "x"),
    ],
    "reshaped": [
        ("R.reshape(x, (2, 3))", "x"),
        ("R.reshape(R.reshape(x, (6,)), (3, 2))", "R.reshape(x, (3, 2))"),
        ("R.squeeze(R.expand_dims(x, 0), 0)", "x"),
    ],
    "reshaped_as_in_jax": [
        ("L.reshape(x, new_sizes=[2, 3])", "x"),
        (
            "L.reshape(L.reshape(x, new_sizes=[6]), new_sizes=[3, 2])",
            "L.reshape(x, new_sizes=[3, 2])",
        ),
        ("L.reduce_sum(L.reshape(v, new_sizes=[1, 3]), axes=[0])", "v"),
        (
            "L.reduce_sum(L.reshape(x, new_sizes=[1, 3, 1, 2]), axes=[0, 2])",
            "L.reshape(x, new_sizes=[3, 2])",
        ),
        (
            "L.reduce_sum(L.reshape(x, new_sizes=[1, 6], dimensions=[1, 0]), axes=[0])",
            "L.reshape(L.reshape(x, new_sizes=[1, 6], dimensions=[1, 0]), new_sizes=[6])",
        ),
    ],
    "broadcast_away": [
        ("R.broadcast_to(x, (2, 3))", "x"),
        ("R.collapse_sum_to(x, (2, 3))", "x"),
        ("R.broadcast_to(R.broadcast_to(v, (2, 3)), (4, 2, 3))", "R.broadcast_to(v, (4, 2, 3))"),
    ],
    "sum_of_repeats": [
        (
            "R.collapse_sum_to(R.broadcast_to(v, (2, 3)), (3,))",
            "R.multiply(v, R.const(2, 'float32'))",
        )
    ],
    "sum_of_filled": [
        (
            "R.sum(R.ones((2, 3), 'float32'), axis=0)",
            "R.full((3,), R.const(2, 'float32'), 'float32')",
        )
    ],
    "same_dtype": [("R.astype(x, 'float32')", "x")],
    "no_choice": [
        ("R.where(R.less(x, y), x, x)", "x"),
        (
            "R.where(R.less(x, y), R.zeros((2, 3), 'float32'), R.const(0, 'float32'))",
            "R.zeros((2, 3), 'float32')",
        ),
    ],
    "product_with_zero": [
        ("R.matmul(R.zeros((2, 3), 'float32'), w)", "R.zeros((2, 4), 'float32')"),
    ],
    "sum_of_broadcast": [
        (
            "R.sum(R.broadcast_to(v, (2, 3)), axis=0)",
            "R.multiply(v, R.const(2, 'float32'))",
        ),
        ("R.mean(R.broadcast_to(v, (2, 3)), axis=[0], keepdims=True)", "R.reshape(v, (1, 3))"),
        (
            "R.sum(R.broadcast_to(R.reshape(v, (3, 1)), (2, 3, 4)), axis=[0, 1])",
            """R.broadcast_to(R.reshape(R.multiply(R.sum(R.reshape(v, (3, 1)), axis=0,
            keepdims=True), R.const(2, 'float32')), (1,)), (4,))""",
        ),
    ],
    "product_with_identity": [
        ("R.matmul(x, R.eye(3))", "x"),
        ("R.matmul(R.const([[1, 0], [0, 1]], 'float32'), x)", "x"),
    ],
    "product_with_filled": [
        (
            "R.matmul(x, R.full((3, 4), R.const(2, 'float32'), 'float32'))",
            """R.broadcast_to(R.multiply(R.sum(x, axis=-1, keepdims=True),
            R.const(2, 'float32')), (2, 4))""",
        ),
        (
            "R.matmul(R.ones((5, 2), 'float32'), x)",
            "R.broadcast_to(R.sum(x, axis=-2, keepdims=True), (5, 3))",
        ),
    ],
    "product_with_diagonal": [
        ("R.matmul(x, R.multiply(R.eye(3), v))", "R.multiply(x, v)"),
        (
            "R.matmul(R.multiply(v, R.eye(3)), w)",
            "R.multiply(R.expand_dims(v, axis=-1), w)",
        ),
    ],
    "factor_of_sum": [
        (
            "R.collapse_sum_to(R.multiply(x, v), (3,))",
            "R.multiply(R.collapse_sum_to(x, (3,)), v)",
        ),
        (
            "R.sum(R.divide(R.multiply(R.negative(R.multiply(v, x)), y), v), [0], keepdims=True)",
            """R.negative(R.divide(R.multiply(
                R.sum(R.multiply(x, y), [0], keepdims=True), v), v))""",
        ),
    ],
    "sum_of_product": [
        (
            "R.sum(R.matmul(x, w))",
            """R.squeeze(R.matmul(R.sum(x, axis=0, keepdims=True),
            R.sum(w, axis=1, keepdims=True)), axis=[0, 1])""",
        ),
        (
            "R.mean(R.matmul(x, w), axis=-1, keepdims=True)",
            "R.matmul(x, R.mean(w, axis=1, keepdims=True))",
        ),
        (
            "R.sum(R.matmul(x, w), axis=0)",
            "R.squeeze(R.matmul(R.sum(x, axis=0, keepdims=True), w), axis=[0])",
        ),
        (
            f"R.sum(R.matmul({STACK}, w), axis=[0, 2])",
            f"""R.squeeze(R.matmul(R.sum({STACK}, axis=0, keepdims=True),
            R.sum(w, axis=1, keepdims=True)), axis=[0, 2])""",
        ),
    ],
    "sum_of_products": [
        ("R.add(R.matmul(x, w), R.matmul(y, w))", "R.matmul(R.add(x, y), w)"),
        (
            """R.reshape(w, (4, 3))
            z = R.add(R.matmul(z, R.reshape(x, (3, 2))), R.matmul(z, R.reshape(y, (3, 2))))""",
            """R.reshape(w, (4, 3))
            z = R.matmul(z, R.add(R.reshape(x, (3, 2)), R.reshape(y, (3, 2))))""",
        ),
    ],
    "sum_of_stacked_products": [
        (
            """R.collapse_sum_to(R.matmul(R.permute_dims(R.reshape(w, (2, 2, 3)), axes=[0, 2, 1]),
            R.reshape(w, (2, 2, 3))), (3, 3))""",
            "R.matmul(R.permute_dims(R.reshape(w, (4, 3))), R.reshape(w, (4, 3)))",
        ),
    ],
    "transposed_product": [
        (
            "R.permute_dims(R.matmul(R.permute_dims(w), v2))",
            "R.matmul(R.permute_dims(v2), w)",
        )
    ],
    "loss_of_logits": [
        (
            "R.nn.nll_loss(R.nn.log_softmax(x), R.argmax(y, axis=1), reduction='none')",
            "R.nn.softmax_nll_loss(x, R.argmax(y, axis=1), reduction='none')",
        ),
        (
            "R.nn.nll_loss(R.nn.log_softmax(v, axis=0), R.argmax(v), v, ignore_index=1)",
            "R.nn.softmax_nll_loss(v, R.argmax(v), v, ignore_index=1)",
        ),
        (
            f"R.nn.nll_loss(R.reshape({TEXTS}, (2, 3)), R.argmax(y, axis=1))",
            "R.nn.softmax_nll_loss(x, R.argmax(y, axis=1))",
        ),
    ],
    "adjoint_of_logits": [
        (
            f"{BACKWARD}R.subtract(d, R.multiply(R.sum(d, axis=-1, keepdims=True), R.exp(z)))",
            """R.argmax(y, axis=1)
            z = R.grad.softmax_nll_loss_backward(R.sum(v), x, z, reduction='mean')""",
        ),
        (
            f"{TEXTS_BACKWARD}R.subtract(m, R.multiply(R.sum(m, axis=2, keepdims=True), R.exp(z)))",
            """R.argmax(y, axis=1)
            z = R.reshape(
                R.grad.softmax_nll_loss_backward(R.sum(v), x, z, reduction='mean'), (1, 2, 3)
            )""",
        ),
    ],
}


def program(value: str) -> IRModule:
    params = PARAMS + ', v2: R.Tensor((3, 5), "float32")'
    module = from_source(
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n"
        f"        with R.dataflow():\n            z = {value}\n"
        "            r = R.sin(z)\n"
        "            R.output(r)\n        return r\n"
    )
    assert isinstance(module, IRModule)
    return module


def arrays() -> list[jnp.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(2, 3), (2, 3), (3,), (3, 4), (3, 5)]
    return [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]


def test_every_law_has_its_cases() -> None:
    assert {law.__name__ for law in LAWS} == set(CASES)


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
    source = (
        "@I.ir_module\nclass Module:\n    @R.function\n"
        '    def main(w: R.Tensor((3, 4), "float32"), v: R.Tensor((3, 5), "float32")):\n'
        "        with R.dataflow():\n            z = R.matmul(R.permute_dims(w), v)\n"
        "            r = R.add(R.sum(R.permute_dims(z)), R.sum(z))\n"
        "            R.output(r)\n        return r\n"
    )
    module = from_source(source)
    assert isinstance(module, IRModule)
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
    source = (
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({PARAMS}):\n"
        f"        with R.dataflow():\n            z = {product}\n            s = {value}\n"
        "            R.output(z, s)\n        return (z, s)\n"
    )
    module = from_source(source)
    assert isinstance(module, IRModule)
    assert SimplifyExpr()(module) is module


def test_a_tensor_of_unknown_shape_keeps_its_operators() -> None:
    module = from_source(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        '    def main(x: R.Tensor(ndim=2, dtype="float32")):\n'
        "        y = R.subtract(x, x)\n        z = R.reshape(y, R.shape_of(x))\n        return z\n"
    )
    assert isinstance(module, IRModule)
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
