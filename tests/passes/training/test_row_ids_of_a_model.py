"""Which inputs pick rows, and out of how many, as SetupTrainer says in `row_ids`."""

from typing import Any

import pytest

from relaxjax import IRModule, SetupTrainer, TensorType, from_source
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.passes.training.describe_loss import row_ids
from relaxjax.trainable.facts import RowIds

MODEL = """
@R.function
def backbone(
    ids: R.Tensor(("n", 4), "int32"),
    weights: R.Tensor((4,), "float32"),
    table: R.Tensor((10, 3), "float32"),
    other: R.Tensor((3, 7), "float32"),
):
    with R.dataflow():
        out = {}
        R.output(out)
    return out
"""

CASES: dict[str, tuple[str, list[list[Any]]]] = {
    "an embedding": ("R.take(table, ids, axis=0)", [["ids", 10]]),
    "along the last axis": ("R.take(other, ids, axis=-1)", [["ids", 7]]),
    "of a vector": ("R.take(weights, ids)", [["ids", 4]]),
    "of two": (
        "R.add(R.take(table, ids, axis=0), R.take(R.permute_dims(other), ids, axis=0))",
        [["ids", 10], ["ids", 7]],
    ),
    "moved": (
        'R.take(table, R.reshape(R.astype(ids, "int64"), R.shape([4 * n])), axis=0)',
        [["ids", 10]],
    ),
    "repeated": ("R.take(table, R.tile(ids, [2, 1]), axis=0)", [["ids", 10]]),
    "some of them": ("R.take(table, R.strided_slice(ids, [1], [0], [1]), axis=0)", []),
    "computed with": ("R.take(table, R.floor_mod(ids, R.const(10)), axis=0)", []),
    "of numbers": ('R.take(table, R.astype(weights, "int32"), axis=0)', []),
    "that may lie outside": ('R.take(table, ids, axis=0, mode="clip")', []),
    "not of known rows": ("R.take(ids, ids, axis=0)", []),
    "of nothing": ("R.multiply(ids, ids)", []),
}


@pytest.mark.parametrize(("value", "expected"), CASES.values(), ids=CASES)
def test_what_picks_rows_is_found(value: str, expected: list[list[Any]]) -> None:
    function: Any = from_source(MODEL.format(value))
    assert row_ids(function) == tuple(RowIds(*one) for one in expected)


def test_a_trainable_module_says_so() -> None:
    backbone: Any = from_source(MODEL.format("R.take(table, ids, axis=0)").replace('"n"', "2"))
    mod = IRModule({"backbone": backbone}, attrs={"param_num": 3, "state_num": 0})
    values = TensorType((2, 4, 3), "float32")
    mod = SetupTrainer(MSELoss(), SGD(0.1), [values, values])(mod)
    assert list(map(dict, mod.attrs["row_ids"])) == [{"name": "ids", "rows": 10}]
    assert "class_ids" not in mod.attrs
