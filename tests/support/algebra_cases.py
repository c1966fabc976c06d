"""What the laws of algebra make of programs, each of which gives a value to `z`."""

from parsing import parse_module

from relaxjax.ir.module import IRModule

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
        ("R.matmul(R.zeros((2, 3), 'float32'), w)", "R.zeros((2, 4), 'float32')")
    ],
    "sum_of_broadcast": [
        ("R.sum(R.broadcast_to(v, (2, 3)), axis=0)", "R.multiply(v, R.const(2, 'float32'))"),
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
        ("R.matmul(R.multiply(v, R.eye(3)), w)", "R.multiply(R.expand_dims(v, axis=-1), w)"),
    ],
    "factor_of_sum": [
        ("R.collapse_sum_to(R.multiply(x, v), (3,))", "R.multiply(R.collapse_sum_to(x, (3,)), v)"),
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
        (
            "R.add(R.add(R.matmul(x, w), R.sin(R.matmul(x, w))), R.matmul(y, w))",
            "R.add(R.sin(R.matmul(x, w)), R.matmul(R.add(x, y), w))",
        ),
        (
            f"""{SQUARES}
            t = {STACK}
            z = R.add(
                L.dot_general(z, t, dimension_numbers=[[[2], [1]], [[0], [0]]]),
                L.dot_general(z, t, dimension_numbers=[[[1], [1]], [[0], [0]]]),
            )""",
            f"""{SQUARES}
            t = {STACK}
            z = L.dot_general(
                R.add(z, R.permute_dims(z, axes=[0, 2, 1])), t,
                dimension_numbers=[[[2], [1]], [[0], [0]]],
            )""",
        ),
    ],
    "sum_of_stacked_products": [
        (
            """R.collapse_sum_to(R.matmul(R.permute_dims(R.reshape(w, (2, 2, 3)), axes=[0, 2, 1]),
            R.reshape(w, (2, 2, 3))), (3, 3))""",
            "R.matmul(R.permute_dims(R.reshape(w, (4, 3))), R.reshape(w, (4, 3)))",
        )
    ],
    "transposed_product": [
        ("R.permute_dims(R.matmul(R.permute_dims(w), v2))", "R.matmul(R.permute_dims(v2), w)")
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
    return parse_module(
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n"
        f"        with R.dataflow():\n            z = {value}\n"
        "            r = R.sin(z)\n"
        "            R.output(r)\n        return r\n"
    )
