"""Modules written as plain JAX: what the text looks like, and that it computes the same."""

import ast
import inspect
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from parsing import parse_functions
from strategies import modules
from written_programs import same_bits, written

from relaxjax.ir.builder import make_function
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant, Tuple, TupleGetItem, Var, const, np_dtype
from relaxjax.ir.function import SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import get_op
from relaxjax.ir.types import TensorType
from relaxjax.lowering import LoweringError, build, to_python
from relaxjax.passes import LegalizeOps

X = np.arange(6, dtype="float32").reshape(2, 3) - 2


def text_of(mod: IRModule, function: str = "main") -> str:
    """The text of one function, decorators included."""
    text = to_python(mod)
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise LookupError(function)


def check(mod: IRModule, *args: Any, function: str = "main") -> None:
    """Compare a function, written and run, with the compiled module bit by bit."""
    found, expected = written(mod)[function](*args), build(mod)[function](*args)
    assert same_bits(found, expected), f"{found}\n{expected}"


LAYER = parse_functions("""
@R.function
def main(
    x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")
) -> R.Tensor((2, 4), "float32"):
    with R.dataflow():
        hidden = R.matmul(x, w)
        scaled = R.multiply(hidden, R.const(0.1, "float32"))
        out = R.nn.relu(scaled)
        R.output(out)
    return out
""")


def test_a_binding_is_a_line_under_its_own_name() -> None:
    assert (
        text_of(LAYER)
        == """\
@jax.jit
def main(x, w):
    check_shapes((x, w), ((2, 3), (3, 4)))
    hidden = x @ w
    scaled = hidden * 0.1
    # R.nn.relu(scaled)
    out_broadcast_in_dim = lax.full((2, 4), 0.0, jnp.float32)
    out = lax.max(scaled, out_broadcast_in_dim)
    return out"""
    )
    check(LAYER, X, np.ones((3, 4), "float32"))


def test_the_file_says_what_it_holds_and_imports_what_it_needs() -> None:
    text = to_python(LAYER)
    assert text.startswith('''\
"""Functions of a Relax program as plain JAX: only jax and numpy are needed.

def main(x: R.Tensor((2, 3), dtype="float32"), w: R.Tensor((3, 4), dtype="float32"))
    -> R.Tensor((2, 4), dtype="float32")
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def check_shapes(''')
    assert text.endswith("    return out\n")
    assert "relaxjax" not in text


def test_a_legalised_module_is_written_as_it_is() -> None:
    """What its operators were is no longer known, so there are no comments."""
    legal = LegalizeOps()(LAYER)
    lines = [line for line in text_of(LAYER).splitlines() if "# " not in line]
    assert text_of(legal).splitlines() == lines


def test_the_written_functions_are_ordinary_functions_of_jax() -> None:
    main = written(LAYER)["main"]
    w = np.ones((3, 4), "float32")
    gradient = jax.grad(lambda x: main(x, w).sum())(X)
    chex.assert_trees_all_close(gradient, np.where(X.sum(1, keepdims=True) > 0, 0.4, 0.0) + 0 * X)
    batched = jax.vmap(main, (0, None))(np.stack([X, X]), w)
    chex.assert_shape(batched, (2, 2, 4))


def test_arguments_of_other_shapes_are_refused() -> None:
    main = written(LAYER)["main"]
    with pytest.raises(ValueError, match=r"argument 2 must be of shape \(3, 4\), found \(3, 5\)"):
        main(X, np.ones((3, 5), "float32"))


SYMBOLIC = parse_functions("""
@R.function
def main(
    x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n * 2", 3), "float32")
) -> R.Tuple(R.Tensor("float32", ndim=1), R.Tensor("float32", ndim=2), R.Tensor("float32")):
    n, m = T.int64(), T.int64()
    flat = R.reshape(x, R.shape([n * m]))
    twice = R.concat((flat, flat), axis=0)
    rows = R.broadcast_to(R.const(1, "float32"), R.shape([T.max(n, m) - 1, n // 2 + 1]))
    return (twice, rows, y)
""")


@pytest.mark.parametrize("shape", [(2, 3), (1, 4), (0, 2)])
def test_symbolic_dimensions_are_read_off_the_arguments(shape: tuple[int, int]) -> None:
    text = text_of(SYMBOLIC)
    assert "    n = x.shape[0]\n    m = x.shape[1]\n    check_shapes(" in text
    assert "((n, m), (n * 2, 3))" in text
    assert "lax.full((max(n, m) - 1, (n // 2) + 1), 1.0, jnp.float32)" in text
    check(SYMBOLIC, np.ones(shape, "float32"), np.ones((shape[0] * 2, 3), "float32"))


def test_symbols_of_arguments_must_agree() -> None:
    main = written(SYMBOLIC)["main"]
    with pytest.raises(ValueError, match=r"argument 2 must be of shape \(4, 3\), found \(5, 3\)"):
        main(X, np.ones((5, 3), "float32"))


def test_symbols_are_read_off_tuples_and_shapes() -> None:
    mod = parse_functions("""
    @R.function
    def main(
        pair: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(R.Tensor(("n",), "float32"))),
        size: R.Shape(["m", 2]),
    ) -> R.Tensor(("m", "n"), "float32"):
        n, m = T.int64(), T.int64()
        inner = pair[1]
        x = inner[0]
        y = R.broadcast_to(x, R.shape([m, n]))
        return y
    """)
    text = text_of(mod)
    assert '@partial(jax.jit, static_argnames=["size"])\ndef main(pair, size):\n' in text
    assert "    n = pair[1][0].shape[0]\n    m = size[0]\n" in text
    assert "check_shapes((pair, size), (((2,), ((n,),)), None))" in text
    check(mod, (X[0, :2], (X[0],)), (4, 2))


def test_numbers_of_the_host_are_static() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor((3,), "float32"), k: R.Prim("int64")) -> R.Tensor((3,), "float32"):
        return x
    """)
    assert '@partial(jax.jit, static_argnames=["k"])' in text_of(mod)
    check(mod, X[0], 3)


def test_a_symbol_that_no_argument_tells_is_refused() -> None:
    x = Var("x", TensorType((SymbolicVar("n") + 1,), "float32"))
    mod = IRModule({"main": make_function([x], SeqExpr((), x), attrs={"global_symbol": "main"})})
    with pytest.raises(LoweringError, match="`main`: no argument says what `n` is"):
        to_python(mod)


CHOICE = parse_functions("""
@R.function
def main(flag: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    if flag:
        a = R.add(x, x)
        y = R.multiply(a, x)
    else:
        y = R.negative(x)
    z = R.subtract(y, x)
    return z
""")


@pytest.mark.parametrize("flag", [True, False])
def test_a_choice_is_one_of_jax(flag: bool) -> None:
    assert (
        text_of(CHOICE)
        == """\
@jax.jit
def main(flag, x):
    check_shapes((flag, x), ((), (2, 3)))

    def y_true():
        a = x + x
        y_then = a * x
        return y_then

    def y_false():
        y_else = -x
        return y_else

    y = lax.cond(flag, y_true, y_false)
    z = y - x
    return z"""
    )
    check(CHOICE, np.array(flag), X)


def test_choices_within_choices() -> None:
    mod = parse_functions("""
    @R.function
    def main(flag: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Object:
        if flag:
            if flag:
                y = (x, R.const([1, 2], "float32"))
            else:
                y = (R.exp(x), x)
        else:
            y = (x, R.zeros_like(x))
        return y
    """)
    for flag in (True, False):
        check(mod, np.array(flag), X[0, :2])


CLOSURE = parse_functions("""
@R.function
def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("m",), "float32")) -> R.Object:
    n, m, k = T.int64(), T.int64(), T.int64()

    @R.function
    def scale(y: R.Tensor(("k",), "float32")) -> R.Tensor(("k",), "float32"):
        ones = R.ones(R.shape([k, m]), "float32")
        summed = R.matmul(ones, w)
        z = R.multiply(y, summed)
        return z

    a = scale(x)
    b = scale(w)
    return (a, b, scale(a))
""")


def test_closures_are_functions_inside() -> None:
    assert """\
    check_shapes((x, w), ((n,), (m,)))

    def scale(y):
        k = y.shape[0]
        ones = lax.full((k, m), 1.0, jnp.float32)
""" in text_of(CLOSURE)
    assert "\n        return z\n\n    a = scale(x)\n    b = scale(w)\n" in text_of(CLOSURE)
    check(CLOSURE, X[0], X[1, :2])


CALLS = parse_functions("""
@R.function(private=True)
def double(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    y = R.add(x, x)
    return y

@R.function
def other(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    cls = Module
    y = cls.double(x)
    return y

@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    cls = Module
    y = cls.double(x)
    z = cls.other(y)
    return z

@R.function(private=True)
def unused(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = R.unique(x)
    return x
""")


def test_private_functions_come_along_without_jit_where_they_are_called() -> None:
    assert text_of(CALLS, "double") == "def double(x):\n    y = x + x\n    return y"
    assert "unused" not in to_python(CALLS)
    check(CALLS, X[0])


def test_functions_are_chosen_by_name() -> None:
    names = written(CALLS, "other")
    assert {"double", "other"} <= names.keys()
    assert "main" not in names
    assert "@jax.jit\ndef double" in to_python(CALLS, ["double", "double"])


def test_functions_of_a_module_without_public_ones_must_be_named() -> None:
    mod = CALLS.without_functions("main", "other")
    with pytest.raises(LoweringError, match="module has no public function: name private ones"):
        to_python(mod)
    assert "def double" in to_python(mod, "double")


def test_a_choice_of_no_functions_is_an_error() -> None:
    with pytest.raises(LoweringError, match="no function is chosen: give the name of at least one"):
        to_python(CALLS, [])
    with pytest.raises(ValueError, match=r"no function `mian`.*did you mean `main`"):
        to_python(CALLS, "mian")


def test_a_function_that_calls_itself_runs_without_jit() -> None:
    """Its conditions are Python's; numpy's arrays become JAX's at the door."""
    mod = parse_functions("""
    @R.function
    def main(k: R.Tensor((), "int32"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Module
        done = R.less_equal(k, R.const(0, "int32"))
        if done:
            y = x
        else:
            less = R.subtract(k, R.const(1, "int32"))
            twice = R.add(x, x)
            y = cls.main(less, twice)
        return y
    """)
    text = text_of(mod)
    assert text.startswith("def main(k, x):\n    k, x = jax.tree.map(jnp.asarray, (k, x))\n")
    assert "    if done:\n        y = x\n    else:\n        less = k - 1\n" in text
    assert "        y_else = main(less, twice)\n        y = y_else\n    return y" in text
    check(mod, np.int32(3), X[0, :2])


def test_a_function_that_gives_a_function_runs_without_jit() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Object:
        @R.function
        def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.add(x, y)
            return z

        return inner
    """)
    found, expected = written(mod)["main"](X[0, :2]), build(mod)["main"](X[0, :2])
    chex.assert_trees_all_equal(found(X[1, :2]), expected(X[1, :2]))


def test_a_function_without_parameters() -> None:
    mod = parse_functions("""
    @R.function
    def main() -> R.Tensor((2,), "float32"):
        x = R.const([1, 2], "float32")
        return x
    """)
    assert (
        text_of(mod)
        == """\
@jax.jit
def main():
    x = jnp.array([1.0, 2.0], jnp.float32)
    return x"""
    )
    check(mod)


CAST = parse_functions("""
@R.function
def main(x: R.Tensor("float32", ndim=2), s: R.Shape(ndim=2)) -> R.Object:
    n, m, k = T.int64(), T.int64(), T.int64()
    y = R.match_cast(x, R.Tensor((n, m), "float32"))
    t = R.match_cast(s, R.Shape([m, k]))
    z = R.reshape(y, R.shape([m, n]))
    return (z, R.ones(R.shape([k]), "float32"))
""")


def test_casts_read_symbols_and_check_the_rest() -> None:
    text = text_of(CAST)
    assert (
        """\
    y = x
    n = y.shape[0]
    m = y.shape[1]
    expect("the shape of `y`", y.shape, (n, m))
    expect("the dtype of `y`", y.dtype, "float32")
    t = s
    k = t[1]
    expect("`t`", t, (m, k))
"""
        in text
    )
    check(CAST, X, (3, 4))
    main = written(CAST)["main"]
    with pytest.raises(TypeError, match=r"`t` must be \(3, 4\), found \(5, 4\)"):
        main(X, (5, 4))
    with pytest.raises(TypeError, match="the dtype of `y` must be float32, found int32"):
        main(X.astype("int32"), (3, 4))


def test_declared_types_are_checked_where_the_value_s_own_does_not_prove_them() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor("float32", ndim=2)):
        y: R.Tensor((2, 3), "float32") = x
        z: R.Tensor((2, 3), "float32") = R.exp(y)
        return z
    """)
    assert text_of(mod).count("expect(") == 2
    check(mod, X[:2, :3])
    with pytest.raises(TypeError, match=r"the shape of `y` must be \(2, 3\), found \(1, 3\)"):
        written(mod)["main"](X[:1, :3])


def test_declared_results_are_checked_where_the_value_s_own_type_does_not_prove_them() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")) -> R.Tensor((3, "n"), "float32"):
        return x
    """)
    assert text_of(mod).count("expect(") == 2
    check(mod, np.eye(3, dtype="float32"))
    with pytest.raises(TypeError, match=r"the shape of `result` must be \(3, 1\), found \(1, 3\)"):
        written(mod)["main"](X[:1, :3])


def test_casts_of_tuples() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tuple(R.Tensor("float32", ndim=1), R.Tensor("float32", ndim=1))) -> R.Object:
        n = T.int64()
        y = R.match_cast(x, R.Tuple(R.Tensor((n,), "float32"), R.Tensor((n,), "float32")))
        return y
    """)
    check(mod, (X[0], X[1]))
    with pytest.raises(TypeError, match=r"the shape of `y\[1\]` must be \(3,\), found \(2,\)"):
        written(mod)["main"]((X[0], X[1, :2]))


def constant_module(*constants: Constant) -> IRModule:
    """A module whose function gives constants."""
    x = Var("x", TensorType((), "float32"))
    body = SeqExpr((), Tuple((x, *constants)))
    return IRModule({"main": make_function([x], body, attrs={"global_symbol": "main"})})


CONSTANTS = [
    *(const(value, "float32") for value in (0.1, -0.0, 1e-30, 3.4e38, np.inf, -np.inf, np.nan)),
    *(const(value, "float16") for value in (0.1, 65504, 6e-8)),
    *(const(value, "bfloat16") for value in (0.1, 1.0, 1e20)),
    *(const(value, "float64") for value in (0.1, 1e300, np.nan)),
    *(const(7, dtype) for dtype in ("int8", "uint8", "int32", "int64", "uint32", "int4")),
    *(const(value, "uint64") for value in (0, 2**64 - 1)),
    const(-(2**63), "int64"),
    const(True, "bool"),
    const([True, False], "bool"),
    const(1 + 2j, "complex64"),
    const([[1, 2], [3, 4]], "complex128"),
    const([0.5, 2], "float8_e4m3fn"),
    const([[1.5, -2], [0.1, np.inf]], "float32"),
    const([1, 2, 3], "int4"),
    const(np.zeros((0, 3)), "float32"),
    const(np.full((30, 2), 0.1), "float32"),
    const(np.full((30,), np.nan), "bfloat16"),
    const(np.array(0x7FC00001, "uint32").view("float32")),  # a NaN with a message in it
    const(np.arange(40).reshape(4, 10), "float32"),
    const(np.arange(40), "bfloat16"),
    const(np.arange(40) % 8, "int4"),
    const(np.arange(40) % 2 == 0),
    const(np.arange(400).reshape(40, 10)[:, ::2], "int64"),
]


def test_constants_keep_every_bit() -> None:
    check(constant_module(*CONSTANTS), np.float32(0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (const(0.1, "float32"), "jnp.float32(0.1)"),
        (const(0.1, "bfloat16"), "jnp.bfloat16(0.100098)"),
        (const(1e20, "float32"), "jnp.float32(1e20)"),
        (const(-np.inf, "float16"), "jnp.float16(-jnp.inf)"),
        (const([1, 2], "int64"), "jnp.array([1, 2], jnp.int64)"),
        (const([[True]], "bool"), "jnp.full((1, 1), True, jnp.bool_)"),
        (const(np.zeros((3, 100)), "float32"), "jnp.full((3, 100), 0.0, jnp.float32)"),
        (const(np.arange(17), "int32"), "jnp.asarray(CONSTANT_0)"),
    ],
)
def test_constants_as_text(value: Constant, text: str) -> None:
    assert text_of(constant_module(value)).endswith(f"    return (x, {text})")


def test_large_constants_stand_at_the_end_each_once() -> None:
    big = np.arange(100, dtype="int32")
    text = to_python(constant_module(const(big), const(big.copy()), const(big * 2)))
    end = text[text.index("\n\n\n# Constants, by their bytes.\n") :]
    assert end.count("CONSTANT_0 = stored(\n    jnp.int32,\n    (100,),\n    ") == 1
    assert end.count("= stored(") == 2
    assert all(len(line) <= 100 for line in text.splitlines())


def test_wide_dtypes_are_switched_on_for_the_call_only() -> None:
    mod = parse_functions("""
    @R.function
    def main(
        x: R.Tensor((2,), "float64"), k: R.Tensor((2,), "int64")
    ) -> R.Tuple(R.Tensor((2,), "float64"), R.Tensor((2,), "int64")):
        y = R.add(x, R.const(0.1, "float64"))
        l = R.add(k, R.const(4294967296, "int64"))
        return (y, l)

    @R.function
    def narrow(x: R.Tensor((2,), "float32")) -> R.Tensor((), "int64"):
        y = R.argmax(x, axis=0)
        return y
    """)
    assert text_of(mod).startswith("@with_x64\n@jax.jit\ndef main(")
    check(mod, np.array([0.1, 0.2]), np.array([1, 2]))
    check(mod, X[0, :2], function="narrow")
    assert jnp.arange(3).dtype == "int32"


def test_names_that_python_or_the_file_have_already() -> None:
    """Keywords, names that the file itself uses, and names that are none get others."""
    names = ["lambda", "lax", "jnp", "max", "check_shapes", "main", "x.y", "é", "main_1"]
    params = [Var(name, TensorType((SymbolicVar("n"), 2), "float32")) for name in names]
    body = SeqExpr((), TupleGetItem(Tuple(tuple(params)), 3))
    function = make_function(params, body, attrs={"global_symbol": "main"})
    mod = IRModule({"main": function})
    head = next(line for line in text_of(mod).splitlines() if line.startswith("def "))
    assert head == (
        "def main(lambda_1, lax_1, jnp_1, max_1, check_shapes_1, main_1, x_y, é, main_1_1):"
    )
    check(mod, *[X[:, :2]] * len(params))


def test_names_of_functions_that_the_file_has_already() -> None:
    mod = CALLS.with_functions({"jax": CALLS["double"]})
    assert "def jax_1(" in to_python(mod, "jax")
    chex.assert_trees_all_equal(written(mod, "jax")["jax_1"](X[0]), X[0] * 2)


def test_long_names_are_cut() -> None:
    x = Var("x" * 200, TensorType((2,), "float32"))
    mod = IRModule({"main": make_function([x], SeqExpr((), x), attrs={"global_symbol": "main"})})
    assert f"def main({'x' * 40}):" in to_python(mod)


def test_nested_calls_are_bound_to_names() -> None:
    """The text has a line for each call, also of a program that was put together by hand."""
    x = Var("x", TensorType((3,), "float32"))
    add, exp = get_op("relax.add"), get_op("relax.exp")
    body = SeqExpr((), add(exp(x), exp(add(x, x))))
    mod = IRModule({"main": make_function([x], body, attrs={"global_symbol": "main"})})
    assert (
        text_of(mod)
        == """\
@jax.jit
def main(x):
    check_shapes((x,), ((3,),))
    gv = lax.exp(x)
    gv1 = x + x
    gv2 = lax.exp(gv1)
    gv3 = gv + gv2
    return gv3"""
    )
    check(mod, X[0])


def test_printing_and_asserting(capsys: pytest.CaptureFixture[str]) -> None:
    mod = parse_functions("""
    @R.function(pure=False)
    def main(
        x: R.Tensor((2,), "float32"), ok: R.Tensor((), "bool")
    ) -> R.Tensor((2,), "float32"):
        R.print(x, R.prim_value(3), format="{} and {}")
        R.print(x)
        R.assert_op(ok, x, format="x is {}")
        R.assert_op(R.const(True, "bool"))
        s = R.shape_of(x)
        return x
    """)
    main = written(mod)["main"]
    jax.block_until_ready(main(np.array([1, 2], "float32"), np.array(True)))
    jax.effects_barrier()
    assert capsys.readouterr().out == "[1. 2.] and 3\n[1. 2.]\n"
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"Assert Failed: x is \[1. 2.\]"):
        jax.block_until_ready(main(np.array([1, 2], "float32"), np.array(False)))


def test_an_assertion_of_what_is_known_is_made_at_once() -> None:
    names = written(
        parse_functions("""
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Object:
        R.assert_op(R.const(False, "bool"))
        return x
    """)
    )
    with pytest.raises(AssertionError, match=r"Assert Failed$"):
        names["main"](X[0, :2])


def test_loops() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3,), "float32")) -> R.Tuple(
        R.Tensor((3,), "float32"), R.Tensor(("n",), "float32"), R.Tensor((3,), "float32")
    ):
        @R.function
        def step(
            carry: R.Tensor((3,), "float32"), row: R.Tensor((3,), "float32")
        ) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((), "float32")):
            new = R.multiply(R.add(carry, row), w)
            return (new, R.sum(new))

        @R.function
        def goes_on(carry: R.Tensor((3,), "float32")) -> R.Tensor((), "bool"):
            return R.less(R.max(carry), R.const(100, "float32"))

        @R.function
        def twice(carry: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            return R.add(carry, carry)

        both = R.scan(step, w, x, reverse=True)
        last = both[0]
        grown = R.while_loop(goes_on, twice, w, max_iter=5)
        return (last, both[1], grown)
    """)
    text = text_of(mod)
    assert "    both = lax.scan(step, w, x, reverse=True)\n" in text
    assert "    grown = bounded_loop(goes_on, twice, w, max_iter=5)\n" in text
    check(mod, X, X[1] + 0.5)


def test_closures_as_values() -> None:
    mod = parse_functions("""
    @R.function(private=True)
    def affine(
        x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")
    ) -> R.Tensor((3,), "float32"):
        y = R.add(R.multiply(x, w), b)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32"), rest: R.Tuple(R.Tensor((3,), "float32"))) -> R.Tensor(
        (3,), "float32"
    ):
        cls = Module
        closure = R.make_closure(cls.affine, (x, x))
        y = R.invoke_pure_closure(closure, (x,), ty_args=R.Tensor((3,), "float32"))
        z = R.invoke_pure_closure(closure, rest, ty_args=R.Tensor((3,), "float32"))
        whole = R.make_closure(cls.affine, (y, z, x))
        total = R.invoke_pure_closure(whole, (), ty_args=R.Tensor((3,), "float32"))
        return total
    """)
    text = text_of(mod)
    assert (
        """\
    closure = lambda *first: affine(*first, x, x)
    y = closure(x)
    z = closure(*rest)
    whole = lambda *first: affine(*first, y, z, x)
    total = whole()
"""
        in text
    )
    check(mod, X[0], (X[1],))


def test_shapes_as_values() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor("float32", ndim=2)) -> R.Object:
        s = R.shape_of(x)
        t = R.shape_to_tensor(s)
        nothing = R.null_value()
        return t
    """)
    text = text_of(mod)
    assert "    s = x.shape\n    t = jnp.array(s, jnp.int64)\n    nothing = None\n" in text
    check(mod, X)


def test_python_functions_from_outside_are_refused() -> None:
    mod = parse_functions("""
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Object:
        y = R.call_packed("my.function", x)
        return y
    """)
    match = (
        "`main` calls `my.function`, a Python function from outside: plain JAX that stands alone"
    )
    with pytest.raises(LoweringError, match=match):
        to_python(mod)


def test_functions_of_the_module_from_outside_are_refused() -> None:
    mod = parse_functions("""
    f = R.ExternFunc("f")

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Object:
        cls = Module
        y = cls.f(x)
        return y
    """)
    with pytest.raises(LoweringError, match="`main` calls `f`, a Python function from outside"):
        to_python(mod)
    with pytest.raises(LoweringError, match="`f` is a function from outside: it has no body to"):
        to_python(mod, "f")


def test_shapes_that_are_not_known_are_refused() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor("float32", ndim=2)) -> R.Object:
        y = R.sum(x, axis=[0])
        return y
    """)
    match = r"`main`: `R.sum\(x, axis=\[0\].* cannot be written as plain JAX: JAX needs the values"
    with pytest.raises(LoweringError, match=match):
        to_python(mod)


@given(modules())
@settings(max_examples=25)
def test_random_modules_compute_the_same(mod: IRModule) -> None:
    executable, functions = build(mod), written(mod, list(mod.relax_functions()))
    for name, function in mod.relax_functions().items():
        args = [_argument(param.ty) for param in function.params]
        assert same_bits(functions[name](*args), executable[name](*args))


def _argument(ty: Any) -> Any:
    shape = [dim if isinstance(dim, int) else 2 for dim in ty.dims]
    return (np.arange(np.prod(shape)).reshape(shape) - 1.5).astype(np_dtype(ty.dtype))


def test_every_text_is_free_of_unused_names() -> None:
    """What is imported or taken along is called."""
    for mod in (LAYER, SYMBOLIC, CHOICE, CLOSURE, CALLS, CAST):
        tree = ast.parse(to_python(mod))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert imported <= used


def test_helpers_are_documented() -> None:
    tree = ast.parse(to_python(CAST))
    helpers = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name != "main"]
    assert helpers
    assert all(ast.get_docstring(node) for node in helpers)
    assert inspect.getdoc(to_python)
