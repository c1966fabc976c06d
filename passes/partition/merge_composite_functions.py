"""Gathering composite functions into the regions that a backend compiles."""

from relaxjax.ir.builder import Names
from relaxjax.ir.expr import Var
from relaxjax.ir.function import BindingBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.walk import dataflow_blocks
from relaxjax.passes.infrastructure.base import pass_factory

from .composites import backend_of, codegen_function, composite_called, without_uncalled_composites
from .grouping import Group, group_name, outlined
from .regions import connected_regions


@pass_factory(opt_level=0)
def MergeCompositeFunctions(mod: IRModule) -> IRModule:
    """Gather neighbouring calls of composite functions for one backend into one region.

    The region is a public function with the attribute `Codegen`, in which the composite functions
    are closures. Regions are as big as they can be without one needing itself by way of something
    outside of it.
    """
    merged = outlined(mod, lambda function: _groups(mod, function))
    return mod if merged is mod else without_uncalled_composites(merged)


def _groups(mod: IRModule, function: Function) -> list[Group]:
    return [group for block in dataflow_blocks(function) for group in _in_block(mod, block)]


def _in_block(mod: IRModule, block: BindingBlock) -> list[Group]:
    labels: dict[Var, str] = {}
    for binding in block.bindings:
        composite = composite_called(mod, binding.value)
        if composite is not None:
            labels[binding.var] = backend_of(composite.attrs["Composite"])
    groups = []
    for region in connected_regions(block.bindings, labels):
        backend = labels[region[0].var]

        def finish(function: Function, name: str, backend: str = backend) -> Function:
            return codegen_function(mod, function, name, backend)

        # The name of a lone composite function is taken by itself, as TVM has it.
        name = Names(list(mod)).unique(group_name(region))
        groups.append(Group(region, f"{name}_{backend}", finish=finish))
    return groups
