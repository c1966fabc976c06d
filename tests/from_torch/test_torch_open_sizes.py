"""Programs of PyTorch whose sizes are open: types say what PyTorch found, and so do losses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from relaxjax import ImportedModel
from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.losses import MSELoss
from relaxjax.lowering.arguments import ArgumentError
from relaxjax.optim import SGD
from relaxjax.passes import MemoryPlanError
from relaxjax.torch.model import imported
from relaxjax.torch.program import Graph, Input, Node, Output, Ref, TensorMeta, TorchProgram

N = "Symbol('s0', positive=True, integer=True)"
X, W = Ref("x"), Ref("w")


def meta(*sizes: int | str, trained: bool = False) -> TensorMeta:
    example = tuple(one if isinstance(one, int) else 3 for one in sizes)
    strides = tuple(int(np.prod(example[place + 1 :])) for place in range(len(example)))
    return TensorMeta("float32", sizes, example, strides, trained)


def model_of(nodes: list[Node], weight: Any, **metas: TensorMeta) -> ImportedModel:
    """The model that takes `x`, has the weight `w`, and gives what its last node does."""
    last = Ref(str(nodes[-1].results[0]))
    tensors = {"w": meta(*weight.shape, trained=True), **metas}
    graph = Graph((W, X), tuple(nodes), (last,), tensors)
    inputs = (Input("parameter", W, "w"), Input("user", X))
    trained, ranges = frozenset(["w"]), {"s0": (0, 5)}
    outputs, weights = (Output("user", last),), {"w": weight}
    return imported(TorchProgram("net", graph, inputs, outputs, weights, {}, trained, ranges))


def dims_of(model: ImportedModel) -> Any:
    (output,) = model.outputs
    return output.dims


def open_size(model: ImportedModel) -> SymbolicVar:
    x = model.mod["backbone"].params[0].ty
    assert isinstance(x, TensorType)
    assert x.dims is not None
    (n,) = (dim for dim in x.dims if isinstance(dim, SymbolicVar))
    return n


def with_positions() -> ImportedModel:
    """`x + w[:n]`, of which PyTorch knows that w has as many rows as x may have."""
    nodes = [
        Node("aten.sym_size.int", {"self": X, "dim": 1}, ("n",)),
        Node("aten.slice.Tensor", {"self": W, "dim": 0, "start": None, "end": Ref("n")}, ("part",)),
        Node("aten.add.Tensor", {"self": X, "other": Ref("part")}, ("y",)),
    ]
    weight = np.arange(10, dtype="float32").reshape(5, 2)
    return model_of(nodes, weight, x=meta(4, N, 2), part=meta(N, 2), y=meta(4, N, 2))


def test_rows_of_a_table_as_many_as_an_input_has() -> None:
    model = with_positions()
    assert dims_of(model) == (4, open_size(model), 2)
    trainer = model.trainer(MSELoss(), SGD(0.5))
    x = np.ones((4, 3, 2), "float32")
    weight = model.params["w"]
    trainer.update([x], [np.zeros_like(x)])
    wanted = weight.copy()
    wanted[:3] -= 0.5 * 2 * 4 * (x[0] + weight[:3]) / x.size
    (found,) = trainer.export_params().values()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_more_rows_than_a_table_has_are_an_error() -> None:
    trainer = with_positions().trainer(MSELoss(), SGD(0.5))
    x = np.ones((4, 6, 2), "float32")
    with pytest.raises(ArgumentError, match=r"dimension 0 .* must be n = 6, .* found 5"):
        trainer.update([x], [x])


@pytest.mark.parametrize(("size", "count"), [(f"Mul(Integer(2), {N})", 6), (N, 3)])
def test_a_loss_of_a_size_that_is_made_of_another(size: str, count: int) -> None:
    """As of an image that the model makes larger."""
    times = count // 3
    nodes = [
        Node("aten.repeat.default", {"self": X, "repeats": [times]}, ("more",)),
        Node("aten.mul.Tensor", {"self": Ref("more"), "other": W}, ("y",)),
    ]
    model = model_of(nodes, np.ones((1,), "float32"), x=meta(N), more=meta(size), y=meta(size))
    assert dims_of(model) == (open_size(model) * times,)
    trainer = model.trainer(MSELoss(), SGD(0.25))
    x = np.array([1, 2, 3], "float32")
    trainer.update([x], [np.zeros(count, "float32")])
    (found,) = trainer.export_params().values()
    np.testing.assert_allclose(found, [1 - 0.5 * np.mean(x * x)], rtol=1e-6)


@pytest.mark.parametrize("end", [None, 2**63 - 1, Ref("n")])
def test_a_slice_of_all_rows_is_the_tensor_itself(end: Any) -> None:
    nodes = [
        Node("aten.sym_size.int", {"self": X, "dim": 0}, ("n",)),
        Node("aten.slice.Tensor", {"self": X, "dim": 0, "start": 0, "end": end}, ("all",)),
        Node("aten.mul.Tensor", {"self": Ref("all"), "other": W}, ("y",)),
    ]
    metas = {"x": meta(N), "all": meta(N), "y": meta(N)}
    model = model_of(nodes, np.ones((1,), "float32"), **metas)
    assert len(list(model.mod["backbone"].body.bindings())) == 2


def test_what_is_asked_of_values_is_left_out() -> None:
    """As distributions ask it of their parameters."""
    nodes = [
        Node("aten.gt.Scalar", {"self": X, "other": 0}, ("above",)),
        Node("aten._is_all_true.default", {"self": Ref("above")}, ("right",)),
        Node("aten._assert_async.msg", {"self": Ref("right"), "assert_msg": "Expected"}, ()),
        Node("aten.mul.Tensor", {"self": X, "other": W}, ("y",)),
    ]
    truths = {"above": replace(meta(N), dtype="bool"), "right": replace(meta(), dtype="bool")}
    model = model_of(nodes, np.ones((1,), "float32"), x=meta(N), y=meta(N), **truths)
    assert len(list(model.mod["backbone"].body.bindings())) == 2


def of_groups(size: str) -> ImportedModel:
    """Rows times a weight, in a program that PyTorch exported for `size` of them alone."""
    nodes = [Node("aten.mul.Tensor", {"self": X, "other": W}, ("y",))]
    return model_of(nodes, np.ones((1,), "float32"), x=meta(size), y=meta(size))


@pytest.mark.parametrize(
    ("size", "told", "most", "rows"),
    [
        (f"Mul(Integer(4), {N})", "(n // 4) * 4", 20, 8),
        (f"Add(Mul(Integer(2), {N}), Integer(1))", "((n + 1) // 2) * 2 - 1", 11, 5),
    ],
)
def test_a_size_that_an_input_has_only_as_a_part(
    size: str, told: str, most: int, rows: int
) -> None:
    """As of images whose height is `4 * Dim("h")`: the open size is the height itself."""
    model = of_groups(size)
    assert str(model.mod["backbone"].params[0].ty) == 'R.Tensor((n,), dtype="float32")'
    assert [str(dim) for dim in dims_of(model)] == [told]
    assert model.ranges == {"n": (most % 2, most)}
    x = np.arange(1, rows + 1, dtype="float32")
    trainer = model.trainer(MSELoss(), SGD(0.01))
    trainer.update([x], [np.zeros(rows, "float32")])
    (found,) = trainer.export_params().values()
    np.testing.assert_allclose(found, [1 - 0.02 * np.mean(x * x)], rtol=1e-6)
    fixed = model.with_sizes(n=rows).mod["backbone"].params[0].ty
    assert str(fixed) == f'R.Tensor(({rows},), dtype="float32")'


def test_rows_that_do_not_make_whole_groups_are_an_error() -> None:
    trainer = of_groups(f"Mul(Integer(4), {N})").trainer(MSELoss(), SGD(0.01))
    with pytest.raises(ArgumentError, match=r"dimension 0 of `x1` must be 4, found 6"):
        trainer.predict(np.ones(6, "float32"))


def test_a_fixed_size_that_does_not_make_whole_groups_is_an_error() -> None:
    model = of_groups(f"Mul(Integer(4), {N})")
    message = r"`x` is of type R.Tensor\(\(6,\).* multiples .* the next smaller .*\(\(4,\)"
    with pytest.raises(ValueError, match=message):
        model.with_sizes(n=6)


def test_a_size_that_another_input_has_alone_is_told_by_that() -> None:
    nodes = [
        Node("aten.sum.default", {"self": X}, ("total",)),
        Node("aten.mul.Tensor", {"self": Ref("total"), "other": W}, ("y",)),
        Node("aten.mul.Tensor", {"self": Ref("z"), "other": Ref("y")}, ("more",)),
    ]
    tensors = {
        "w": meta(1, trained=True),
        "x": meta(f"Mul(Integer(4), {N})"),
        "z": meta(N),
        "total": meta(),
        "y": meta(1),
        "more": meta(N),
    }
    graph = Graph((W, X, Ref("z")), tuple(nodes), (Ref("more"),), tensors)
    inputs = (Input("parameter", W, "w"), Input("user", X), Input("user", Ref("z")))
    weights, trained = {"w": np.ones((1,), "float32")}, frozenset(["w"])
    outputs, ranges = (Output("user", Ref("more")),), {"s0": (1, 5)}
    program = TorchProgram("net", graph, inputs, outputs, weights, {}, trained, ranges)
    model = imported(program)
    params = [str(param.ty) for param in model.mod["backbone"].params[:2]]
    assert params == ['R.Tensor((n * 4,), dtype="float32")', 'R.Tensor((n,), dtype="float32")']
    assert model.ranges == {"n": (1, 5)}


def test_a_size_that_pytorch_does_not_know_is_that_which_is_found() -> None:
    """As of what a mask in the program chooses; it is no size that is left open."""
    unknown = "Symbol('u0', integer=True)"
    nodes = [
        Node("aten.index.Tensor", {"self": W, "indices": [Ref("mask")]}, ("part",)),
        Node("aten.add.Tensor", {"self": X, "other": Ref("part")}, ("y",)),
    ]
    weight, mask = np.ones((3, 2), "float32"), np.array([True, False, True])
    metas = {"w": meta(3, 2, trained=True), "x": meta(2, 2)}
    metas |= {name: meta(unknown, 2) for name in ("part", "y")}
    graph = Graph((W, Ref("mask"), X), tuple(nodes), (Ref("y"),), metas)
    held = Input("constant", Ref("mask"), "mask")
    inputs = (Input("parameter", W, "w"), held, Input("user", X))
    weights, ranges = {"w": weight, "mask": mask}, {"u0": (0, 3)}
    outputs, trained = (Output("user", Ref("y")),), frozenset(["w"])
    model = imported(TorchProgram("net", graph, inputs, outputs, weights, {}, trained, ranges))
    assert dims_of(model) == (2, 2)
    assert model.ranges == {}


def test_what_is_asked_for_sizes_says_how_a_model_of_pytorch_is_given_them() -> None:
    nodes = [Node("aten.mul.Tensor", {"self": X, "other": W}, ("y",))]
    model = model_of(nodes, np.ones(2, "float32"), x=meta(N, 2), y=meta(N, 2))
    with pytest.raises(MemoryPlanError) as raised:
        model.trainer(MSELoss(), SGD(0.1), memory_policy="minimal")
    notes = "as by model.with_sizes(n=5).trainer(...)"
    assert notes in "".join(raised.value.__notes__)
