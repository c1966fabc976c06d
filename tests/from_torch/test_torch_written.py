"""What PyTorch writes where it takes no gradients: its numbers, with the gradient from before."""

from dataclasses import replace

import numpy as np
import pytest
from torch_graphs import FLOATS, META, OLD, PRODUCT, D, R, W, X, Y, Z, model_of, without_gradients

from relaxjax.ir.span import Span
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.torch import TorchImportError
from relaxjax.torch.model import imported
from relaxjax.torch.program import Graph, Input, Node, Output, Ref, TorchProgram

ROUND = Node("aten.round.default", {"self": Y}, ("r",))
RESULT = Node("aten.mul.Tensor", {"self": Y, "other": X}, ("z",))


def by_detach() -> list[Node]:
    return [
        PRODUCT,
        Node("aten.detach.default", {"self": Y}, ("d",)),
        ROUND,
        Node("aten.copy_.default", {"self": D, "src": R}, ("written",)),
        RESULT,
    ]


def by_region() -> list[Node]:
    copied = Node("aten.copy_.default", {"self": Y, "src": R}, ("written",))
    inner = without_gradients(ROUND, copied, given=[Y], results=[Ref("written")])
    return [PRODUCT, inner, Node(RESULT.target, {"self": Ref("written"), "other": X}, ("z",))]


@pytest.mark.parametrize("nodes", [by_detach(), by_region()], ids=["detach", "region"])
def test_an_estimator_that_is_straight_through(nodes: list[Node]) -> None:
    model = model_of(nodes)
    trainer = model.trainer(MSELoss(), SGD(0.1))
    weight = model.params["w"]
    wanted = np.round(FLOATS * weight) * FLOATS
    np.testing.assert_allclose(trainer.predict(FLOATS), wanted, rtol=1e-6)
    trainer.update([FLOATS], [np.zeros(3, "float32")])
    (found,) = trainer.export_params().values()
    np.testing.assert_allclose(found, weight - 0.1 * 2 / 3 * wanted * FLOATS**2, rtol=1e-5)


def test_what_is_written_has_its_own_gradient_where_it_is_read() -> None:
    """`d.copy_(r)` lets a gradient through to r by d, and by y to what y was before."""
    nodes = by_detach()
    nodes[2] = Node("aten.mul.Tensor", {"self": W, "other": W}, ("r",))
    nodes[4] = Node("aten.mul.Tensor", {"self": D, "other": X}, ("z",))
    model = model_of(nodes)
    trainer = model.trainer(MSELoss(), SGD(0.1))
    weight = model.params["w"]
    trainer.update([FLOATS], [np.zeros(3, "float32")])
    (found,) = trainer.export_params().values()
    slope = 2 / 3 * (weight**2 * FLOATS) * 2 * weight * FLOATS
    np.testing.assert_allclose(found, weight - 0.1 * slope, rtol=1e-5)


def test_what_is_written_elsewhere_changes_the_numbers_alone_of_what_has_its_own_gradient() -> None:
    """`d` has the gradient of `w * w` that was written into it, and then the numbers of twice y."""
    nodes = [
        PRODUCT,
        Node("aten.detach.default", {"self": Y}, ("r",)),
        Node("aten.detach.default", {"self": R}, ("d",)),
        Node("aten.mul.Tensor", {"self": W, "other": W}, ("old",)),
        Node("aten.copy_.default", {"self": D, "src": OLD}, ("written",)),
        Node("aten.mul_.Tensor", {"self": R, "other": 2.0}, ("written",)),
        Node("aten.mul.Tensor", {"self": D, "other": X}, ("z",)),
    ]
    model = model_of(nodes)
    trainer = model.trainer(MSELoss(), SGD(0.1))
    weight = model.params["w"]
    wanted = 2 * weight**2 * FLOATS
    np.testing.assert_allclose(trainer.predict(FLOATS), wanted, rtol=1e-6)
    trainer.update([FLOATS], [np.zeros(3, "float32")])
    (found,) = trainer.export_params().values()
    slope = 2 / 3 * wanted * 2 * weight * FLOATS
    np.testing.assert_allclose(found, weight - 0.1 * slope, rtol=1e-5)


def alias_of_outside() -> list[Node]:
    """With `no_grad`: `d = y.detach()`, which is y's memory."""
    detached = Node("aten.detach.default", {"self": Y}, ("d",))
    inner = without_gradients(detached, given=[Y], results=[D], names=["d"])
    return [PRODUCT, inner, Node("aten.mul_.Tensor", {"self": D, "other": 2.0}, ("written",))]


def alias_of_inside() -> list[Node]:
    """With `no_grad`: `r = x * w; d = r.view(3)`, then r takes the place of y."""
    product = Node("aten.mul.Tensor", PRODUCT.arguments, ("r",))
    view = Node("aten.view.default", {"self": R, "size": [3]}, ("d",))
    inner = without_gradients(product, view, given=[X, W], results=[R, D], names=["y", "d"])
    return [inner, Node("aten.mul_.Tensor", {"self": D, "other": 2.0}, ("written",))]


@pytest.mark.parametrize("nodes", [alias_of_outside(), alias_of_inside()], ids=["y", "r"])
def test_what_a_region_without_gradients_gives_shares_its_memory(nodes: list[Node]) -> None:
    scaled = Node("aten.mul.Tensor", {"self": Y, "other": W}, ("z",))
    model = model_of([*nodes, scaled])
    trainer = model.trainer(MSELoss(), SGD(0.1))
    wanted = 2 * FLOATS * model.params["w"] ** 2
    np.testing.assert_allclose(trainer.predict(FLOATS), wanted, rtol=1e-6)


def test_a_buffer_is_written_to_as_it_is() -> None:
    """Running means have no gradient that would have to be kept."""
    scaled = Node("aten.mul_.Tensor", {"self": OLD, "other": 0.5}, ("written",))
    inner = without_gradients(scaled, given=[OLD], results=[Ref("written")])
    result = Node("aten.add.Tensor", {"self": Y, "other": OLD}, ("z",))
    text = model_of([PRODUCT, inner, result]).mod.script()
    assert "no_grad" not in text
    assert "isfinite" not in text


def test_what_is_written_to_a_buffer_has_no_gradient() -> None:
    """With `no_grad`: `old.copy_(y)`, as a running mean is, and then `z = y * old`."""
    copied = Node("aten.copy_.default", {"self": OLD, "src": Y}, ("written",))
    inner = without_gradients(copied, given=[OLD, Y], results=[Ref("written")])
    result = Node("aten.mul.Tensor", {"self": Y, "other": OLD}, ("z",))
    model = model_of([PRODUCT, inner, result])
    trainer = model.trainer(MSELoss(), SGD(0.1))
    trainer.update([FLOATS], [np.zeros(3, "float32")])
    (found,) = trainer.export_params().values()
    weight = model.params["w"]
    y = weight * FLOATS
    slope = 2 / 3 * y * y * y * FLOATS
    np.testing.assert_allclose(found, weight - 0.1 * slope, rtol=1e-5)


def test_a_reentrant_checkpoint_is_an_error() -> None:
    """PyTorch exports it without gradients, which it has there."""
    inside = replace(ROUND, is_reentrant=True, span=Span("net.py", 7))
    region = without_gradients(inside, given=[Y], results=[R], names=["r"])
    result = Node("aten.add.Tensor", {"self": Y, "other": R}, ("z",))
    with pytest.raises(TorchImportError, match=r"use_reentrant=True is exported .* and so is all"):
        model_of([PRODUCT, region, result])
    nested = without_gradients(region, given=[Y], results=[Ref("r")], names=["r"])
    with pytest.raises(TorchImportError, match="export the model with use_reentrant=False"):
        model_of([PRODUCT, nested, result])


def test_a_model_all_of_which_is_without_gradients_trains_nothing() -> None:
    region = without_gradients(PRODUCT, given=[X, W], results=[Y], names=["z"])
    with pytest.raises(TorchImportError, match=r"nothing to train: no output .* torch\.no_grad"):
        model_of([region]).trainer(MSELoss(), SGD(0.1))
    model_of([replace(PRODUCT, results=("z",))]).trainer(MSELoss(), SGD(0.1))


def test_a_model_without_parameters_is_not_told_to_have_gradients() -> None:
    graph = Graph(
        (X,), (Node("aten.relu.default", {"self": X}, ("z",)),), (Z,), {"z": META, "x": META}
    )
    program = TorchProgram(
        "net", graph, (Input("user", X),), (Output("user", Z),), {}, {}, frozenset()
    )
    with pytest.raises(ValueError, match="an optimizer needs at least one parameter"):
        imported(program).trainer(MSELoss(), SGD(0.1))
