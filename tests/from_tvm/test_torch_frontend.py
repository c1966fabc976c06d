"""Models of PyTorch by TVM's name for their import: what they give is what PyTorch gave."""

from pathlib import Path
from typing import Any

import chex
import numpy as np
import pytest

from relaxjax import VirtualMachine, build
from relaxjax.tvm.relax.frontend import detach_params
from relaxjax.tvm.relax.frontend.torch import from_exported_program
from relaxjax.tvm.scope import OutOfScopeNameError

FILES = Path(__file__).parents[1] / "from_torch" / "files"
ENCODER = FILES / "encoder.pt2"


def outputs(name: str) -> dict[str, Any]:
    return dict(np.load(FILES / f"{name}.npz"))


@pytest.mark.parametrize("name", ["encoder", "tied"])
def test_a_model_predicts_what_pytorch_does(name: str) -> None:
    mod, arrays = from_exported_program(FILES / f"{name}.pt2"), outputs(name)
    (first, *_) = VirtualMachine(build(mod))["main"](arrays["input 0"])
    chex.assert_trees_all_close(np.asarray(first), arrays["output 0"], rtol=1e-4, atol=1e-5)


def test_weights_may_be_parameters() -> None:
    mod, params = detach_params(from_exported_program(ENCODER, keep_params_as_input=True))
    function, arrays = mod["main"], outputs("encoder")
    assert function.attrs["num_input"] == 1
    assert "params" not in function.attrs
    assert len(params["main"]) == len(function.params) - 1
    (found,) = VirtualMachine(build(mod))["main"](arrays["input 0"], *params["main"])
    chex.assert_trees_all_close(np.asarray(found), arrays["output 0"], rtol=1e-4, atol=1e-5)


def test_a_single_result_may_stand_alone() -> None:
    mod = from_exported_program(ENCODER, unwrap_unit_return_tuple=True)
    assert str(mod["main"].ret_ty) == 'R.Tensor((n, 4, 8), dtype="float32")'


def test_a_module_without_arrays_has_none_to_detach() -> None:
    mod = from_exported_program(ENCODER)
    assert detach_params(mod) == (mod, {})


def test_operators_of_ones_own_have_no_place() -> None:
    with pytest.raises(OutOfScopeNameError, match="`custom_convert_map` has no place in relaxjax"):
        from_exported_program(ENCODER, custom_convert_map={"aten::relu": None})
