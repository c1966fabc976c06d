"""Which dtype floats have that are made of none, which a file does not say."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .aten.promotion import OF_FLOATS, default_dtype, kind_of
from .program import Graph, Node, Ref, TensorMeta, nodes_of


def default_of(graph: Graph) -> str:
    """The dtype of a float that a node gives which is given no float and no dtype.

    Where there is no such node, it makes no difference.
    """
    for node, metas in nodes_of(graph):
        found = _made_of_none(node, metas)
        if found is not None:
            return found
    return default_dtype()


def _made_of_none(node: Node, metas: Mapping[str, TensorMeta]) -> str | None:
    if not node.target.startswith("aten.") or node.arguments.get("dtype") is not None:
        return None
    given = (one.name for one in _flat(node.arguments.values()) if isinstance(one, Ref))
    if any(kind_of(metas[name].dtype) >= OF_FLOATS for name in given if name in metas):
        return None
    found = [metas[name].dtype for name in _flat(node.results) if name in metas]
    return next((dtype for dtype in found if kind_of(dtype) == OF_FLOATS), None)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for one in values:
        if isinstance(one, list | tuple):
            yield from _flat(one)
        else:
            yield one
