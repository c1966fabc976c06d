"""Graphs inside of graphs: branches, loops, and what is cast where autocast is on."""

from pathlib import Path

import numpy as np
import pytest
from torch_comparison import TOLERANCES, compared

from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.lowering import VirtualMachine, build
from relaxjax.ops.emit import dtype_of
from relaxjax.torch import TorchImportError, from_torch
from relaxjax.torch.autocast import Autocast, mend_of, region

FILES = Path(__file__).parent / "files"
# What is computed in bfloat16 has 8 bits, and PyTorch adds them up in another order.
OF_BFLOAT16 = 0.03


def tensor(dtype: str) -> Var:
    return Var("x", TensorType((2, 2), dtype))


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        *((name, TOLERANCES["float32"]) for name in ("branches", "loops")),
        ("autocast", OF_BFLOAT16),
    ],
)
def test_outputs_and_gradients_are_those_of_torch(name: str, tolerance: float) -> None:
    row = compared(FILES / f"{name}.pt2", dict(np.load(FILES / f"{name}.npz")), tolerance)
    assert row["equal"], row


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_is_chosen_when_the_program_runs(sign: int) -> None:
    model = from_torch(FILES / "branches.pt2")
    x = np.full((2, 3), 0.3 * sign, "float32")
    run = VirtualMachine(build(model.mod))["backbone"]
    chosen, _, _, by_size = run(x, x, *model.params.values())
    factor = model.params["factor"]
    np.testing.assert_allclose(chosen, x / factor if sign > 0 else x * factor, rtol=1e-6)
    np.testing.assert_allclose(by_size, x + factor, rtol=1e-6)


def test_what_is_cast_is_said_in_the_program() -> None:
    text = from_torch(FILES / "autocast.pt2").mod.script()
    assert 'R.astype(linear_weight, dtype="bfloat16")' in text
    assert "float16" not in text.replace("bfloat16", "")


@pytest.mark.parametrize(
    ("target", "given", "casts"),
    [
        ("aten.linear.default", ["float32", "bfloat16"], "bfloat16 bfloat16"),
        ("aten.linear.default", ["float64"], "float64"),
        ("aten.mse_loss.default", ["bfloat16", "float32"], "float32 float32"),
        ("aten.cat.default", ["bfloat16", "float32"], "float32 float32"),
        ("aten.cat.default", ["bfloat16", "bfloat16"], "bfloat16 bfloat16"),
        ("aten.stack.default", ["bfloat16", "float16"], "float32 float32"),
        ("aten.relu.default", ["float32"], "float32"),
        ("mine.linear.default", ["float32"], "float32"),
        ("aten.einsum.default", ["float32"], "bfloat16"),
    ],
)
def test_what_an_operator_is_given(target: str, given: list[str], casts: str) -> None:
    inside = region("cpu", None, True)
    assert inside == Autocast("cpu", "bfloat16")
    arguments = {"tensors": list(map(tensor, given)), "dim": 0}
    found = inside.cast(target, arguments, "bfloat16")
    assert [dtype_of(one) for one in found["tensors"]] == casts.split()
    assert region("cpu", None, False).cast(target, arguments, "bfloat16") is arguments


def test_a_dtype_that_is_asked_for_counts_on_a_gpu() -> None:
    inside = region("cuda", None, True)
    x = tensor("float16")
    assert dtype_of(inside.cast("aten.sum.default", {"self": x}, None)["self"]) == "float32"
    asked = {"self": x, "dtype": "float16"}
    assert inside.cast("aten.sum.default", asked, None) is asked
    found = inside.cast("aten.addcmul.default", {"self": x, "tensor1": tensor("float32")}, None)
    assert dtype_of(found["self"]) == "float32"


def test_autocast_on_another_device() -> None:
    assert region("mps", None, False) == Autocast("mps", None)
    with pytest.raises(TorchImportError, match=r'torch.autocast\("mps"\) is not read, of which'):
        region("mps", "float16", True)


@pytest.mark.parametrize(
    ("found", "wanted", "is_inside", "mend"),
    [
        ("bfloat16", "float32", True, "export it with `strict=False`"),
        ("float32", "bfloat16", True, "autocast casts inside of it"),
        ("float32", "bfloat16", False, "enter it in `forward`"),
    ],
)
def test_types_that_casts_do_not_give(found: str, wanted: str, is_inside: bool, mend: str) -> None:
    assert mend in (mend_of(found, wanted, is_inside) or "")
    assert mend_of("int64", "int32", is_inside) is None
