"""Sizes, casts and declared types of modules written as plain JAX."""

import ast
import inspect

import numpy as np
import pytest
from parsing import parse_functions, parse_main
from written_programs import check, text_of, unused_names, written

from relaxjax.ir import IRModule, SeqExpr, SymbolicVar, TensorType, Var
from relaxjax.ir.builder import make_function
from relaxjax.lowering import LoweringError, to_python

X = np.arange(6, dtype="float32").reshape(2, 3) - 2

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
    mod = parse_main("return x", x=(3,), k='R.Prim("int64")')
    assert '@partial(jax.jit, static_argnames=["k"])' in text_of(mod)
    check(mod, X[0], 3)


def test_a_symbol_that_no_argument_tells_is_refused() -> None:
    x = Var("x", TensorType((SymbolicVar("n") + 1,), "float32"))
    mod = IRModule({"main": make_function([x], SeqExpr((), x), attrs={"global_symbol": "main"})})
    with pytest.raises(LoweringError, match="`main`: no argument says what `n` is"):
        to_python(mod)


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
    mod = parse_main(
        'y: R.Tensor((2, 3), "float32") = x\nz: R.Tensor((2, 3), "float32") = R.exp(y)\nreturn z',
        x='R.Tensor("float32", ndim=2)',
    )
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


@pytest.mark.parametrize("mod", [SYMBOLIC, CAST])
def test_what_is_imported_or_taken_along_is_used(mod: IRModule) -> None:
    assert unused_names(to_python(mod)) == set()


def test_helpers_are_documented() -> None:
    tree = ast.parse(to_python(CAST))
    helpers = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name != "main"]
    assert helpers
    assert all(ast.get_docstring(node) for node in helpers)
    assert inspect.getdoc(to_python)
