"""An update of stacked parameters by one that knows the parameters themselves."""

from collections.abc import Sequence
from dataclasses import replace

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.trainable.storage import Storage

from .stack_layers import rows_of, stacked_vars
from .update import Update, tensor_type, unpacked, written_update


def update_of_stacks(update: Update, params: Sequence[Var], storage: Storage) -> Update:
    """An update of stacked parameters by one of the parameters themselves.

    So no optimizer can tell the difference: its masks go by the user's names, its norms by layer.
    """
    names, loss = [param.name for param in params], update.loss

    def write(builder: BlockBuilder, *given: Var) -> tuple[list[Expr], list[Expr]]:
        values = _apart(builder, given[0], names, storage)
        gradients = _apart(builder, given[1], [f"{name}_grad" for name in names], storage)
        states = unpacked(builder, given[2])
        new, new_states = update.emit(builder, values, gradients, states, loss)
        return _together(builder, new, storage), new_states

    stacks = [_stacked_types(ty, storage) for ty in (update.param_types, update.gradient_types)]
    types = stacks[0], stacks[1], update.state_types
    return replace(update, function=written_update(types, loss, write))


def _stacked_types(types: Sequence[TensorType], storage: Storage) -> list[TensorType]:
    rows = [Var("row", ty) for ty in types]
    return list(map(tensor_type, stacked_vars(rows, storage)))


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
