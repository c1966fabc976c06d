"""What a tensor says of itself: types, and values run, compiled and written."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from relaxjax import build, from_source, to_python
from relaxjax.ir import Expr, PrimExpr, PrimType, TensorType, Var, const
from relaxjax.ir.op import get_op
from relaxjax.ops import OpError

MODULE: Any = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3, 4), "float16"), axis: R.Prim("int64")):
        rank = R.inspect.tensor_ndim(x)
        rows = R.inspect.tensor_shape_i(x, 0)
        stride = R.inspect.tensor_stride_i(x, axis)
        last = R.inspect.tensor_stride_i(x, 2)
        begin = R.inspect.tensor_byte_offset(x)
        first = R.inspect.tensor_elem_offset(x)
        code = R.inspect.tensor_dtype_code(x)
        bits = R.inspect.tensor_dtype_bits(x)
        lanes = R.inspect.tensor_dtype_lanes(x)
        return (rank, rows, stride, last, begin, first, code, bits, lanes)
""")
X = np.zeros((2, 3, 4), "float16")
EXPECTED = [(3, 2, 12, 1, 0, 0, 2, 16, 1), (3, 2, 4, 1, 0, 0, 2, 16, 1)]


def inspect(name: str, *args: Expr | int) -> Any:
    return get_op(f"relax.inspect.{name}")(*args)


@pytest.mark.parametrize("legalized", [True, False])
def test_what_runs(legalized: bool) -> None:
    main = build(MODULE, legalized=legalized)["main"]
    assert [main(X, axis) for axis in (0, 1)] == EXPECTED


def test_an_axis_that_the_tensor_has_not_when_it_runs() -> None:
    with pytest.raises(OpError, match=r"tensor_stride_i: `axis` must be in \[0, 3\) for 3 .* 3\n"):
        build(MODULE)["main"](X, 3)


def test_plain_jax_that_stands_alone() -> None:
    text = to_python(MODULE)
    assert "    stride = math.prod(x.shape[axis + 1:])\n" in text
    assert "    last = math.prod(x.shape[3:])\n" in text
    space: dict[str, Any] = {}
    exec(text, space)
    assert [space["main"](X, axis) for axis in (0, 1)] == EXPECTED


def test_numbers_in_a_compiled_program() -> None:
    """They are known when the program is traced, so that an index may be made of them."""
    mod: Any = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        y = R.take(x, R.inspect.tensor_ndim(x), axis=0)
        return y
""")
    x = np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(build(mod)["main"](x), x[2])


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [
        ("bool", 6, 8),
        ("int4", 0, 4),
        ("uint64", 1, 64),
        ("bfloat16", 4, 16),
        ("complex64", 5, 64),
        ("float8_e4m3fn", 10, 8),
        ("float4_e2m1fn", 17, 4),
    ],
)
def test_codes_are_those_of_dlpack(dtype: str, code: int, bits: int) -> None:
    array = jnp.zeros((), dtype) if dtype != "uint64" else np.zeros((), dtype)
    lower = [get_op(f"relax.inspect.tensor_dtype_{name}").lower for name in ("code", "bits")]
    assert [rule(array) for rule in lower if rule is not None] == [code, bits]


@pytest.mark.parametrize("ty", [TensorType((2,)), TensorType(None, "int8"), TensorType()])
def test_types_need_nothing_known(ty: TensorType) -> None:
    """They are those that TVM gives its scalars."""
    x = Var("x", ty)
    dtypes = {
        "tensor_ndim": "int32",
        "tensor_byte_offset": "uint64",
        "tensor_elem_offset": "uint64",
        "tensor_dtype_code": "uint8",
        "tensor_dtype_bits": "uint8",
        "tensor_dtype_lanes": "uint16",
    }
    assert {name: inspect(name, x).ty for name in dtypes} == {
        name: PrimType(dtype) for name, dtype in dtypes.items()
    }
    for name in ("tensor_shape_i", "tensor_stride_i"):
        assert inspect(name, x, 0).ty == PrimType("int64")


X3 = Var("x", TensorType((2, 3, 4), "float32"))


@pytest.mark.parametrize("name", ["tensor_shape_i", "tensor_stride_i"])
@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (3, r"`axis` must be in \[0, 3\) for 3 dimensions, found 3"),
        (-1, "`axis` must not be negative, found -1"),
        (PrimExpr(1.0), 'must be a scalar of the host of dtype int64, found R.Prim."float64"'),
    ],
)
def test_axes_that_are_refused(name: str, axis: Any, message: str) -> None:
    with pytest.raises(OpError, match=f"relax.inspect.{name}: .*{message}"):
        inspect(name, X3, axis)


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(OpError, match=r"inspect\.tensor_ndim: `tensor` must be a tensor"):
        inspect("tensor_ndim", PrimExpr(2))


def test_a_key_has_no_code() -> None:
    lower = get_op("relax.inspect.tensor_dtype_code").lower
    assert lower is not None
    key = get_op("relax.random.key")(const(0, "int32"))
    assert key.ty == TensorType((), "key<fry>")
    with pytest.raises(OpError, match="a dtype that DLPack has a code for, found key<fry>"):
        lower(jax.random.key(0))
