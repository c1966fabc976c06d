"""The order of the bindings in dataflow blocks."""

from collections import deque
from collections.abc import Sequence
from typing import Literal, TypeAlias

from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Var
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function, MatchCast, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.walk import (
    definable_symbols,
    expr_symbols,
    free_vars,
    kept,
    map_sequences,
    type_symbols,
    type_vars,
)
from relaxjax.passes.infrastructure.base import pass_factory

# What is put in order: bindings by their index, what they use from outside, and the end.
Item: TypeAlias = "int | Var | None"
END = None


@pass_factory(opt_level=0, kind="function")
def TopologicalSort(
    function: Function,
    mod: IRModule,
    order: Literal["depth-first", "breadth-first"] = "depth-first",
    direction: Literal["from-inputs", "from-outputs"] = "from-inputs",
) -> Function:
    """Put the bindings of each dataflow block in the order in which a walk comes by them.

    Args:
        order: whether the walk goes on from the last binding, or all that are ready come first.
        direction: whether the walk starts at what the block is given, or at its outputs.
    """
    for name, given, known in (("order", order, _ORDERS), ("direction", direction, _DIRECTIONS)):
        if given not in known:
            raise ValueError(f"`{name}` must be {known[0]!r} or {known[1]!r}, found {given!r}")
    params = {param: index for index, param in enumerate(function.params)}

    def change(seq: SeqExpr) -> SeqExpr:
        pairs = zip(seq.blocks, _used_after(seq), strict=True)
        blocks = [_sorted(block, params, used, order, direction) for block, used in pairs]
        return replace(seq, blocks=kept(seq.blocks, blocks))

    return map_sequences(function, change)


_ORDERS = ("depth-first", "breadth-first")
_DIRECTIONS = ("from-inputs", "from-outputs")


def _used_after(seq: SeqExpr) -> list[list[Var]]:
    """For each block, what of it the blocks behind it and the result use, in order of use."""
    home = {b.var: place for place, block in enumerate(seq.blocks) for b in block.bindings}
    found: list[dict[Var, None]] = [{} for _ in seq.blocks]
    values = [(at, b.value) for at, block in enumerate(seq.blocks) for b in block.bindings]
    for place, value in (*values, (len(seq.blocks), seq.body)):
        for var in free_vars(value):
            if home.get(var, place) != place:
                found[home[var]].setdefault(var)
    return [list(used) for used in found]


def _sorted(
    block: BindingBlock, params: dict[Var, int], later: Sequence[Var], order: str, direction: str
) -> BindingBlock:
    if not isinstance(block, DataflowBlock):
        return block
    needs = _needs(block, later)
    inputs = [item for item in needs if isinstance(item, Var)]
    inputs.sort(key=lambda var: params.get(var, len(params)))
    items: list[Item] = [*inputs, *range(len(block.bindings)), END]
    nexts: dict[Item, list[Item]] = {item: [] for item in items}
    for other in items:
        for item in needs[other]:
            nexts[item].append(other)
    if direction == "from-outputs":
        needs, nexts = nexts, needs
    start = [item for item in items if not needs[item]]
    if direction == "from-outputs" and order == "breadth-first":
        start.sort(key=lambda item: item is not END)
    found = _walked(start, needs, nexts, order, direction)
    indices = [item for item in found if isinstance(item, int)]
    return replace(block, bindings=kept(block.bindings, (block.bindings[i] for i in indices)))


def _walked(
    start: list[Item],
    needs: dict[Item, list[Item]],
    nexts: dict[Item, list[Item]],
    order: str,
    direction: str,
) -> list[Item]:
    """All items, each after those that it needs, in the order of the walk."""
    deep, backward = order == "depth-first", direction == "from-outputs"
    done: dict[Item, None] = {}
    missing = {item: len(needed) for item, needed in needs.items()}
    waiting = deque(start[::-1] if deep and not backward else start)
    while waiting:
        item = waiting.pop() if deep else waiting.popleft()
        done[item] = None
        for other in nexts[item]:
            missing[other] -= 1
        ready = [other for other in nexts[item] if not missing[other]]
        waiting += ready[::-1] if deep and not backward else ready
    return list(done)[::-1] if backward else list(done)


def _needs(block: DataflowBlock, later: Sequence[Var]) -> dict[Item, list[Item]]:
    """What each binding of a block uses, and what is used behind it; inputs need nothing."""
    index = {binding.var: i for i, binding in enumerate(block.bindings)}
    casts = {
        symbol: i
        for i, binding in reversed(list(enumerate(block.bindings)))
        if isinstance(binding, MatchCast)
        for symbol in definable_symbols(binding.ty)
    }
    needs: dict[Item, list[Item]] = {}
    for i, binding in enumerate(block.bindings):
        own: list[Item] = [index.get(var, var) for var in _used(binding)]
        own += [casts[s] for s in _symbols(binding) if s in casts and casts[s] < i]
        needs[i] = list(dict.fromkeys(own))
        for item in needs[i]:
            needs.setdefault(item, [])
    needs[END] = list(dict.fromkeys(index[var] for var in later if var in index))
    return needs


def _used(binding: Binding) -> list[Var]:
    mentioned = (*free_vars(binding.value), *type_vars(binding.var.ty))
    return [var for var in mentioned if var is not binding.var]


def _symbols(binding: Binding) -> tuple[SymbolicVar, ...]:
    return (*expr_symbols(binding.value), *type_symbols(binding.var.ty))
