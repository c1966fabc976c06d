"""Training deep models as loops over their layers: parameters and optimizer on stacks."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.passes.structure.roll_blocks import rolled_function

from .stacked_params import Place, Stacking, rows_of, stacking_of, with_stacks
from .update import Update, function_of, tensor_type, unpacked

RollOption: TypeAlias = bool | Literal["auto"]

_FEWEST = 2

# Measured on CPUs: from here on a loop takes 0.85 to 1.1 of the time of the layers one by one, and
# is compiled sooner (`python benchmarks/depth.py --layers 4 12 --without jax`, and the suite's GPT
# of 4 layers). Small layers lose by it longer: six of a product, a bias and a GELU take 1.17.
_FEWEST_AUTO = 4
_FEWEST_CALLS = 72


def check_roll_option(option: object) -> None:
    if not isinstance(option, bool) and option != "auto":
        raise ValueError(f'`roll_blocks` must be True, False or "auto", found {option!r}')


def with_rolled_blocks(
    mod: IRModule, names: Sequence[str], first: int, count: int, option: RollOption
) -> tuple[IRModule, Stacking]:
    """The module with functions rolled, the first of which says which parameters are stacks.

    Where nothing of it can be rolled over stored stacks, it is the very module.
    """
    apart = Stacking(count, ())
    if option is False:
        return mod, apart
    is_auto = option == "auto"
    fewest, accept = (_FEWEST_AUTO, _pays) if is_auto else (_FEWEST, _is_as_fast)
    rolled = {name: rolled_function(mod[name], fewest, accept) for name in names}
    stacking = stacking_of(rolled[names[0]], first, count)
    if not stacking.groups:
        return mod, apart
    changed = {name: with_stacks(f, first, stacking) for name, f in rolled.items()}
    return mod.with_functions(changed), stacking


def _is_as_fast(segment: Sequence[Binding], count: int) -> bool:
    """Whether a loop may be: a convolution inside of one is many times slower on CPUs."""
    calls = [binding.value for binding in segment if isinstance(binding.value, Call)]
    return not any(isinstance(call.op, Op) and "conv" in call.op.name for call in calls)


def _pays(segment: Sequence[Binding], count: int) -> bool:
    calls = [binding for binding in segment if isinstance(binding.value, Call)]
    return count * len(calls) >= _FEWEST_CALLS and _is_as_fast(segment, count)


def update_of_stacks(update: Update, params: Sequence[Var], stacking: Stacking) -> Update:
    """An update of stacked parameters by one of the parameters themselves.

    So no optimizer can tell the difference: its masks go by the user's names, its norms by layer.
    """
    given = (
        Var("params", _stacked_types(update.param_types, stacking)),
        Var("gradients", _stacked_types(update.gradient_types, stacking)),
        Var("optim_states", update.function.params[2].ty),
    )
    names = [param.name for param in params]
    builder = BlockBuilder()
    with builder.function("optimizer", list(given)):
        with builder.dataflow():
            values = _apart(builder, given[0], names, stacking)
            gradients = _apart(builder, given[1], [f"{name}_grad" for name in names], stacking)
            states = unpacked(builder, given[2])
            new, new_states = update.emit(builder, values, gradients, states)
            results = (
                builder.emit_output(_together(builder, new, stacking), "params_new"),
                builder.emit_output(new_states, "optim_states_new"),
            )
        builder.emit_func_output(results)
    return Update(function_of(builder, "optimizer"), update.state, update.names)


def _stacked_types(types: Sequence[TensorType], stacking: Stacking) -> TupleType:
    rows = [Var("row", ty) for ty in types]
    return TupleType(tuple(tensor_type(var) for var in stacking.stacked_vars(rows)))


def _apart(
    builder: BlockBuilder, packed: Var, names: Sequence[str], stacking: Stacking
) -> list[Expr]:
    """The parameters themselves, of a tuple of arrays."""
    fields = unpacked(builder, packed)
    rows: dict[Place, Expr] = {}
    for array, numbers in enumerate(stacking.arrays):
        if numbers in stacking.groups:
            found = rows_of(builder, fields[array], [names[n] for n in numbers])
            rows |= {(array, row): value for row, value in enumerate(found)}
        else:
            rows[array, None] = fields[array]
    return [rows[place] for place in stacking.places]


def _together(builder: BlockBuilder, values: Sequence[Expr], stacking: Stacking) -> list[Expr]:
    """The arrays, of the parameters themselves."""
    stack = get_op("relax.stack")
    return [
        builder.emit(stack([values[n] for n in numbers], axis=0))
        if numbers in stacking.groups
        else values[numbers[0]]
        for numbers in stacking.arrays
    ]
