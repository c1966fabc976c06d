"""Marking what a backend is to compile, operator by operator."""

from collections.abc import Sequence

from relaxjax.backends import Backend, get_backend
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.walk import nested_blocks, used_vars
from relaxjax.passes.infrastructure.base import pass_factory

from .composites import backend_of, composite_called
from .grouping import OUTCOMES, may_be_grouped
from .marks import BEGIN, END, mark_of, marked, without_marks


@pass_factory(opt_level=0, kind="function")
def AnnotateTarget(function: Function, mod: IRModule, targets: str | Sequence[str]) -> Function:
    """Mark the operators in dataflow blocks that a backend supports, each as a region of its own.

    Where several backends support an operator the first one in `targets` takes it. Calls of
    composite functions go to the backend that their pattern names.

    Args:
        targets: the name of a backend, or several, the more wanted first.
    """
    if any(key in function.attrs for key in OUTCOMES):
        return function
    names = [targets] if isinstance(targets, str) else targets
    chosen = [get_backend(name) for name in names]
    marked_already = {
        var for block in nested_blocks(function) for var in without_marks(block).cores
    }

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        call = binding.value
        if not isinstance(call, Call) or not builder.current_block_is_dataflow():
            return None
        used = used_vars(call)
        compiler = _compiler_for(mod, binding, call, chosen)
        if compiler is None or not used or binding.var in marked_already:
            return None
        args = tuple(marked(BEGIN, arg, compiler) for arg in call.args)
        return marked(END, infer(replace(call, args=args, ty=None)), compiler)

    return expand_bindings(function, rule)


def _compiler_for(
    mod: IRModule, binding: Binding, call: Call, chosen: Sequence[Backend]
) -> str | None:
    """The backend that is to compile a call, if any of those chosen does."""
    composite = composite_called(mod, call)
    if composite is not None:
        wanted = backend_of(composite.attrs["Composite"])
        return wanted if any(backend.name == wanted for backend in chosen) else None
    if not may_be_grouped(binding) or mark_of(call, BEGIN, END) is not None:
        return None
    return next((backend.name for backend in chosen if backend.supports(call)), None)
