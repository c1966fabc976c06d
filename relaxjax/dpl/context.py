"""Patterns as a graph: several values of a dataflow block at once, and how they hang together."""

from collections.abc import Iterator, Mapping, Sequence

from relaxjax.ir.expr import DataflowVar, Expr, Var
from relaxjax.ir.function import BindingBlock
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses, values_of
from relaxjax.ir.walk import used_vars

from .constraints import OPEN, Constraints, Edge, innermost
from .leaves import WildcardPattern
from .matching import Found, Matching
from .pattern import DFPattern


class PatternContext(Constraints):
    """What is written inside its `with` block is one graph of patterns.

    with PatternContext() as ctx:
        left = is_op("relax.matmul")(x, wildcard())
        right = is_op("relax.matmul")(x, wildcard())
    ctx.match_dfb(block)

    With `incremental` it begins with the graph of the context around it.
    """

    def __init__(self, incremental: bool = False) -> None:
        super().__init__()
        outer = innermost() if incremental else None
        if outer is not None:
            self.patterns.update(outer.patterns)
            self.edges += outer.edges
            self.same_shapes += outer.same_shapes

    def __enter__(self) -> "PatternContext":
        OPEN.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        OPEN.remove(self)

    @staticmethod
    def current() -> "PatternContext":
        """The innermost context whose block is open."""
        context = innermost()
        if not isinstance(context, PatternContext):
            raise ValueError("no context is open: write `with PatternContext() as ctx:`")
        return context

    def match_dfb(self, block: BindingBlock) -> dict[DFPattern, Expr] | None:
        """What the patterns stand for in a block, variables for what is bound; None if they do not.

        A pattern inside no other stands for a binding of its own, and so does one in a sequence.
        """
        return next(self.matches(block), None)

    def matches(self, block: BindingBlock) -> Iterator[dict[DFPattern, Expr]]:
        """Every way in which the patterns stand for what is in a block."""
        for matching in _GraphSearch(self, block).solutions():
            found = matching.found.items()
            yield Found((pattern, expr) for pattern, expr in found if not isinstance(expr, Op))


class _GraphSearch:
    """One search: the bindings of a block, and which of them uses which variable."""

    def __init__(self, graph: Constraints, block: BindingBlock) -> None:
        self.graph = graph
        self.values = values_of(block.bindings)
        self.known = Uses.of_block(block)
        inside = {part for pattern in graph.patterns for part in pattern.parts()}
        connected = {end for edge in graph.edges for end in (edge.producer, edge.consumer)}
        self.sought = [p for p in graph.patterns if p not in inside or p in connected]
        self.own = [p for p in graph.patterns if not isinstance(p, WildcardPattern)]

    def solutions(self) -> Iterator[Matching]:
        return self._extended(Matching(self.values), self.sought)

    def _extended(self, matching: Matching, sought: Sequence[DFPattern]) -> Iterator[Matching]:
        waiting = [pattern for pattern in sought if pattern not in matching.found]
        if not self._holds(matching):
            return
        if not waiting:
            yield matching
            return
        pattern, candidates = self._next(waiting, matching)
        others = [other for other in waiting if other is not pattern]
        for candidate in candidates:
            for extended in pattern.search(candidate, matching):
                yield from self._extended(extended, others)

    def _next(
        self, waiting: Sequence[DFPattern], matching: Matching
    ) -> tuple[DFPattern, Sequence[Var]]:
        """A pattern to look for, one beside what is found if there is any, and where to look."""
        for pattern in waiting:
            for edge in self.graph.edges:
                if edge.producer is pattern and edge.consumer in matching.found:
                    return pattern, used_vars(matching.value(matching.found[edge.consumer]))
                if edge.consumer is pattern and edge.producer in matching.found:
                    return pattern, self.known.users_of(matching.found[edge.producer])
        return waiting[0], list(self.values)

    def _holds(self, matching: Matching) -> bool:
        """Whether nothing that is found so far breaks a constraint."""
        found = matching.found
        own = [found[pattern] for pattern in self.own if pattern in found]
        bound = [var for var in own if isinstance(var, Var)]
        return (
            len(set(bound)) == len(bound)
            and all(self._edge_holds(edge, found) for edge in self.graph.edges)
            and all(_one_shape(group, found) for group in self.graph.same_shapes)
        )

    def _edge_holds(self, edge: Edge, found: Mapping[DFPattern, Expr]) -> bool:
        if edge.producer not in found or edge.consumer not in found:
            return True
        producer, consumer = found[edge.producer], found[edge.consumer]
        if not isinstance(producer, Var) or not isinstance(consumer, Var):
            return False
        value = self.values.get(consumer, consumer)
        args = getattr(value, "args", ())
        if edge.index >= 0:
            used = edge.index < len(args) and producer in used_vars(args[edge.index])
        else:
            used = producer in used_vars(value)
        return used and (not edge.only or self._used_by_graph_alone(edge.producer, found))

    def _used_by_graph_alone(self, producer: DFPattern, found: Mapping[DFPattern, Expr]) -> bool:
        """Whether only consumers in the graph, found or not yet, use a value."""
        var = found[producer]
        assert isinstance(var, Var)
        consumers = [edge.consumer for edge in self.graph.edges if edge.producer is producer]
        users = set(self.known.users_of(var))
        hidden = isinstance(var, DataflowVar) or var not in self.values
        known = {found[consumer] for consumer in consumers if consumer in found}
        unknown = sum(consumer not in found for consumer in consumers)
        return hidden and len(users - known) <= unknown


def _one_shape(group: Sequence[DFPattern], found: Mapping[DFPattern, Expr]) -> bool:
    types = [found[pattern].ty for pattern in group if pattern in found]
    shapes = [ty.dims if isinstance(ty, TensorType) else None for ty in types]
    return not shapes or (None not in shapes and len(set(shapes)) == 1)
