"""Functions of torch.autograd: what PyTorch exports of them may lack gradients that they have."""

import warnings
from dataclasses import replace

import pytest
from torch_graphs import PRODUCT, R, X, Y, model_of, without_gradients

from relaxjax.ir.span import Span
from relaxjax.torch import TorchImportError
from relaxjax.torch.functions import warn_of_functions
from relaxjax.torch.program import Graph, Node, Ref

SPAN = Span("twice.py", 4)
TWICE = Node("aten.mul.Tensor", {"self": Y, "other": 2.0}, ("r",), SPAN, is_of_function=True)
PLAIN = replace(TWICE, is_of_function=False)
RESULT = Node("aten.mul.Tensor", {"self": R, "other": X}, ("z",))


def test_a_region_that_a_function_begins_is_an_error() -> None:
    region = without_gradients(TWICE, given=[Y], results=[R], names=["r"])
    with pytest.raises(
        TorchImportError, match=r"Function is exported without .*`backward`"
    ) as found:
        model_of([PRODUCT, region, RESULT])
    assert "twice.py:4" in "".join(found.value.__notes__)
    inner = without_gradients(replace(TWICE, span=None), given=[Y], results=[R], names=["r"])
    outer = without_gradients(
        inner,
        replace(TWICE, arguments={"self": R, "other": 2.0}),
        given=[Y],
        results=[R],
        names=["r"],
    )
    with pytest.raises(TorchImportError, match="all that follows it may be; in PyTorch it has"):
        model_of([PRODUCT, outer, RESULT])


def test_a_function_inside_of_a_region_of_the_users_is_read() -> None:
    """It has no gradient in PyTorch either."""
    again = replace(TWICE, arguments={"self": R, "other": 2.0}, results=("d",))
    region = without_gradients(PLAIN, again, given=[Y], results=[Ref("d")], names=["d"])
    model_of([PRODUCT, region, replace(RESULT, arguments={"self": Ref("d"), "other": X})])
    model_of([PRODUCT, without_gradients(given=[], results=[], names=[]), PLAIN, RESULT])


def test_a_function_that_detaches_is_an_error() -> None:
    detached = Node("aten.detach.default", {"self": Y}, ("r",), SPAN, is_of_function=True)
    with pytest.raises(TorchImportError, match=r"detaches here, which .* has the value y and the"):
        model_of([PRODUCT, detached, RESULT])


def graph(*nodes: Node) -> Graph:
    return Graph((), nodes, (), {})


def test_other_functions_are_warned_of_by_their_lines() -> None:
    with pytest.warns(UserWarning, match=r"Function, of twice\.py:4, is not in what PyTorch"):
        warn_of_functions(graph(TWICE, TWICE, PLAIN))
    many = [replace(TWICE, span=Span("twice.py", line)) for line in range(1, 6)]
    with pytest.warns(UserWarning, match=r"twice\.py:1, twice\.py:2, twice\.py:3, and 2 more, is"):
        warn_of_functions(graph(*many))


def test_a_program_without_functions_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_functions(graph(PLAIN, PRODUCT))
