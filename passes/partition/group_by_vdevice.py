"""Grouping what runs on one device, so that it is compiled as one program there."""

from relaxjax.ir.expr import Call, Var
from relaxjax.ir.function import Binding, BindingBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import operator_name
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import dataflow_blocks
from relaxjax.passes.infrastructure.base import pass_factory

from .grouping import Group, group_name, may_be_grouped, outlined
from .regions import connected_regions
from .relocation import MOVE


@pass_factory(opt_level=0)
def GroupByVDevice(mod: IRModule) -> IRModule:
    """Group neighbouring operators of one device into private functions, compiled one by one there.

    A function whose values are on several devices runs operator by operator, since no compiled
    program spans them; groups make it few programs. Which device a value is on its type says, as
    RealizeVDevice and RewriteAnnotatedOps leave it.
    """
    return outlined(mod, _groups)


def _groups(function: Function) -> list[Group]:
    return [
        Group(region, group_name(region), {"Primitive": True})
        for block in dataflow_blocks(function)
        for region in connected_regions(block.bindings, _labels(block))
        if len(region) > 1
    ]


def _labels(block: BindingBlock) -> dict[Var, str]:
    """The device of each operator's result."""
    devices: dict[Var, str] = {}
    for binding in block.bindings:
        device = _device(binding)
        if device is not None:
            devices[binding.var] = device
    return devices


def _device(binding: Binding) -> str | None:
    """Where a call of an operator is computed, None for what may not be grouped."""
    moves = isinstance(binding.value, Call) and operator_name(binding.value) == MOVE
    if moves or not may_be_grouped(binding) or not isinstance(binding.var.ty, TensorType):
        return None
    return binding.var.ty.vdevice
