"""Operators in their training form, and spelt out in simpler ones.

What an operator becomes is its own affair: the rules `training_form` and `decompose` of its
declaration say it, in a user's operator as in ours.
"""

from collections.abc import Callable

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.passes.base import pass_factory

from .random_keys import takes_key, with_drawing_forms


@pass_factory(opt_level=0, kind="function")
def MutateOpsForTraining(function: Function, mod: IRModule) -> Function:
    """Turn operators into their training form: batch_norm takes the statistics of the batch.

    A function that calls an operator which draws random numbers in training, such as dropout, takes
    a random key as a last parameter more, and returns a new one as its last result.
    """
    return with_drawing_forms(expand_calls(function, _training_form))


@pass_factory(opt_level=0, kind="function")
def DecomposeOps(function: Function, mod: IRModule) -> Function:
    """Spell composite operators out in simpler ones, as they behave in inference."""
    return expand_calls(function, _decomposition)


@pass_factory(opt_level=0)
def DecomposeOpsForInference(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Decompose operators for inference, in one function or in all."""
    return _on_functions(mod, func_name, lambda f: expand_calls(f, _decomposition))


@pass_factory(opt_level=0)
def DecomposeOpsForTraining(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Mutate operators into their training form, then decompose them, in one function or in all."""
    return _on_functions(
        mod,
        func_name,
        lambda f: expand_calls(with_drawing_forms(expand_calls(f, _training_form)), _decomposition),
    )


def _training_form(call: Call) -> Expr | None:
    if not isinstance(call.op, Op) or call.op.training_form is None or takes_key(call):
        return None
    args, attrs = arguments(call)
    return call.op.training_form(*args, **attrs)


def _decomposition(call: Call) -> Expr | None:
    if not isinstance(call.op, Op) or call.op.decompose is None:
        return None
    args, attrs = arguments(call)
    return call.op.decompose(*args, **attrs)


def _on_functions(
    mod: IRModule, func_name: str | None, change: Callable[[Function], Function]
) -> IRModule:
    """The module with one function changed, or with all; an unknown name is an error."""
    if func_name is None:
        return mod.with_functions({n: change(f) for n, f in mod.relax_functions().items()})
    function = mod[func_name]
    if not isinstance(function, Function):
        raise ValueError(f"`{func_name}` is no Relax function: it has no body to decompose")
    return mod.with_function(func_name, change(function))
