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
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.walk import post_order
from relaxjax.ops.platform import asked_for_platform, made_for
from relaxjax.passes.base import pass_factory

from .random_keys import takes_key, with_keys


@pass_factory(opt_level=0)
def MutateOpsForTraining(mod: IRModule) -> IRModule:
    """Turn operators into their training form: batch_norm takes the statistics of the batch.

    A function that calls an operator which draws random numbers in training, such as dropout, takes
    a random key as a last parameter more, and returns a new one as its last result; so does every
    function that calls it. Each call draws other numbers, and each step of a loop by R.scan.

    Before:

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                pair = R.nn.dropout(x, rate=0.5)
                y = pair[0]
                R.output(y)
            return y

    After `MutateOpsForTraining()`:

        @R.function
        def main(
            x: R.Tensor((3,), "float32"), key: R.Tensor((), "key<fry>")
        ) -> R.Tuple(R.Tensor((3,), "float32"), R.Tensor((), "key<fry>")):
            with R.dataflow():
                lv = R.random.fold_in(key, 0)
                lv1 = R.random.bernoulli(lv, 0.5, (3,))
                lv2 = R.where(lv1, R.const(2.0, "float32"), R.const(0.0, "float32"))
                lv3 = R.multiply(x, lv2)
                pair = (lv3, lv2)
                y = pair[0]
                key_new = R.random.fold_in(key, 1)
                R.output(y, key_new)
            return (y, key_new)
    """
    return _mutated(mod, list(mod.relax_functions()))


@pass_factory(opt_level=0, kind="function")
def DecomposeOps(function: Function, mod: IRModule) -> Function:
    """Spell composite operators out in simpler ones, as they behave in inference.

    Before:

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            gamma: R.Tensor((3,), "float32"),
            beta: R.Tensor((3,), "float32"),
            mean: R.Tensor((3,), "float32"),
            var: R.Tensor((3,), "float32"),
        ) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                normal = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)
                y = normal[0]
                R.output(y)
            return y

    After `DecomposeOps()`:

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            gamma: R.Tensor((3,), "float32"),
            beta: R.Tensor((3,), "float32"),
            mean: R.Tensor((3,), "float32"),
            var: R.Tensor((3,), "float32"),
        ) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                lv = R.subtract(x, mean)
                lv1 = R.add(var, R.const(1e-05, "float32"))
                lv2 = R.sqrt(lv1)
                lv3 = R.divide(lv, lv2)
                lv4 = R.multiply(lv3, gamma)
                lv5 = R.add(lv4, beta)
                normal = (lv5, mean, var)
                y = normal[0]
                R.output(y)
            return y
    """
    return expand_calls(function, _decomposition)


@pass_factory(opt_level=0)
def DecomposeOpsForInference(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Decompose operators for inference, in one function or in all.

    Before:

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            gamma: R.Tensor((3,), "float32"),
            beta: R.Tensor((3,), "float32"),
            mean: R.Tensor((3,), "float32"),
            var: R.Tensor((3,), "float32"),
        ) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                normal = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)
                y = normal[0]
                R.output(y)
            return y

    After `DecomposeOpsForInference("main")`:

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            gamma: R.Tensor((3,), "float32"),
            beta: R.Tensor((3,), "float32"),
            mean: R.Tensor((3,), "float32"),
            var: R.Tensor((3,), "float32"),
        ) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                lv = R.subtract(x, mean)
                lv1 = R.add(var, R.const(1e-05, "float32"))
                lv2 = R.sqrt(lv1)
                lv3 = R.divide(lv, lv2)
                lv4 = R.multiply(lv3, gamma)
                lv5 = R.add(lv4, beta)
                normal = (lv5, mean, var)
                y = normal[0]
                R.output(y)
            return y
    """
    return _decomposed(mod, _chosen(mod, func_name))


@pass_factory(opt_level=0)
def DecomposeOpsForTraining(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Mutate operators into their training form, then decompose them, in one function or in all.

    Before:

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            gamma: R.Tensor((3,), "float32"),
            beta: R.Tensor((3,), "float32"),
            mean: R.Tensor((3,), "float32"),
            var: R.Tensor((3,), "float32"),
        ) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                normal = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)
                y = normal[0]
                R.output(y)
            return y

    After `DecomposeOpsForTraining("main")`:

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            gamma: R.Tensor((3,), "float32"),
            beta: R.Tensor((3,), "float32"),
            mean: R.Tensor((3,), "float32"),
            var: R.Tensor((3,), "float32"),
        ) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                lv = R.mean(x, axis=[0])
                lv1 = R.variance(x, axis=[0])
                lv10 = R.subtract(x, lv)
                lv11 = R.add(lv1, R.const(1e-05, "float32"))
                lv12 = R.sqrt(lv11)
                lv13 = R.divide(lv10, lv12)
                lv14 = R.multiply(lv13, gamma)
                lv15 = R.add(lv14, beta)
                lv2 = (lv15, lv, lv1)
                lv3 = lv2[0]
                lv4 = R.multiply(R.const(0.9, "float32"), mean)
                lv5 = R.multiply(R.const(0.1, "float32"), lv)
                lv6 = R.add(lv4, lv5)
                lv7 = R.multiply(R.const(0.9, "float32"), var)
                lv8 = R.multiply(R.const(0.1, "float32"), lv1)
                lv9 = R.add(lv7, lv8)
                normal = (lv3, lv6, lv9)
                y = normal[0]
                R.output(y)
            return y
    """
    return for_training(mod, _chosen(mod, func_name))


def for_training(mod: IRModule, names: Sequence[str]) -> IRModule:
    """The module with operators of the named functions mutated for training, then decomposed."""
    with asked_for_platform() as platforms:
        return made_for(_decomposed(_mutated(mod, names), names), platforms)


def has_training_form(function: Function) -> bool:
    """Whether a function calls operators that behave differently in training."""
    return any(
        isinstance(expr, Call) and isinstance(expr.op, Op) and _is_mutated(expr.op)
        for expr in post_order(function)
    )


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
