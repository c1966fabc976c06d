"""What a pass context calls before and after each pass, where TVM has it."""

from typing import Any

from relaxjax.ir import IRModule
from relaxjax.passes import DumpIR as DumpIR
from relaxjax.passes import PassInfo as PassInfo
from relaxjax.passes import PassPrintingInstrument as PassPrintingInstrument
from relaxjax.passes import PassTimingInstrument as PassTimingInstrument
from relaxjax.passes import PrintAfterAll as PrintAfterAll
from relaxjax.passes import PrintBeforeAll as PrintBeforeAll
from relaxjax.passes import pass_instrument as pass_instrument
from relaxjax.passes.infrastructure.hooks import HOOKS


class _Instruments(type):
    """A class whose instances are all objects with a hook, whatever class they are of."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is not PassInstrument:
            return super().__instancecheck__(instance)
        return any(hasattr(instance, hook) for hook in HOOKS)


class PassInstrument(metaclass=_Instruments):
    """A base for instruments, which define what they need of the hooks.

    None has to have a base here; every instrument is an instance of it.
    """

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether the pass runs."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """`mod` is what the pass is given."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """`mod` is what the pass made."""
