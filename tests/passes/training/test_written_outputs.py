"""Backbones that return their outputs by one variable, as exported models do."""

from typing import Any

import numpy as np
from parsing import parse_function
from small_models import trainer_of

from relaxjax.ir import IRModule, TensorType, assert_structural_equal
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.passes import AppendLoss

TY = TensorType((3,), "float32")
ATTRS = {"param_num": 1, "state_num": 1}
TEXT = """
@R.function
def backbone(
    x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32"), s: R.Tensor((3,), "float32")
):
    with R.dataflow():
        a = R.multiply(x, w)
        b = R.add(s, x)
        gv = (a, b)
        R.output(gv)
    return gv
"""
WRITTEN = TEXT.replace("R.output(gv)", "R.output(a, b)").replace("return gv", "return (a, b)")


def trained(text: str) -> tuple[Any, Any, Any]:
    mod = IRModule({"backbone": parse_function(text)}, attrs=ATTRS)
    trainer = trainer_of(mod, MSELoss(), SGD(0.5), TY, TY)
    trainer.load_params([np.arange(3.0)])
    trainer.zero_init_states()
    loss = trainer.update([np.ones(3, "float32")], [np.zeros(3, "float32")])
    return loss, trainer.export_params()["w"], trainer.export_states()["s"]


def test_such_a_model_trains_as_one_that_writes_them_out() -> None:
    for found, expected in zip(trained(TEXT), trained(WRITTEN), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_loss_takes_the_first_of_them() -> None:
    mod = AppendLoss("backbone", MSELoss()(TY, TY))(IRModule({"backbone": parse_function(TEXT)}))
    last = mod["backbone_loss"].body.body
    assert [str(field.ty) for field in last.fields] == [
        'R.Tensor((), dtype="float32")',
        'R.Tensor((3,), dtype="float32")',
    ]


def test_a_loss_of_a_tuple_takes_the_tuple() -> None:
    loss = parse_function("""
        @R.function
        def loss(outputs: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))):
            with R.dataflow():
                l = R.sum(R.multiply(outputs[0], outputs[1]))
                R.output(l)
            return l
        """)
    backbone = IRModule({"backbone": parse_function(TEXT)})
    mod = AppendLoss("backbone", loss)(backbone)
    assert str(mod["backbone_loss"].ret_ty) == 'R.Tensor((), dtype="float32")'
    assert_structural_equal(mod["backbone"], backbone["backbone"])
