"""Graphs as PyTorch writes them, of a parameter and a buffer, with regions without gradients."""

from collections.abc import Sequence

import numpy as np

from relaxjax import ImportedModel
from relaxjax.torch.model import imported
from relaxjax.torch.program import (
    Graph,
    Input,
    Node,
    Output,
    Ref,
    SubGraph,
    TensorMeta,
    TorchProgram,
)

X, W, Y, D, R, Z, OLD = map(Ref, ("x", "w", "y", "d", "r", "z", "old"))
META = TensorMeta("float32", (3,), (3,), (1,), False)
PRODUCT = Node("aten.mul.Tensor", {"self": X, "other": W}, ("y",))
FLOATS = np.array([0.6, 1.4, 2.7], "float32")


def model_of(nodes: Sequence[Node]) -> ImportedModel:
    names = ("x", "w", "y", "d", "r", "z", "old", "written")
    metas = dict.fromkeys(names, META)
    graph = Graph((W, OLD, X), tuple(nodes), (Z,), metas)
    inputs = (Input("parameter", W, "w"), Input("buffer", OLD, "old"), Input("user", X))
    weights = {"w": np.array([1.2, 0.9, 0.4], "float32"), "old": FLOATS}
    outputs = (Output("user", Z),)
    return imported(TorchProgram("net", graph, inputs, outputs, weights, {}, frozenset(["w"])))


def without_gradients(
    *nodes: Node, given: Sequence[Ref], results: Sequence[Ref], names: Sequence[str] = ("written",)
) -> Node:
    metas = dict.fromkeys(("y", "r", "old", "d", "written"), META)
    graph = SubGraph(Graph(tuple(given), nodes, tuple(results), metas))
    arguments = {"enabled": False, "wrapped": graph}
    arguments |= {f"given{place}": one for place, one in enumerate(given)}
    return Node("higher_order.wrap_with_set_grad_enabled", arguments, tuple(names))
