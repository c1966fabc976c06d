"""Constants and names in modules written as plain JAX."""

import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions
from written_programs import check, text_of

from relaxjax.ir.builder import make_function
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant, Tuple, TupleGetItem, Var, const
from relaxjax.ir.function import SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.lowering import to_python

X = np.arange(6, dtype="float32").reshape(2, 3) - 2


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
