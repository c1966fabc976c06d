"""A training step that holds images as they are computed fastest."""

from relaxjax.ir.module import IRModule
from relaxjax.lowering.selection import with_called
from relaxjax.lowering.traits import reachable
from relaxjax.passes.layout.channels_last import ChannelsLast


def with_channels_last(mod: IRModule, trained: str, kept: str, kernel_layout: str) -> IRModule:
    """The module with `trained` as ChannelsLast has it, and without what only it had called.

    What `kept` calls stays as it is.
    """
    before = with_called(mod, [trained])
    after = ChannelsLast(kernel_layout=kernel_layout)(before)
    if after is before:
        return mod
    changed = mod.with_function(trained, after[trained])
    used = {name for root in (trained, kept) for name, _ in reachable(changed, root)}
    called = set(before.relax_functions())
    return changed.without_functions(*(called - used))
