"""Joining a backbone and a loss."""

import pytest
from parsing import parse_flow, parse_functions, parse_main

from relaxjax import DataflowVar, GlobalVar, IRModule, from_source
from relaxjax.ir import BindingBlock, Function, TensorType, Var, assert_structural_equal
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dim_variables import dim_vars
from relaxjax.ir.walk import bound_vars
from relaxjax.ops.emit import call
from relaxjax.passes.training.append_loss import AppendLoss


def function(text: str) -> Function:
    parsed = from_source(text)
    assert isinstance(parsed, Function)
    return parsed


BACKBONE = parse_flow(
    "lv = R.add(x, y)\nout = R.multiply(lv, x)\nreturn out, lv", x=(2, 4), y=(2, 4)
)

LOSS = function("""
@R.function
def loss(predictions: R.Tensor((2, 4), "float32"), targets: R.Tensor((2, 4), "float32")):
    with R.dataflow():
        lv = R.subtract(predictions, targets)
        gv = R.sum(lv)
        R.output(gv)
    return gv
""")


def test_the_loss_follows_the_backbone_in_one_block() -> None:
    expected = parse_functions("""
    @R.function
    def main_loss(
        x: R.Tensor((2, 4), "float32"),
        y: R.Tensor((2, 4), "float32"),
        targets: R.Tensor((2, 4), "float32"),
    ):
        with R.dataflow():
            lv = R.add(x, y)
            out = R.multiply(lv, x)
            lv1 = R.subtract(out, targets)
            gv = R.sum(lv1)
            R.output(lv, gv)
        return gv, lv
""")
    result = AppendLoss("main", LOSS)(BACKBONE)
    assert_structural_equal(result["main_loss"], expected["main_loss"])
    assert result["main"] is BACKBONE["main"]


def test_a_consumed_output_is_hidden_and_a_returned_one_stays() -> None:
    appended = AppendLoss(GlobalVar("main"), LOSS, new_func_name="train")(BACKBONE)["train"]
    kinds = {var.name: isinstance(var, DataflowVar) for var in bound_vars(appended)}
    assert kinds["out"]
    assert not kinds["gv"]


def test_a_loss_may_take_several_outputs() -> None:
    appended = AppendLoss("main", LOSS, num_backbone_outputs=2)(BACKBONE)["main_loss"]
    assert [param.name for param in appended.params] == ["x", "y"]


def test_symbolic_dimensions_of_the_loss_become_the_backbone_s() -> None:
    backbone = parse_flow("out = R.exp(x)\nreturn out", x=("n", 4))
    loss = function("""
@R.function
def loss(
    predictions: R.Tensor(("batch", 4), "float32"), targets: R.Tensor(("batch", 4), "float32")
):
    with R.dataflow():
        gv = R.sum(R.subtract(predictions, targets))
        R.output(gv)
    return gv
""")
    x, targets = AppendLoss("main", loss)(backbone)["main_loss"].params
    assert x.ty == targets.ty


@pytest.mark.parametrize("size", ["n * 2", "(n + 1) // 2"])
def test_a_size_that_tells_no_symbol_is_the_backbone_s_own(size: str) -> None:
    """A loss that is made of the types of the outputs names the same symbols as they do."""
    backbone = from_source(f"""
@R.function
def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("{size}",), "float32")):
    with R.dataflow():
        out = R.exp(y)
        R.output(out)
    return out
""")
    assert isinstance(backbone, Function)
    predictions, targets = (Var(name, backbone.ret_ty) for name in ("predictions", "targets"))
    builder = BlockBuilder()
    with builder.function("loss", [predictions, targets]):
        with builder.dataflow():
            total = builder.emit_output(call("sum", predictions - targets))
        builder.emit_func_output(total)
    mod = IRModule({"main": backbone})
    joined = AppendLoss("main", builder.get()["loss"])(mod)["main_loss"]
    x, y, given = joined.params
    assert given.ty == y.ty
    assert isinstance(x.ty, TensorType)
    assert isinstance(y.ty, TensorType)
    assert x.ty.dims is not None
    assert y.ty.dims is not None
    assert dim_vars(y.ty.dims[0]) == x.ty.dims[:1]


def with_main(body: str) -> IRModule:
    return parse_main(body, x=(2, 4))


def loss_of(body: str, shape: str = "(2, 4)") -> Function:
    return function(f'@R.function\ndef loss(p: R.Tensor({shape}, "float32")):\n{body}')


FLOW = "        with R.dataflow():\n            y = R.exp(x)\n            R.output(y)\n"
SUM = "    with R.dataflow():\n        s = R.sum(p)\n        R.output(s)\n    return s\n"


def test_blocks_stay_of_their_kinds() -> None:
    """A branch may not stand in a dataflow block, and the loss begins one."""
    joined = AppendLoss("main", loss_of(SUM))(
        with_main("""
        total = R.sum(x)
        if R.greater(total, R.const(0.0, "float32")):
            y = R.exp(x)
        else:
            y = R.negative(x)
        return y
""")
    )
    expected = function("""
@R.function
def main_loss(x: R.Tensor((2, 4), "float32")):
    total = R.sum(x)
    if R.greater(total, R.const(0.0, "float32")):
        y = R.exp(x)
    else:
        y = R.negative(x)
    with R.dataflow():
        s = R.sum(y)
        R.output(s)
    return s
""")
    assert_structural_equal(joined["main_loss"], expected)
    plain = AppendLoss("main", loss_of("    s = R.sum(p)\n    return s\n"))(
        with_main("        y = R.exp(x)\n        return y\n")
    )
    (block,) = plain["main_loss"].body.blocks
    assert type(block) is BindingBlock
    assert [binding.var.name for binding in block.bindings] == ["y", "s"]


@pytest.mark.parametrize(
    ("backbone", "loss", "count", "message"),
    [
        (
            with_main(FLOW + "        return (y, (y, y))\n"),
            loss_of(SUM),
            1,
            "the backbone must return a variable or a tuple of variables",
        ),
        (
            with_main(FLOW + "        return y\n"),
            loss_of(SUM),
            2,
            r"`num_backbone_outputs` must be in \[1, 1\]: .* found 2",
        ),
        (
            with_main(FLOW + "        return y\n"),
            loss_of(
                "    with R.dataflow():\n        s = R.exp(p)\n        R.output(s)\n    return s\n"
            ),
            1,
            r"the loss function must return one scalar, but `s` is of type .*: reduce it, as",
        ),
        (
            with_main(FLOW + "        return y\n"),
            loss_of(SUM, "(2, 5)"),
            1,
            r"output 0 of the backbone is of type .*\(2, 4\).*but the parameter `p` .*\(2, 5\)",
        ),
    ],
)
def test_what_cannot_be_joined(
    backbone: IRModule, loss: Function, count: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        AppendLoss("main", loss, num_backbone_outputs=count)(backbone)
