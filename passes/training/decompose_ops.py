"""Operators in their training form, and spelt out in simpler ones.

What an operator becomes is its own affair: the rules `training_form` and `decompose` of its
declaration say it, in a user's operator as in ours.
"""

from collections.abc import Sequence

from relaxjax.ir.dataflow import without_dataflow
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import DataflowBlock, Function, If, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments, operator_of
from relaxjax.ir.walk import post_order
from relaxjax.ops.platform import asked_for_platform, made_for
from relaxjax.passes.infrastructure.base import pass_factory

from .random_keys import takes_key, with_keys


@pass_factory(opt_level=0)
def MutateOpsForTraining(mod: IRModule) -> IRModule:
    """Turn operators into their training form: batch_norm takes the statistics of the batch.

    A function that calls an operator which draws random numbers in training, such as dropout, takes
    a random key as a last parameter more, and returns a new one as its last result; so does every
    function that calls it. Each call draws other numbers, and each step of a loop by R.scan.
    """
    return _mutated(mod, list(mod.relax_functions()))


@pass_factory(opt_level=0, kind="function")
def DecomposeOps(function: Function, mod: IRModule) -> Function:
    """Spell composite operators out in simpler ones, as they behave in inference."""
    return expand_calls(function, _decomposition)


@pass_factory(opt_level=0)
def DecomposeOpsForInference(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Decompose operators for inference, in one function or in all."""
    return _decomposed(mod, _chosen(mod, func_name))


@pass_factory(opt_level=0)
def DecomposeOpsForTraining(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Mutate operators into their training form, then decompose them, in one function or in all."""
    return for_training(mod, _chosen(mod, func_name))


def for_training(mod: IRModule, names: Sequence[str]) -> IRModule:
    """The module with operators of the named functions mutated for training, then decomposed."""
    with asked_for_platform() as platforms:
        return made_for(_decomposed(_mutated(mod, names), names), platforms)


def has_training_form(function: Function) -> bool:
    """Whether a function calls operators that behave differently in training."""
    operators = map(operator_of, post_order(function))
    return any(one is not None and _is_mutated(one) for one in operators)


def _is_mutated(op: Op) -> bool:
    """Whether an operator has another form in training; closures have one for Gradient only."""
    return op.training_form is not None and not op.facts.get("higher_order")


def _mutated(mod: IRModule, names: Sequence[str]) -> IRModule:
    plain = {name: without_dataflow(mod[name], _makes_choices) for name in names}
    forms = {name: expand_calls(plain[name], _training_form) for name in names}
    return with_keys(mod.with_functions(forms), names)


def _decomposed(mod: IRModule, names: Sequence[str]) -> IRModule:
    return mod.with_functions({name: expand_calls(mod[name], _decomposition) for name in names})


def _makes_choices(block: DataflowBlock) -> bool:
    """Whether calls in a block become choices between branches, which may not stand in such."""
    values = (binding.value for binding in block.bindings)
    forms = (_training_form(value) for value in values if isinstance(value, Call))
    parts = (form.bindings() for form in forms if isinstance(form, SeqExpr))
    return any(isinstance(binding.value, If) for part in parts for binding in part)


def _training_form(call: Call) -> Expr | None:
    if not isinstance(call.op, Op) or not _is_mutated(call.op) or takes_key(call):
        return None
    assert call.op.training_form is not None
    args, attrs = arguments(call)
    return call.op.training_form(*args, **attrs)


def _decomposition(call: Call) -> Expr | None:
    if not isinstance(call.op, Op) or call.op.decompose is None:
        return None
    args, attrs = arguments(call)
    return call.op.decompose(*args, **attrs)


def _chosen(mod: IRModule, func_name: str | None) -> list[str]:
    """One function, or all of them; an unknown name is an error."""
    if func_name is None:
        return list(mod.relax_functions())
    if not isinstance(mod[func_name], Function):
        raise ValueError(f"`{func_name}` is no Relax function: it has no body to decompose")
    return [func_name]
