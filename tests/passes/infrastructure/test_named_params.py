"""Options that name what a module does not have: an error lists what there is."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from parsing import parse_module

from relaxjax.ir import IRModule, SymbolicVar
from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.passes import (
    BindParams,
    BindSymbolicVars,
    ChangeBatch,
    DenseToSparse,
    FuseOpsByPattern,
    Legalize,
    MultiplyRowsOnce,
    PassPrintingInstrument,
    PropagateSharding,
    RunCodegen,
    Sequential,
    SimplifyFCTranspose,
    TensorParallel,
    ToMixedPrecision,
)
from relaxjax.passes.infrastructure.named_params import check_params

MOD = parse_module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y

    @R.function
    def other(x: R.Tensor((4,), "float32"), v: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            y = R.matmul(x, R.permute_dims(v))
            R.output(y)
        return y
""")
SHAPES = [[(1, 4, 4), (1,), (2,)]]
ALL = "; there are `v`, `w`, `x`"
OTHER_X = Var("x", TensorType((4,), "float32"))
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a sparse weight": (
        lambda: DenseToSparse(["ww"], SHAPES),
        "`weight_name` names `ww`, but no function has such a parameter; did you mean `w`?" + ALL,
    ),
    "an unfit weight": (
        lambda: DenseToSparse(["x"], SHAPES),
        (
            "`weight_name` names `x`, which is no weight that is read as the right factor of "
            "matmuls of floats only; there are `v`, `w`"
        ),
    ),
    "a transposed weight": (
        lambda: SimplifyFCTranspose(["v", "q"]),
        "`target_weight_name` names `q`, but no function has such a parameter" + ALL,
    ),
    "one that is not transposed": (
        lambda: SimplifyFCTranspose(["w"]),
        (
            "`target_weight_name` names `w`, which is no parameter of two dimensions that is read "
            "transposed only; there are `v`"
        ),
    ),
    "a table": (
        lambda: MultiplyRowsOnce(["q"]),
        "`tables` names `q`, but no function has such a parameter" + ALL,
    ),
    "an input in half precision": (
        lambda: ToMixedPrecision(fp16_input_names=["w", "q"]),
        "`fp16_input_names` names `q`, but no function has such a parameter" + ALL,
    ),
    "an entry of patterns": (
        lambda: FuseOpsByPattern([], entry_functions=["mian"]),
        "the module has no function `mian`; it has `main`, `other`; did you mean `main`?",
    ),
    "an entry of regions": (
        lambda: RunCodegen(entry_functions=["q"]),
        "the module has no function `q`; it has `main`, `other`",
    ),
    "a function without a mesh": (
        lambda: PropagateSharding(func_name="q"),
        "the module has no function `q`; it has `main`, `other`",
    ),
    "an axis of a mesh": (
        lambda: TensorParallel({"data": 1}, "model", "main"),
        "the mesh has no axis `model`, but ['data']",
    ),
    "a set of rules": (
        lambda: Legalize(legalize_map_attr_name="FTVMLegalise"),
        "no rule is entered under `legalize_map_attr_name` = `FTVMLegalise`",
    ),
    "a required pass": (
        lambda: Sequential([], required=["Normalise"]),
        "`required` names `Normalise`, but there is no such pass; did you mean `Normalize`?",
    ),
    "a printed pass": (
        lambda: PassPrintingInstrument(["Normalise"]),
        "`print_before_pass_names` names `Normalise`, but there is no such pass",
    ),
    "printed letters": (
        lambda: PassPrintingInstrument((), "Normalize"),
        "`print_after_pass_names` takes a list of names",
    ),
    "a batch": (
        lambda: ChangeBatch({"q": 0}),
        "no function has a parameter `q`" + ALL,
    ),
    "a batch of another variable": (
        lambda: ChangeBatch({OTHER_X: 0}),
        "the parameter `x` is another variable: give its name, or the very object",
    ),
    "a parameter of another variable": (
        lambda: BindParams("other", {OTHER_X: [1.0] * 4}),
        "the parameter `x` is another variable: give its name, or the very object",
    ),
    "a size": (
        lambda: BindSymbolicVars({"q": 3}),
        "no function has a symbolic dimension `q`; there are `n`",
    ),
    "a size of another object": (
        lambda: BindSymbolicVars({SymbolicVar("n"): 3}),
        "the symbolic dimension `n` is another object: give its name, or the very object",
    ),
}


@pytest.mark.parametrize(("made", "message"), WRONG.values(), ids=WRONG)
def test_a_name_that_matches_nothing_is_an_error(made: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        made()(MOD)


def test_names_that_some_function_has_are_good() -> None:
    check_params("names", ["w", "v", "x"], MOD)
    check_params("names", ["v"], MOD, lambda function: function.params[1:])
    check_params("names", [], IRModule())
    changed = SimplifyFCTranspose(["v"])(MOD)
    assert [param.name for param in changed["other"].params] == ["x", "v_t"]
    sparse = DenseToSparse(["w"], SHAPES)(MOD)
    assert [param.name for param in sparse["main"].params][1:] == [
        "w_data",
        "w_indices",
        "w_indptr",
    ]
    with pytest.raises(ValueError, match="names `w`, but no function has such a parameter; there"):
        check_params("names", ["w"], IRModule())
