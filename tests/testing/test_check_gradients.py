"""Checking gradients: what is right passes, and what is wrong is named."""

import numpy as np
import pytest
from cubes import cube_operator, right, wrong
from parsing import parse_flow, parse_functions, parse_main

from relaxjax.ir import BlockBuilder, Expr, IRModule, ObjectType, TensorType, Var
from relaxjax.ir.op import OPS, Op
from relaxjax.lowering.arguments import ArgumentError
from relaxjax.lowering.trial import difference
from relaxjax.ops import op
from relaxjax.testing import GradientCheckError, check_gradients

MODULE = parse_functions("""
@R.function(private=True)
def half(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
    n = T.int64()
    y = R.multiply(x, R.const(0.5, "float32"))
    return y

@R.function
def main(
    x: R.Tensor(("n", 3), "float32"),
    w: R.Tensor((3,), "float32"),
    i: R.Tensor((2,), "int64"),
    c: R.Tensor((), "bool"),
):
    n = T.int64()
    h = Module.half(R.reshape(R.reshape(x, R.shape([n * 3])), R.shape([n, 3])))
    if c:
        y = R.tanh(R.multiply(h, w))
    else:
        y = R.nn.softmax(h)
    t = R.take(w, i, axis=0)
    return (y, t, i)
""")


def test_right_gradients_pass() -> None:
    check_gradients(MODULE)
    check_gradients(MODULE, seed=3, order=1)
    args = np.ones((2, 3), "float32"), np.ones(3, "float32"), np.array([1, 1]), np.array(False)
    check_gradients(MODULE, "main", args)


def test_of_one_result_in_double_precision() -> None:
    module = parse_main(
        "y = R.sum(R.multiply(R.exp(R.sin(x)), t[0]))\nreturn y",
        x='R.Tensor((3,), "float64")',
        t='R.Tuple(R.Tensor((), "float64"))',
    )
    check_gradients(module)


def _module_of(cube: Op) -> IRModule:
    builder = BlockBuilder()
    x = Var("x", TensorType((3,), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(OPS["relax.sin"](x))
        z = builder.emit(cube(y))
        builder.emit_func_output(builder.emit(OPS["relax.exp"](z)))
    return builder.get()


@pytest.mark.parametrize(
    ("name", "places"), [("scatter_elements", "[1, 1]"), ("scatter_nd", "[[1], [1]]")]
)
def test_what_jax_has_no_derivative_of(name: str, places: str) -> None:
    body = f"""
        z = R.{name}(x, R.const({places}, "int64"), y, reduction="mul")
    """
    module = parse_flow(body, x='R.Tensor((3,), "float64")', y='R.Tensor((2,), "float64")')
    for updates in ([2.0, 3.0], [0.0, 3.0]):
        check_gradients(module, args=(np.ones(3), np.asarray(updates)))


def test_what_jax_cannot_differentiate_backwards() -> None:
    """The gradient of a cast to dimensions that the body defines, too."""
    module = parse_functions("""
@R.function
def main(x: R.Tensor("float64"), w: R.Tensor((3,), "float64")):
    n = T.int64()
    y = R.match_cast(x, R.Tensor((n, 3), "float64"))
    @R.function
    def goes_on(a: R.Tensor((n, 3), "float64")):
        return R.less(R.sum(R.multiply(a, a)), R.const(9.0, "float64"))
    @R.function
    def step(a: R.Tensor((n, 3), "float64")):
        return R.add(R.multiply(a, w), y)
    last = R.while_loop(goes_on, step, y, max_iter=4)
    return last
""")
    check_gradients(module, args=(np.ones((2, 3)), np.asarray([0.5, -0.5, 0.2])))


@pytest.mark.usefixtures("own_operators")
@pytest.mark.parametrize(("factor", "wrong"), [(5e-5, True), (1e-4, False)])
def test_a_gradient_of_small_numbers_may_not_be_of_others(factor: float, wrong: bool) -> None:
    """Such as that of the mean of many."""

    @op("relax.test_faint", lower=lambda x: x * 1e-4, gradient=lambda g, y, x: g * factor)
    def faint(x: TensorType) -> TensorType:
        """Little of it."""
        return x

    mod = _module_of(faint)
    if not wrong:
        check_gradients(mod)
        return
    with pytest.raises(GradientCheckError, match=r"gradient rule of relax\.test_faint is"):
        check_gradients(mod)


STEEP = {
    "R.sin(R.multiply(x, R.const(100.0, 'float32')))": [0.6, 0.9, 1.3],
    "R.divide(R.const(1.0, 'float32'), x)": [0.01, 0.02, 0.5],
    "R.sqrt(x)": [1e-4, 0.02, 0.5],
    "R.nn.relu(x)": [1e-3, -1e-3, 0.5],
}


@pytest.mark.parametrize("value", STEEP)
def test_right_gradients_pass_where_they_change_quickly(value: str) -> None:
    """Differences over one step are far off there, or leave the domain."""
    module = parse_functions(
        f"@R.function\ndef main(x: R.Tensor((3,), 'float32')):\n    return {value}"
    )
    check_gradients(module, args=(np.asarray(STEEP[value], "float32"),), order=1)


FAINT = """
@R.function
def main(x: R.Tensor((3,), "{dtype}"), b: R.Tensor((3,), "{dtype}"), y: R.Tensor((2,), "{dtype}")):
    c = R.multiply(x, R.const(1000.0, "{dtype}"))
    {line}
    f = R.test_faint(b)
    return (c, f)
"""
UNKNOWN_TO_JAX = 'c = R.scatter_elements(c, R.const([1, 1], "int64"), y, reduction="mul")'


@pytest.mark.usefixtures("own_operators")
@pytest.mark.parametrize(
    ("dtype", "line", "message"),
    [
        ("float32", "c = R.sin(c)", "is not that of JAX: found 0.00125"),
        ("float64", UNKNOWN_TO_JAX, "is not what finite differences say"),
    ],
)
@pytest.mark.parametrize("factor", [0.00125, 0.001])
def test_a_small_gradient_is_not_hidden_by_a_large_one(
    dtype: str, line: str, message: str, factor: float
) -> None:
    @op(
        "relax.test_faint",
        lower=lambda x: x * 1e-3,
        gradient=lambda g, y, x: g * factor,
        jvp=lambda t, y, x: t[0] * factor,
    )
    def faint(x: TensorType) -> TensorType:
        """Little of it."""
        return x

    module = parse_functions(FAINT.format(dtype=dtype, line=line))
    args = [np.asarray([0.5, 1.25, 0.75][: 2 if index == 2 else 3], dtype) for index in range(3)]
    if factor == 0.001:
        check_gradients(module, args=args, order=1)
        return
    with pytest.raises(GradientCheckError, match=message) as caught:
        check_gradients(module, args=args)
    assert "rule of relax.test_faint is wrong" in str(caught.value)


@pytest.mark.usefixtures("own_operators")
def test_a_wrong_gradient_rule_is_named() -> None:
    cube = cube_operator("relax.test_cube", wrong, lambda t, y, x: right(t[0], y, x))
    with pytest.raises(GradientCheckError) as caught:
        check_gradients(_module_of(cube))
    message = str(caught.value)
    assert "the gradient of `main` is not that of JAX: found" in message
    assert "the gradient of `main` is not what finite differences say" in message
    assert "<u, Jv> and <J'u, v> of `main` are not the same" in message
    assert message.count("rule of") == 1
    assert "the gradient rule of relax.test_cube is wrong: found" in message


@pytest.mark.usefixtures("own_operators")
def test_a_wrong_tangent_rule_is_named() -> None:
    cube = cube_operator("relax.test_cube", right, lambda t, y, x: t[0] * x)
    with pytest.raises(GradientCheckError) as caught:
        check_gradients(_module_of(cube))
    message = str(caught.value)
    assert message.startswith("the tangent of `main` is not that of JAX: found")
    assert message.count("rule of") == 1
    assert "the tangent rule of relax.test_cube is wrong: found" in message


@pytest.mark.usefixtures("own_operators")
def test_a_wrong_second_derivative() -> None:
    """A gradient rule that is right, made of an operator whose own rule is wrong."""
    slope = cube_operator("relax.test_slope", right, lambda t, y, x: t[0])

    def gradient(g: Expr, y: Expr, x: Expr) -> Expr:
        return g * slope(x)

    @op("relax.test_quartic", lower=lambda x: x * x * x * x / 4, gradient=gradient)
    def quartic(x: TensorType) -> TensorType:
        """A quarter of the fourth power."""
        return x

    with pytest.raises(GradientCheckError) as caught:
        check_gradients(_module_of(quartic))
    message = str(caught.value)
    assert message.startswith("the second derivative of `main` is not that of JAX: found")
    assert message.count("rule of") == 1
    assert "the tangent rule of relax.test_slope is wrong" in message


@pytest.mark.usefixtures("own_operators")
def test_a_fault_that_is_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    from relaxjax.testing import gradients

    monkeypatch.setattr(gradients._Check, "against_tangent", lambda self: "something is wrong")
    message = "something is wrong\neach operator's own rule is right here: what puts them together"
    with pytest.raises(GradientCheckError, match=message):
        check_gradients(_module_of(cube_operator("relax.test_cube", right)))


LOOPED = """
@R.function
def main(x: R.Tensor((3,), "float64"), ws: R.Tensor((2, 3), "float64")):
    @R.function
    def step(a: R.Tensor((3,), "float64"), w: R.Tensor((3,), "float64")):
        return (R.multiply(R.test_cube(a), w), ())
    last = R.scan(step, x, ws)
    return last[0]
"""
# JAX has no derivatives of these.
ENDLESS = """
@R.function
def main(x: R.Tensor((3,), "float64")):
    @R.function
    def goes_on(a: R.Tensor((3,), "float64")):
        return R.less(R.sum(R.multiply(a, a)), R.const(9.0, "float64"))
    @R.function
    def step(a: R.Tensor((3,), "float64")):
        return R.add(R.test_cube(a), x)
    last = R.while_loop(goes_on, step, x, max_iter=4)
    return last
"""
SCATTERED = """
@R.function
def main(x: R.Tensor((3,), "float64"), y: R.Tensor((2,), "float64")):
    c = R.test_cube(x)
    z = R.scatter_elements(c, R.const([1, 1], "int64"), y, reduction="mul")
    return z
"""


@pytest.mark.usefixtures("own_operators")
@pytest.mark.parametrize("program", [LOOPED, ENDLESS, SCATTERED], ids=["scan", "while", "scatter"])
def test_a_fault_is_found_in_a_loop_and_beside_what_jax_cannot_differentiate(program: str) -> None:
    cube_operator("relax.test_cube", wrong, lambda t, y, x: right(t[0], y, x))
    with pytest.raises(GradientCheckError) as caught:
        check_gradients(parse_functions(program))
    message = str(caught.value)
    assert message.count("rule of") == 1
    assert "the gradient rule of relax.test_cube is wrong: found" in message


def test_what_is_not_finite_is_nobodys_fault() -> None:
    """But no gradient that differences confirm, and beside it others may still be wrong."""
    module = parse_functions(
        "@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    return R.log(x)"
    )
    with pytest.raises(GradientCheckError) as caught:
        check_gradients(module, args=(np.zeros(2, "float32"),))
    assert "rule of" not in str(caught.value)
    one, other = np.asarray([np.inf, np.nan, 1]), np.asarray([np.inf, np.nan, 2])
    assert difference(one, one) is None
    assert difference(one, other) == "found 1, expected 2 at (2,)"


def test_what_it_cannot_do() -> None:
    match = r"takes an IRModule, found Function: write `IRModule\.from"
    with pytest.raises(TypeError, match=match):
        check_gradients(MODULE["main"])
    with pytest.raises(ArgumentError, match=r"`main` takes 4 arguments .*, but 1 were"):
        check_gradients(MODULE, args=(np.ones((2, 3), "float32"),))
    with pytest.raises(ValueError, match="`order` must be 1 or 2, found 3"):
        check_gradients(MODULE, order=3)
    counts = "@R.function\ndef main(x: R.Tensor((3,), 'int32')):\n    return R.add(x, x)"
    with pytest.raises(ValueError, match="no parameter of `main` is of floating-point dtype"):
        check_gradients(parse_functions(counts))
    builder = BlockBuilder()
    x = Var("x", ObjectType())
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    message = "no argument can be made up for the parameter `x` of type R.Object: give `args`"
    with pytest.raises(TypeError, match=message):
        check_gradients(builder.get())


HALF_INSIDE = """
@R.function(private=True)
def cubes(x: R.Tensor((3,), "float16")):
    y = R.multiply(x, R.multiply(x, x))
    return y

@R.function
def main(x: R.Tensor((3,), "float32")):
    y = Module.cubes(R.astype(x, "float16"))
    z = R.sum(R.astype(y, "float32"))
    return z
"""


def test_what_is_half_precision_inside_is_checked_as_closely_as_that_allows() -> None:
    args = (np.asarray([0.3, 0.7, 1.1], "float32"),)
    check_gradients(parse_functions(HALF_INSIDE), args=args)


@pytest.mark.usefixtures("own_operators")
def test_a_fault_in_half_precision_inside_is_found() -> None:
    cube_operator("relax.test_cube", wrong, lambda t, y, x: right(t[0], y, x))
    module = parse_functions(
        HALF_INSIDE.replace("R.multiply(x, R.multiply(x, x))", "R.test_cube(x)")
    )
    with pytest.raises(GradientCheckError, match=r"rule of relax\.test_cube is wrong"):
        check_gradients(module, args=(np.asarray([0.3, 0.7, 1.1], "float32"),))


def test_numbers_may_lie_as_far_apart_as_the_coarsest_rounding_on_the_way() -> None:
    one, other = np.asarray([1.0, 2.0], "float32"), np.asarray([1.0, 2.02], "float32")
    assert difference(one, other) == "found 2, expected 2.02 at (1,)"
    assert difference(one, other, dtypes=["float16"]) is None
    assert difference(one, 2 * other, dtypes=["float16"]) is not None
