"""What TVM keeps beside programs: instruments, arrays of others, checks of numbers, workloads."""

from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_flow, parse_main

import relaxjax.tvm
from relaxjax.dpl import DFPattern, is_op, wildcard
from relaxjax.dpl.constraints import innermost
from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.ir.structural import assert_structural_equal

tvm: Any = relaxjax.tvm  # whose names are those of the table
relax: Any = tvm.relax
R: Any = tvm.script.relax
MODULE = parse_main("y = R.add(x, x)\nreturn y", x=(2,))


class Counting(tvm.ir.instrument.PassInstrument):  # type: ignore[misc]
    """Counts the passes before which it is called, and vetoes one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def should_run(self, mod: Any, info: Any) -> bool:
        return bool(info.name != "Normalize")

    def run_before_pass(self, mod: Any, info: Any) -> None:
        self.seen.append(info.name)


def test_instruments_have_a_base() -> None:
    counting, base = Counting(), tvm.ir.instrument.PassInstrument
    with tvm.transform.PassContext(instruments=[counting, base()]):
        relax.transform.Normalize()(MODULE)
        relax.transform.DeadCodeElimination()(MODULE)
    assert counting.seen == ["DeadCodeElimination"]
    assert isinstance(counting, Counting)
    assert isinstance(tvm.ir.instrument.PassTimingInstrument(), base)
    assert not isinstance(tvm.ir.instrument.PassTimingInstrument(), Counting)
    assert not isinstance(MODULE, base)


def test_kinds_of_nodes() -> None:
    for info in (tvm.ir.VDevice("cuda"), tvm.ir.DummyGlobalInfo(), DeviceMesh((2,), (0, 1))):
        assert isinstance(info, tvm.ir.GlobalInfo)
    x = MODULE["main"].params[0]
    for item in (MODULE, MODULE["main"], x, x.ty):
        assert isinstance(item, tvm.runtime.Scriptable)
    assert not isinstance(3, tvm.runtime.Scriptable)
    assert isinstance(x, tvm.ir.ExprWithOp)
    with relax.dpl.PatternContext():
        same = relax.dpl.SameShapeConstraint(is_op("relax.add")(wildcard(), wildcard()))
        assert innermost() is not None
    assert isinstance(same, relax.dpl.DFConstraint)
    assert not issubclass(DFPattern, relax.dpl.DFConstraint)


def test_devices() -> None:
    assert isinstance(tvm.cpu(0), tvm.runtime.Device)
    assert (R.cpu(), R.cuda(1)) == ("cpu:0", "cuda:1")
    enabled = tvm.runtime.enabled
    assert enabled("llvm")
    assert enabled({"kind": "llvm"})
    assert enabled(tvm.target.Target("llvm -mcpu=generic"))
    assert enabled("cpu")
    assert not enabled("vulkan")


def test_arrays_of_other_libraries_share_their_memory() -> None:
    host = np.arange(3)
    shared = tvm.runtime.from_dlpack(host)
    assert shared.dtype == "int64"
    host[0] = 7
    assert shared.numpy().tolist() == [7, 1, 2]
    assert np.from_dlpack(tvm.nd.array(host)).tolist() == [7, 1, 2]
    few_bits = tvm.runtime.from_dlpack(jax.numpy.ones(2, "bfloat16"))
    assert (few_bits.dtype, few_bits.shape) == ("bfloat16", (2,))


# Checks of numbers


def cubes(x: Any, y: Any) -> Any:
    return tvm.runtime.tensor(np.sum(x**3 * y))


def gradients_of_cubes(x: Any, y: Any) -> dict[str, Any]:
    return {"x": 3 * x**2 * y, "y": x**3}


X, Y = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])


def test_gradients_agree_with_differences() -> None:
    check, right = tvm.testing.check_numerical_grads, gradients_of_cubes(X, Y)
    check(cubes, [X, Y], list(right.values()))
    check(cubes, {"x": X, "y": Y}, right, function_value=float(cubes(X, Y)))
    sharp = {"delta": 0.5, "atol": 1e-9, "rtol": 1e-9}  # which only five points reach
    check(cubes, {"x": X, "y": Y}, right, **sharp)


def test_gradients_that_do_not_agree_with_differences() -> None:
    right = gradients_of_cubes(X, Y)
    check = tvm.testing.check_numerical_grads
    wrong = right["x"] + np.array([[0, 9.0]])
    with pytest.raises(AssertionError, match=r"of `x` is 9 away .* elements: \[\[0, 1\]\]"):
        check(cubes, {"x": X, "y": Y}, {"x": wrong})
    with pytest.raises(AssertionError, match=r"`x` is of shape \(2,\), but the input of \(1, 2\)"):
        check(cubes, {"x": X, "y": Y}, {"x": wrong[0]})
    with pytest.raises(ValueError, match="a gradient of `0` is not finite"):
        check(lambda x: float("inf") * x.sum(), [X], [X])


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float8_e5m2", "bool"])
def test_random_bits_are_numbers(dtype: str) -> None:
    found = tvm.testing.generate_random_array(dtype, (40, 50))
    assert (found.shape, found.dtype) == ((40, 50), tvm.testing.np_dtype_from_str(dtype))
    assert np.isfinite(found.astype("float64")).all()
    assert len(np.unique(found.astype("float64"))) >= (2 if dtype == "bool" else 100)


def test_random_bits_of_no_dtype() -> None:
    with pytest.raises(ValueError, match="there is no dtype `float33`"):
        tvm.testing.generate_random_array("float33", (2,))


def test_sizes_are_compared() -> None:
    n = tvm.tirx.Var("n", "int64")
    tvm.testing.assert_prim_expr_equal(n + n, 2 * n)
    with pytest.raises(ValueError, match=r"n and n \+ 1 are not known to be equal"):
        tvm.testing.assert_prim_expr_equal(n, n + 1)


def test_small_helpers() -> None:
    testing = tvm.testing
    assert testing.identity_after("x", 0) == "x"
    with pytest.raises(SystemExit):
        testing.terminate_self()
    assert testing.is_ampere_or_newer() in (False, testing.env.has_cuda())

    def narrow() -> None:
        pass

    (mark,) = testing.skip_if_32bit(reason="narrow")(narrow).pytestmark
    assert (mark.name, mark.args) == ("skipif", (False,))


# Workloads


def test_a_product_with_what_follows_it() -> None:
    mod = relax.testing.get_relax_matmul_module(
        (2, 3),
        (4, 3, 3),
        "float16",
        "float32",
        transposed_y=True,
        bias_shape=(3,),
        activation=R.nn.relu,
        residual_bin_op=lambda result, x: R.multiply(result, R.astype(x, "float32")),
        residual_activation=R.nn.gelu,
    )
    expected = parse_flow(
        """
        lv = R.permute_dims(y, axes=[0, -1, -2])
        lv1 = R.matmul(x, lv, out_dtype="float32")
        lv2 = R.add(lv1, bias)
        lv3 = R.nn.relu(lv2)
        lv4 = R.astype(x, "float32")
        lv5 = R.multiply(lv3, lv4)
        gv = R.nn.gelu(lv5)
        """,
        x='R.Tensor((2, 3), "float16")',
        y='R.Tensor((4, 3, 3), "float16")',
        bias=(3,),
    )
    assert_structural_equal(mod, expected)
    plain = relax.testing.get_relax_matmul_module((2, 3), (3, 5), "float32")
    assert [str(param.ty.shape) for param in plain["main"].params] == ["(2, 3)", "(3, 5)"]


def heads(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def result(mod: Any, *args: Any) -> Any:
    return relax.VirtualMachine(relax.build(mod, "llvm"))["main"](*args).numpy()


@pytest.mark.parametrize("op", ["split", "strided_slice"])
@pytest.mark.parametrize("layout", ["BS3NH", "SBN3H"])
def test_an_attention_of_one_tensor_is_that_of_three(op: str, layout: str) -> None:
    b, s, n, h, h_v = 2, 5, 3, 4, 4
    q, k, v = (heads(b, s, n, size) + place for place, size in enumerate((h, h, h_v)))
    bias = heads(b, n, s, s)
    if layout == "BS3NH":
        qkv = np.concatenate([x.reshape(b, s, -1) for x in (q, k, v)], 2)
    else:
        qkv = np.concatenate([x.transpose(1, 0, 2, 3) for x in (q, k, v)], 3)
    stacked = relax.testing.get_relax_stacked_attention_module(
        qkv, b, s, n, h, h_v, op, bias=bias, qk_scale=0.5, layout=layout, causal_mask="TopLeft"
    )
    three = relax.testing.get_relax_attention_module(
        q.shape,
        k.shape,
        v.shape,
        dtype="float32",
        bias_shape=bias.shape,
        qk_scale=0.5,
        causal_mask="TopLeft",
    )
    found, expected = result(stacked, qkv, bias), result(three, q, k, v, bias)
    if layout == "SBN3H":
        expected = expected.transpose(1, 0, 2, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("option", [{"op": "take"}, {"op": "split", "layout": "BSNH"}])
def test_a_stacked_attention_of_another_kind_is_an_error(option: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"is .* found '(take|BSNH)'"):
        relax.testing.get_relax_stacked_attention_module(heads(2, 5, 36), 2, 5, 3, 4, 4, **option)
