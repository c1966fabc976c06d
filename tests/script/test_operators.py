"""Comparing symbolic dimensions in a script: decided where that is known, else by the program."""

import pickle
import re
from operator import eq, ne
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from jax import export
from script_programs import function

from relaxjax import IRModule, to_jax, to_python
from relaxjax.ir import Function, PrimType, load_json, save_json, structural_equal
from relaxjax.ir.dims import SymbolicVar, compare
from relaxjax.passes import BindSymbolicVars
from relaxjax.script import ScriptError, from_source, relax, tirx

PARAMS = 'x: R.Tensor(("n", "m"), "float32")'
BODY = """
if {}:
    y = x + x
else:
    y = x
return y
"""
SIZES = [(n, m) for n in (2, 3, 4) for m in (2, 3)]
CONDITIONS = [
    "n % 2 == 0",
    "n != m",
    "n < m",
    "n <= m",
    "n > m",
    "n >= 3",
    "3 > n",
    "T.max(n, 3) == 3",
    "R.prim_value(n * m) == 6",
    "T.int64(2) == n",
    "T.EQ(n, m)",
    "T.NE(n, m + 1)",
]


def choice(condition: str) -> Function:
    return function(BODY.format(condition), PARAMS)


def decided(mod: IRModule, shape: tuple[int, int]) -> bool:
    """Which branch the program takes, when JAX compiles it too."""
    run, x = to_jax(mod, "f"), np.ones(shape, "float32")
    found = {float(call(x).sum()) / x.size for call in (run, jax.jit(run))}
    assert len(found) == 1
    return found == {2.0}


def holds(condition: str, n: int, m: int) -> bool:
    numbers = {
        "T": SimpleNamespace(max=max, int64=int, EQ=eq, NE=ne),
        "R": SimpleNamespace(prim_value=int),
    }
    return bool(eval(condition, numbers | {"n": n, "m": m}))


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("form", ["{}", "R.prim_value({})"])
def test_a_comparison_of_dimensions_is_decided_when_the_program_runs(
    condition: str, form: str
) -> None:
    mod = IRModule({"f": choice(form.format(condition))})
    assert [decided(mod, size) for size in SIZES] == [holds(condition, *size) for size in SIZES]


def test_a_comparison_survives_saving_and_binding() -> None:
    mod = IRModule({"f": choice("n < m")})
    saved = load_json(save_json(mod))
    assert isinstance(saved, IRModule)
    assert structural_equal(saved, mod)
    assert [decided(saved, size) for size in SIZES] == [n < m for n, m in SIZES]
    bound = BindSymbolicVars({"n": 3})(mod)
    assert "R.prim_value(3 < m)" in bound.script()
    assert "R.prim_value(True)" in BindSymbolicVars({"n": 3, "m": 4})(mod).script()
    assert pickle.loads(pickle.dumps(mod))["f"].script() == mod["f"].script()


def test_a_comparison_as_plain_jax_and_in_an_export_of_any_size() -> None:
    mod = IRModule({"f": choice("n == m")})
    plain: dict[str, Any] = {}
    exec(to_python(mod), plain)
    shape = export.symbolic_shape("a, b")
    anysize = export.export(jax.jit(to_jax(mod, "f")))(jax.ShapeDtypeStruct(shape, "float32"))
    for size in SIZES:
        x = np.ones(size, "float32")
        expected = x + x if size[0] == size[1] else x
        np.testing.assert_array_equal(plain["f"](x), expected)
        np.testing.assert_array_equal(anysize.call(x), expected)


def test_an_assertion_about_dimensions() -> None:
    found = from_source(f"""
@R.function(pure=False)
def f({PARAMS}):
    _ = R.assert_op(R.prim_value(n % 2 == 0), n, format="{{}} is odd")
    return x
        """)
    assert isinstance(found, Function)
    run = to_jax(IRModule({"f": found}), "f")
    run(np.ones((2, 1), "float32"))
    with pytest.raises(AssertionError, match="3 is odd"):
        run(np.ones((3, 1), "float32"))


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        ("n == n", True),
        ("n < n + 1", True),
        ("n != n", False),
        ("2 * n == n + n", True),
        ("n in (m, n)", True),
        ("n not in (m, n)", False),
        ("n in [n + 1, n + 2]", False),
        ("(n, 4) == (m, 5)", False),
        ("[n, (m,)] == [n, (m,)]", True),
        ("(n,) == (n, n)", False),
        ("R.prim_value(3) < 4", True),
    ],
)
def test_what_is_known_of_dimensions_is_decided_while_the_script_is_read(
    condition: str, known: bool
) -> None:
    assert f"if R.prim_value({known}):" in choice(condition).script()


@pytest.mark.parametrize(
    "condition", ["n in (1, m)", "n not in {1, 2}", "n in {1: 2}", "(n, 4) == (m, 4)", "[n] != [m]"]
)
def test_sequences_of_dimensions_are_not_compared_by_identity(condition: str) -> None:
    with pytest.raises(ScriptError, match="depends on symbolic dimensions, known when") as caught:
        choice(condition)
    assert caught.value.mend == (
        "Compare them one by one: `n == m` and `n < m` are conditions of the program."
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("n == m and n < 3", "`n == m` has no truth value before the program runs"),
        ("not n == m", "`n == m` has no truth value before the program runs"),
        ("not n", "`n` has no truth value before the program runs"),
        ("1 < n < m", "`1 < n` has no truth value before the program runs"),
        ("True if n < m else False", "`n < m` has no truth value before the program runs"),
        ("bool(n)", "`n` is known only when the program runs, so Python cannot branch on it"),
        ("max(n, m) == 3", "Python cannot branch on it: write `if` as a statement of the script"),
        ("n == 2.5", "`2.5` is no dimension"),
        ("n < 'a'", "`'a'` is no dimension"),
        ("(n == m) + 1 == 2", "`n == m` is true or false, which has no arithmetic and no order"),
        ("(n == m) == (m == n)", "`n == m` is true or false, which"),
        ("T.int64(n == m)", "`n == m` is of dtype bool, and no scalar of dtype int64"),
        ("T.bool(n)", "`n` is of dtype int64, and no scalar of dtype bool"),
        ("R.shape([n == m])", "`n == m` is true or false, which is no dimension"),
        ("n", "a condition is a scalar of dtype bool"),
    ],
)
def test_what_is_no_comparison_of_dimensions(condition: str, message: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(message)):
        choice(condition)


def test_python_orders_dimensions_into_comparisons_too() -> None:
    """`==` of Python is for what is known to be the same: `compare` asks about the run."""
    n = SymbolicVar("n")
    assert str(n < 4) == "n < 4"
    assert str(n >= 4) == "4 <= n"
    assert str(compare("==", n, 4)) == str(tirx.EQ(n, 4)) == "n == 4"
    assert compare("!=", n, n + 1) is tirx.NE(n, n + 1) is True
    assert relax.prim_value(tirx.EQ(n, 4)).ty == PrimType("bool")
