"""Passes that leave a note or raise, for tests of what is around passes."""

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.context import PassContext
from relaxjax.passes.infrastructure.decorators import module_pass


@module_pass(opt_level=1, name="Noted")
def NOTED(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod.with_attr("noted", True)


@module_pass(opt_level=0, name="Broken")
def BROKEN(mod: IRModule, ctx: PassContext) -> IRModule:
    raise ArithmeticError("broken")
