"""A whole training step as one function."""

from collections.abc import Sequence
from contextlib import nullcontext

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TupleType, is_key
from relaxjax.ir.walk import global_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.trainable.arguments import Arguments, required_function
from relaxjax.trainable.names import ADJOINT, OPTIMIZER, TRAIN_STEP

from .loss_scale import SKIPPED
from .update import cast, loss_of, tensor_type, unpacked

_FEWEST_RESULTS = 4  # the loss, and what a step makes new


@pass_factory(opt_level=0)
def FuseTrainStep(mod: IRModule, outputs: bool = False) -> IRModule:
    """Add `train_step`, a whole step in one function: forward, backward and update.

    It calls `backbone_loss_adjoint` and `optimizer`, and has the signature

        train_step(params, states, optim_states, *inputs, *targets)
            -> (loss, new params, new states, new optim_states)

    in which parameters, model states and the optimizer's state are tuples. With `outputs`, what the
    function with the loss returns between the loss and the states is a tuple behind them.
    SetupTrainer applies it.
    """
    arguments = Arguments.of(mod, ADJOINT)
    optimizer = required_function(mod, OPTIMIZER)
    optim_states, asked = Var("optim_states", optimizer.params[2].ty), loss_of(optimizer)
    params, states = _tuple("params", arguments.params), _tuple("states", arguments.states)
    inputs, targets = _renewed(arguments.inputs), _renewed(arguments.targets)
    builder = BlockBuilder(mod.without_functions(TRAIN_STEP) if TRAIN_STEP in mod else mod)
    pure = mod[ADJOINT].pure
    given_params = [params, states, optim_states, *inputs, *targets]
    with builder.function(TRAIN_STEP, given_params, pure=pure):
        with builder.dataflow() if pure else nullcontext():
            old = unpacked(builder, states, [var.name for var in arguments.states])
            values = unpacked(builder, params, [var.name for var in arguments.params])
            given = [*inputs, *values, *old, *targets]
            if arguments.scale is not None:
                scale = builder.emit(optim_states[0], "loss_scale")
                given.append(cast(scale, tensor_type(arguments.scale).dtype or "float32"))
            result = builder.emit(Call(mod.get_global_var(ADJOINT), tuple(given)), "result")
            gradients = builder.emit(result[1], "gradients")
            found = builder.emit(result[0], "outputs")
            loss, others, new = _loss_and_states(builder, found, len(old))
            of_loss = [cast(loss, tensor_type(var).dtype or "float32") for var in asked]
            taken = (params, gradients, optim_states, *of_loss)
            update = Call(mod.get_global_var(OPTIMIZER), taken)
            updated = builder.emit(update, "updated")
            if arguments.scale is not None:
                new = _kept(builder, updated, optim_states, new, old)
            emit = builder.emit_output if pure else builder.emit
            results = [
                emit(loss, "loss"),
                emit(updated[0], "params_new"),
                emit(new, "states_new"),
                emit(updated[1], "optim_states_new"),
            ]
            if outputs:
                results.append(emit(others, "others"))
        builder.emit_func_output(tuple(results))
    return builder.get()


def with_calls(mod: IRModule) -> IRModule:
    """The module whose step calls the adjoint and the optimizer, as before UpdateInLoops."""
    step = mod[TRAIN_STEP]
    if any(var.name == ADJOINT for var in global_vars(step)):
        return mod
    results = step.ret_ty
    assert isinstance(results, TupleType)
    return FuseTrainStep(len(results.fields) > _FEWEST_RESULTS)(mod)


def _tuple(name: str, group: Sequence[Var]) -> Var:
    return Var(name, TupleType(tuple(tensor_type(var) for var in group)))


def _renewed(group: Sequence[Var]) -> list[Var]:
    return [Var(var.name, var.ty) for var in group]


def _loss_and_states(
    builder: BlockBuilder, outputs: Expr, states: int
) -> tuple[Expr, list[Expr], list[Expr]]:
    """The loss, what is neither, and the new model states, of what the loss function returns."""
    if not isinstance(outputs.ty, TupleType):
        return outputs, [], []
    fields = unpacked(builder, outputs)
    first = len(fields) - states
    return fields[0], fields[1:first], fields[first:]


def _kept(
    builder: BlockBuilder, updated: Expr, optim_states: Expr, new: list[Expr], old: list[Expr]
) -> list[Expr]:
    """The model states after a step: those of before where loss scaling left the step out.

    Random keys move on in any case.
    """
    before = builder.emit(optim_states[SKIPPED], "skipped")
    after = builder.emit(builder.emit(updated[1])[SKIPPED], "skipped_new")
    taken = builder.emit(get_op("relax.equal")(before, after), "taken")
    where = get_op("relax.where")
    return [
        state if is_key(tensor_type(state).dtype) else builder.emit(where(taken, state, previous))
        for state, previous in zip(new, old, strict=True)
    ]
