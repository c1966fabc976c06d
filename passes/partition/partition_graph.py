"""Taking marked regions out of a program, into functions for their backends."""

from collections.abc import Sequence

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.walk import map_blocks, nested_bindings
from relaxjax.passes.infrastructure.base import pass_factory

from .classes import Classes
from .composites import codegen_function, without_uncalled_composites
from .grouping import Group, group_name, outlined
from .marks import BEGIN, END, Unmarked, mark_of, without_marks


@pass_factory(opt_level=0)
def PartitionGraph(mod: IRModule) -> IRModule:
    """Take each marked region out, into a public function with the attribute `Codegen`.

    Composite functions that a region calls become closures inside it. A region with several
    results that are needed outside gives a tuple.
    """
    plain: list[Unmarked] = []
    functions = mod.relax_functions().items()
    unmarked = mod.with_functions({name: _unmarked(f, plain) for name, f in functions})
    if unmarked is mod:
        return mod
    regions = {region[0].var: (item, region) for item in plain for region in _regions(item)}

    def groups_of(function: Function) -> Sequence[Group]:
        own = {b.var for b in nested_bindings(function)}
        return [_group(unmarked, *regions[var]) for var in regions if var in own]

    return without_uncalled_composites(outlined(unmarked, groups_of))


def _unmarked(function: Function, plain: list[Unmarked]) -> Function:
    """`function` without marks; what they said in each block is added to `plain`."""

    def unmark(block: BindingBlock) -> BindingBlock:
        marks = any(mark_of(b.value, BEGIN, END) is not None for b in block.bindings)
        if not marks or not isinstance(block, DataflowBlock):
            return block
        plain.append(without_marks(block))
        return replace(block, bindings=plain[-1].bindings)

    return map_blocks(function, unmark)


def _group(mod: IRModule, plain: Unmarked, region: Sequence[Binding]) -> Group:
    compiler = plain.compilers[region[0].var]

    def finish(function: Function, name: str) -> Function:
        return codegen_function(mod, function, name, compiler)

    return Group(tuple(region), f"{group_name(region)}_{compiler}", finish=finish)


def _regions(plain: Unmarked) -> list[list[Binding]]:
    """The marked values of a block, those together that take each other without a mark."""
    classes = Classes[Var]()
    for one, other in plain.joined:
        classes.join(one, other)
    regions: dict[Var, list[Binding]] = {}
    for binding in plain.bindings:
        if binding.var in plain.compilers:
            regions.setdefault(classes.leader(binding.var), []).append(binding)
    return list(regions.values())
