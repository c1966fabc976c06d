"""An exported program of PyTorch as plain data: nodes, their arguments, and what is whose."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.span import Span

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Ref:
    """A value of the graph, a tensor or a number, by its name."""

    name: str


@dataclass(frozen=True)
class SubGraph:
    """A graph as an argument: the body of an operator of higher order."""

    graph: "Graph"


# What a node is given: a reference, a number, a text, None, a graph, or a list of these.
Argument: TypeAlias = Any


@dataclass(frozen=True)
class TensorMeta:
    """What torch says of a tensor. A size is a number, or the text of an expression of SymPy.

    `example` and `strides` are those of the tensors that it was exported with, and so is `offset`,
    the place of its first element in memory; -1 where unknown.
    """

    dtype: str
    sizes: tuple[int | str, ...]
    example: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    device: str = "cpu"
    offset: int = 0


@dataclass(frozen=True)
class Node:
    """One call of an operator, with its arguments by the names of torch's schema.

    `results` are the names that it gives; a list of tensors gives a tuple of names. `is_reentrant`
    is of what `torch.utils.checkpoint(..., use_reentrant=True)` runs, `is_of_function` of what the
    `forward` of a `torch.autograd.Function` does.
    """

    target: str
    arguments: Mapping[str, Argument]
    results: tuple[str | tuple[str, ...] | None, ...]
    span: Span | None = None
    is_reentrant: bool = False
    is_of_function: bool = False


@dataclass(frozen=True)
class Graph:
    inputs: tuple[Argument, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Argument, ...]
    tensors: Mapping[str, TensorMeta]


@dataclass(frozen=True)
class Input:
    """What an input of the graph is: "parameter", "buffer", "constant", or the user's, "user".

    `target` is the name of a parameter, buffer or constant in the module of torch.
    """

    kind: str
    argument: Argument
    target: str = ""
    persistent: bool = True


@dataclass(frozen=True)
class Output:
    """What a result of the graph is: the user's, "user", or what the buffer `target` becomes."""

    kind: str
    argument: Argument
    target: str = ""


@dataclass(frozen=True)
class TorchProgram:
    """A program with its weights. `ranges` are the least and greatest values of its symbols.

    One that is `decomposed` went through `run_decompositions`, and lacks what that forgets.
    """

    name: str
    graph: Graph
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    weights: Mapping[str, Array]
    constants: Mapping[str, Array]
    trained: frozenset[str] = field(default_factory=frozenset)
    ranges: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    torch_version: str = ""
    decomposed: bool = False

    def of_kind(self, kind: str) -> Sequence[Input]:
        return [one for one in self.inputs if one.kind == kind]


def nodes_of(graph: Graph) -> Iterator[tuple[Node, Mapping[str, TensorMeta]]]:
    """The nodes of a graph and of those inside of it, each with what is known of its tensors."""
    for node in graph.nodes:
        yield node, graph.tensors
        for argument in node.arguments.values():
            if isinstance(argument, SubGraph):
                yield from nodes_of(argument.graph)
