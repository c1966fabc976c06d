"""Modules written as plain JAX: what the text looks like, and that it computes the same."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from full import how_many
from hypothesis import given, settings
from parsing import parse_flow, parse_functions, parse_main
from strategies import modules
from written_programs import check, same_bits, text_of, unused_names, written

from relaxjax.ir.expr import np_dtype
from relaxjax.ir.module import IRModule
from relaxjax.lowering import LoweringError, build, to_python
from relaxjax.passes import LegalizeOps

X = np.arange(6, dtype="float32").reshape(2, 3) - 2

LAYER = parse_flow(
    """
    hidden = R.matmul(x, w)
    scaled = R.multiply(hidden, R.const(0.1, "float32"))
    out = R.nn.relu(scaled)
    """,
    x=(2, 3),
    w=(3, 4),
)


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
    """Its conditions are Python's; numpy's arrays become JAX's as they come in."""
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
    mod = parse_main('x = R.const([1, 2], "float32")\nreturn x')
    lines = [
        "@jax.jit",
        "def main():",
        "    x = jnp.array([1.0, 2.0], jnp.float32)",
        "    return x",
    ]
    assert text_of(mod) == "\n".join(lines)
    check(mod)


def test_names_of_functions_that_the_file_has_already() -> None:
    mod = CALLS.with_functions({"jax": CALLS["double"]})
    assert "def jax_1(" in to_python(mod, "jax")
    chex.assert_trees_all_equal(written(mod, "jax")["jax_1"](X[0]), X[0] * 2)


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
    body = """
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
    """
    mod = parse_main(body, x=("n", 3), w=(3,))
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


@given(modules())
@settings(max_examples=how_many(12, 500))
def test_random_modules_compute_the_same(mod: IRModule) -> None:
    executable, functions = build(mod), written(mod, list(mod.relax_functions()))
    for name, function in mod.relax_functions().items():
        args = [_argument(param.ty) for param in function.params]
        assert same_bits(functions[name](*args), executable[name](*args))


def _argument(ty: Any) -> Any:
    shape = [dim if isinstance(dim, int) else 2 for dim in ty.dims]
    return (np.arange(np.prod(shape)).reshape(shape) - 1.5).astype(np_dtype(ty.dtype))


@pytest.mark.parametrize("mod", [LAYER, CHOICE, CLOSURE, CALLS])
def test_what_is_imported_or_taken_along_is_used(mod: IRModule) -> None:
    assert unused_names(to_python(mod)) == set()
