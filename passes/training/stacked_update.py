"""An update of stacked parameters by one that knows the parameters themselves."""

from collections.abc import Sequence
from dataclasses import replace

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.trainable.storage import Storage

from .stack_layers import rows_of, stacked_vars
from .update import Update, function_of, tensor_type, unpacked


def update_of_stacks(update: Update, params: Sequence[Var], storage: Storage) -> Update:
    """An update of stacked parameters by one of the parameters themselves.

    So no optimizer can tell the difference: its masks go by the user's names, its norms by layer.
    """
    given = (
        Var("params", _stacked_types(update.param_types, storage)),
        Var("gradients", _stacked_types(update.gradient_types, storage)),
        Var("optim_states", update.function.params[2].ty),
    )
    names = [param.name for param in params]
    builder, loss = BlockBuilder(), update.loss
    with builder.function("optimizer", [*given, *loss]):
        with builder.dataflow():
            values = _apart(builder, given[0], names, storage)
            gradients = _apart(builder, given[1], [f"{name}_grad" for name in names], storage)
            states = unpacked(builder, given[2])
            new, new_states = update.emit(builder, values, gradients, states, loss)
            results = (
                builder.emit_output(_together(builder, new, storage), "params_new"),
                builder.emit_output(new_states, "optim_states_new"),
            )
        builder.emit_func_output(results)
    return replace(update, function=function_of(builder, "optimizer"))


def _stacked_types(types: Sequence[TensorType], storage: Storage) -> TupleType:
    rows = [Var("row", ty) for ty in types]
    return TupleType(tuple(tensor_type(var) for var in stacked_vars(rows, storage)))


def _apart(
    builder: BlockBuilder, packed: Var, names: Sequence[str], storage: Storage
) -> list[Expr]:
    """The parameters themselves, of a tuple of arrays."""
    found: dict[int, Expr] = {}
    stacks = storage.stacks
    for array, rows in zip(unpacked(builder, packed), storage.members, strict=True):
        if rows in stacks:
            values = rows_of(builder, array, [names[n] for n in rows])
            found |= dict(zip(rows, values, strict=True))
        else:
            found[rows[0]] = array
    return [found[number] for number in range(len(names))]


def _together(builder: BlockBuilder, values: Sequence[Expr], storage: Storage) -> list[Expr]:
    """The arrays, of the parameters themselves."""
    stack, stacks = get_op("relax.stack"), storage.stacks
    return [
        builder.emit(stack([values[n] for n in rows], axis=0))
        if rows in stacks
        else values[rows[0]]
        for rows in storage.members
    ]
