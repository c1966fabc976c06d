"""Products, concatenations and reshapes in another order, and what they compute then."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from parsing import main_text, parse_functions, parse_main
from rewriting import check_kept

from relaxjax.ir import Call, Function, Op, TensorType, Var
from relaxjax.lowering import to_jax
from relaxjax.passes import (
    AdjustMatmulOrder,
    ExpandMatmulOfSum,
    Gradient,
    LiftTransformParams,
    Pass,
    RemoveRedundantReshape,
    ReorderPermuteDimsAfterConcat,
    ReorderTakeAfterMatmul,
)
from relaxjax.testing.equations import run


def main(params: Mapping[str, Any], body: str, attr: str = "") -> str:
    return main_text(f"{attr}\n{body}", **params)


def operators(function: Function) -> list[str]:
    calls = [b.value for b in function.body.bindings() if isinstance(b.value, Call)]
    return [call.op.name.removeprefix("relax.") for call in calls if isinstance(call.op, Op)]


def check(given: Pass, text: str, expected: str) -> None:
    """The operators that are left, the results, and those of the backward program."""
    module = parse_functions(text)
    changed = given(module)
    assert operators(changed["main"]) == expected.split()
    assert given(changed) is changed
    params = module["main"].params
    random = np.random.default_rng(0)
    args = [np.asarray(random.normal(size=p.ty.dims), "float32") for p in params]
    before = run(to_jax(module, "main"), *args)
    np.testing.assert_allclose(run(to_jax(changed, "main"), *args), before, rtol=1e-3, atol=1e-3)
    adjoint = Gradient("main", cotangent=True)(module)
    found = run(to_jax(given(adjoint), "main_adjoint"), *args, before)
    wanted = run(to_jax(adjoint, "main_adjoint"), *args, before)
    for one, other in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)


def test_the_product_that_is_smaller_comes_first() -> None:
    body = "w = R.matmul(a, b)\ny = R.matmul(x, w)\nreturn y"
    shapes = {"x": (2, 30), "a": (30, 4), "b": (4, 50)}
    check(AdjustMatmulOrder(), main(shapes, body), "matmul matmul")
    changed = AdjustMatmulOrder()(parse_functions(main(shapes, body)))
    (first, _) = changed["main"].body.bindings()
    assert first.var.ty == TensorType((2, 4), "float32")


def test_a_product_on_the_left_is_put_right_and_a_vector_is_cheap() -> None:
    body = "w = R.matmul(a, b)\ny = R.matmul(w, x)\nreturn y"
    shapes = {"a": (30, 20), "b": (20, 40), "x": (40,)}
    check(AdjustMatmulOrder(), main(shapes, body), "matmul matmul")
    changed = AdjustMatmulOrder()(parse_functions(main(shapes, body)))
    (first, _) = changed["main"].body.bindings()
    assert first.var.ty == TensorType((20,), "float32")


def test_stacks_and_transposed_products_are_reordered() -> None:
    body = "w = R.matmul(b, a)\nt = R.permute_dims(w)\ny = R.matmul(x, t)\nreturn y"
    shapes = {"x": (2, 3, 30), "a": (2, 30), "b": (50, 2)}
    check(AdjustMatmulOrder(), main(shapes, body), "permute_dims matmul permute_dims matmul")


@pytest.mark.parametrize(
    ("shapes", "body"),
    [
        ({"x": (2, 30), "a": (30, 2), "b": (2, 3)}, "w = R.matmul(x, a)\ny = R.matmul(w, b)"),
        (
            {"x": (2, 30), "a": (30, 2), "b": (2, 50)},
            "w = R.matmul(a, b)\nz = R.matmul(x, w)\ny = R.matmul(z, R.permute_dims(w))",
        ),
        ({"x": (3,), "a": (2, 3, 3), "b": (3, 9)}, "w = R.matmul(a, b)\ny = R.matmul(x, w)"),
        ({"x": (3,), "a": (3, 9), "b": (2, 9, 1)}, "w = R.matmul(x, a)\ny = R.matmul(w, b)"),
        ({"x": (2, 30), "a": (30,), "b": (30, 3)}, "w = R.matmul(a, b)\ny = R.matmul(x, b)"),
    ],
)
def test_what_would_not_be_cheaper_or_has_other_uses_stays(
    shapes: dict[str, tuple[int, ...]], body: str
) -> None:
    check_kept(AdjustMatmulOrder(), main(shapes, f"{body}\nreturn y"))


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"x": (2, 3, 4, 4), "a": (2, 1, 4, 1), "b": (3, 1, 4)}, (2, 3, 4, 1)),
        ({"x": (5, 3), "a": (3, 1), "b": (2, 1, 4)}, (5, 1)),
    ],
)
def test_stacks_of_matrices_between_are_reordered(
    shapes: dict[str, tuple[int, ...]], expected: tuple[int, ...]
) -> None:
    text = main(shapes, "w = R.matmul(a, b)\ny = R.matmul(x, w)\nreturn y")
    check(AdjustMatmulOrder(), text, "matmul matmul")
    (first, _) = AdjustMatmulOrder()(parse_functions(text))["main"].body.bindings()
    assert first.var.ty == TensorType(expected, "float32")


RIGHT = "w = R.matmul(a, b)\ny = R.matmul(x, w)\nreturn y"
LEFT = "w = R.matmul(x, a)\ny = R.matmul(w, b)\nreturn y"


def first_product(x: str, a: str, b: str, body: str, attr: str = "") -> str:
    """What the first product is of, after the pass."""
    types = {n: f'R.Tensor({s}, "float32")' for n, s in zip("xab", (x, a, b), strict=True)}
    changed = AdjustMatmulOrder()(parse_main(f"{attr}\n{body}", **types))
    (first, *_) = changed["main"].body.bindings()
    assert isinstance(first.value, Call)
    return "".join(arg.name for arg in first.value.args if isinstance(arg, Var))


@pytest.mark.parametrize(
    ("shapes", "cheaper"),
    [
        (("('n', 64)", "(64, 4)", "(4, 48)"), "xa"),
        (("(2, 64)", "(64, 'r')", "('r', 48)"), "xa"),
        (("(8, 8)", "(8, 'r')", "('r', 1)"), "ab"),
        (("(1, 'k')", "('k', 1)", "(1, 'm')"), "xa"),
    ],
)
def test_symbolic_sizes_are_compared_where_one_order_is_always_cheaper(
    shapes: tuple[str, str, str], cheaper: str
) -> None:
    assert [first_product(*shapes, body) for body in (LEFT, RIGHT)] == [cheaper, cheaper]


@pytest.mark.parametrize(
    "shapes",
    [
        ("('n', 64)", "(64, 'r')", "('r', 48)"),
        ("('n', 3)", "(3, 'n // 2')", "('n // 2', 9)"),
        ("('n', 3)", "(3, 2)", "(2, 3)"),
    ],
)
def test_where_sizes_decide_the_order_stays(shapes: tuple[str, str, str]) -> None:
    assert [first_product(*shapes, body) for body in (LEFT, RIGHT)] == ["xa", "ab"]


@pytest.mark.parametrize(
    ("inputs", "cheaper"), [(0, "xa"), (1, "ab"), (2, "xa"), (3, "xa"), (None, "xa")]
)
def test_weights_stay_together_for_their_product_to_be_computed_once(
    inputs: int | None, cheaper: str
) -> None:
    attr = "" if inputs is None else f'R.func_attr({{"num_input": {inputs}}})'
    shapes = ("(2, 64)", "(64, 4)", "(4, 48)")
    for body in (LEFT, RIGHT):
        assert first_product(*shapes, body, attr) == cheaper
    lifted = LiftTransformParams()(
        AdjustMatmulOrder()(
            parse_functions(
                main(
                    {"x": (2, 64), "a": (64, 4), "b": (4, 48)},
                    LEFT,
                    'R.func_attr({"num_input": 1})',
                )
            )
        )
    )
    assert operators(lifted["main"]) == ["matmul"]


SUM = "w = R.add(a, b)\ny = R.matmul(x, w)\nreturn y"


def test_a_sum_is_expanded_and_adapted_weights_come_apart() -> None:
    shapes = {"x": (2, 3), "a": (3, 8), "b": (3, 8)}
    check(ExpandMatmulOfSum(), main(shapes, SUM), "matmul matmul add")
    adapted = {"x": (2, 30), "a": (30, 80), "p": (30, 1), "q": (1, 80)}
    module = parse_functions(main(adapted, f"b = R.matmul(p, q)\n{SUM}"))
    module = AdjustMatmulOrder()(ExpandMatmulOfSum()(module))
    assert operators(module["main"]) == ["matmul", "matmul", "matmul", "add"]
    first, second, *_ = module["main"].body.bindings()
    assert {first.var.ty, second.var.ty} >= {TensorType((2, 1), "float32")}


def test_sums_that_stay() -> None:
    shapes = {"x": (2, 3), "a": (3, 8), "b": (3, 8)}
    check_kept(ExpandMatmulOfSum(), main(shapes, SUM, 'R.func_attr({"num_input": 1})'))
    check_kept(ExpandMatmulOfSum(), main(shapes, SUM.replace("return y", "return (y, w)")))
    check_kept(ExpandMatmulOfSum(), main({**shapes, "b": (8,)}, SUM))
    half = main(shapes, SUM, 'R.func_attr({"num_input": 2})')
    assert ExpandMatmulOfSum()(parse_functions(half)) is not parse_functions(half)


TAKE = """
@R.function
def main(x: R.Tensor({x}, "float32"), w: R.Tensor({w}, "float32")):
    v = R.take(w, R.const({places}, "int64"), axis={axis})
    y = R.matmul(x, v)
    return y
"""


def test_columns_are_taken_of_the_product() -> None:
    text = TAKE.format(x=(2, 5, 3), w=(3, 10), places=[7, 0, 3, 3], axis=1)
    check(ReorderTakeAfterMatmul(), text, "matmul take")


def test_each_row_of_a_batch_takes_weights_of_its_own() -> None:
    text = TAKE.format(x=(4, 1, 3), w=(10, 3, 7), places=[7, 0, 3, 3], axis=0)
    check(ReorderTakeAfterMatmul(), text, "permute_dims reshape matmul reshape take einsum")


def test_takes_that_stay() -> None:
    for x, w, places, axis in (
        ((2, 4), (10, 7), [1, 2, 3, 4], 0),
        ((2, 7), (3, 7, 2), 1, 0),
        ((1, 2, 3), (10, 3, 7), [1, 2], 0),
    ):
        check_kept(ReorderTakeAfterMatmul(), TAKE.format(x=x, w=w, places=places, axis=axis))


def test_permutations_come_behind_a_concatenation() -> None:
    body = (
        "p = R.permute_dims(a, [2, 0, 1])\nq = R.permute_dims(b, [2, 0, 1])\n"
        "c = R.concat((p, q), axis=-1)\nreturn c"
    )
    text = main({"a": (2, 3, 5), "b": (2, 4, 5)}, body)
    check(ReorderPermuteDimsAfterConcat(), text, "concat permute_dims")
    other = body.replace("q = R.permute_dims(b, [2, 0, 1])", "q = R.permute_dims(b, [2, 1, 0])")
    check_kept(ReorderPermuteDimsAfterConcat(), main({"a": (2, 3, 5), "b": (3, 2, 5)}, other))
    one = body.replace("q = R.permute_dims(b, [2, 0, 1])", "q = R.exp(b)")
    check_kept(ReorderPermuteDimsAfterConcat(), main({"a": (2, 3, 5), "b": (5, 2, 4)}, one))


def test_shapes_are_given_once() -> None:
    body = (
        "b = R.reshape(a, R.shape([3, 2]))\nc = R.reshape(b, R.shape([6]))\n"
        "d = R.reshape(c, R.shape([6]))\nreturn d"
    )
    check(RemoveRedundantReshape(), main({"a": (2, 3)}, body), "reshape")
    same = "b = R.reshape(a, R.shape([2, 3]))\nc = R.exp(b)\nreturn c"
    check(RemoveRedundantReshape(), main({"a": (2, 3)}, same), "exp")
    check_kept(
        RemoveRedundantReshape(), main({"a": (2, 3)}, "b = R.reshape(a, R.shape([6]))\nreturn b")
    )
