"""Parameters of equal layers stored as stacks: one loop runs over them, and nothing is copied."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import TensorType, same_type
from relaxjax.ir.walk import map_bindings, substitute, used_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.structure.roll_blocks import rolled_function
from relaxjax.trainable.arguments import Arguments, count_of
from relaxjax.trainable.names import BACKBONE, BACKBONE_LOSS, INPUT_NUM
from relaxjax.trainable.storage import Storage, params_of, with_stored_params

from .prologue import with_prologue
from .update import tensor_type

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


@pass_factory(opt_level=0)
def StackLayers(mod: IRModule, roll_blocks: RollOption = "auto") -> IRModule:
    """Make layers of equal structure one loop, their parameters the rows of stacks.

    RollBlocks explains which layers are. `backbone_loss` and `backbone` take the stacks, and the
    attribute `stored_params` says where each parameter is; a Trainer has them one by one. "auto"
    does so where the loop was measured to be as fast: for four layers or more, of 72 operations or
    more together, without convolutions. True does so for two layers, and for convolutions, too:
    many of these start much sooner, and a step takes 1.0 to 1.3 of the time.
    """
    check_roll_option(roll_blocks)
    names = [name for name in (BACKBONE_LOSS, BACKBONE) if name in mod]
    arrays, first = Arguments.of(mod, BACKBONE_LOSS).params, count_of(mod, INPUT_NUM)
    changed, stacks = with_stacked_layers(mod, names, first, len(arrays), roll_blocks)
    if stacks.is_apart:
        return mod
    own, storage = params_of(mod, arrays)
    return with_stored_params(changed, [p.name for p in own], storage.stacked(stacks.stacks))


def with_stacked_layers(
    mod: IRModule, names: Sequence[str], first: int, count: int, option: RollOption
) -> tuple[IRModule, Storage]:
    """The module with functions rolled, the first of which says which parameters are stacks.

    Where nothing of it can be rolled over stored stacks, it is the very module.
    """
    apart = Storage.apart(count)
    if option is False:
        return mod, apart
    roll = partial(rolled_function, min_repeats=_FEWEST)
    if option == "auto":
        roll = partial(rolled_function, min_repeats=_FEWEST_AUTO, accept=_pays)
    rolled = {name: roll(mod[name]) for name in names}
    stacks = stacks_in(rolled[names[0]], rolled[names[0]].params[first : first + count])
    if stacks.is_apart:
        return mod, apart
    changed = {name: with_stacks(f, first, stacks) for name, f in rolled.items()}
    return mod.with_functions(changed), stacks


def _pays(segment: Sequence[Binding], count: int) -> bool:
    calls = [binding.value for binding in segment if isinstance(binding.value, Call)]
    convolved = any(isinstance(call.op, Op) and "conv" in call.op.name for call in calls)
    return count * len(calls) >= _FEWEST_CALLS and not convolved


def stacks_in(function: Function, params: Sequence[Var]) -> Storage:
    """The storage of the parameters where those are rows that are used all together as one stack.

    Used in another way, too, they stay by themselves.
    """
    numbers = {param: n for n, param in enumerate(params)}
    values = [binding.value for binding in function.body.bindings()]
    uses = Counter(var for value in values for var in used_vars(value))
    groups = []
    for column in map(_column, values):
        if column and all(var in numbers for var in column) and len(set(column)) == len(column):
            groups.append(column)
    once = [
        column
        for column in groups
        if all(uses[var] == 1 and same_type(var.ty, column[0].ty) for var in column)
    ]
    groups_of_numbers = [tuple(numbers[var] for var in column) for column in once]
    return Storage.apart(len(params)).stacked(groups_of_numbers)


def with_stacks(function: Function, first: int, storage: Storage) -> Function:
    """A function that takes stacks instead of the parameters from `first` on."""
    last = first + len(storage.places)
    params = function.params[first:last]
    arrays = stacked_vars(params, storage)
    stacks = {
        tuple(params[n] for n in rows): array
        for rows, array in zip(storage.members, arrays, strict=True)
        if rows in storage.stacks
    }
    body = _without_stacking(function.body, stacks)
    used = set(used_vars(body))
    apart = {column: var for column, var in stacks.items() if not used.isdisjoint(column)}
    body = with_prologue(function, body, lambda builder: _rows(builder, apart)) if apart else body
    given = (*function.params[:first], *arrays, *function.params[last:])
    return make_function(
        given, body, ret_ty=function.ret_ty, pure=function.pure, attrs=function.attrs
    )


def stacked_vars(params: Sequence[Var], storage: Storage) -> list[Var]:
    """Variables for the arrays, of those for the parameters."""
    stacks = storage.stacks
    return [
        _stack_var([params[n] for n in rows]) if rows in stacks else params[rows[0]]
        for rows in storage.members
    ]


def _stack_var(rows: Sequence[Var]) -> Var:
    """A variable for the stack of some parameters."""
    ty = tensor_type(rows[0])
    stacked = TensorType(
        (len(rows), *(ty.dims or ())),
        ty.dtype,
        vdevice=ty.vdevice,
        placement=None if ty.placement is None else ty.placement.behind(1),
    )
    return Var(f"{rows[0].name}_stack", stacked)


def rows_of(builder: BlockBuilder, stack: Expr, names: Sequence[str]) -> list[Var]:
    """The rows of a stack, each bound to a variable."""
    parts = builder.emit(get_op("relax.split")(stack, len(names), axis=0), "rows")
    squeeze = get_op("relax.squeeze")
    return [builder.emit(squeeze(TupleGetItem(parts, i), [0]), n) for i, n in enumerate(names)]


def _column(value: Expr) -> tuple[Var, ...]:
    """What a call stacks along a new first axis, if they are variables."""
    if not isinstance(value, Call) or value.op is not get_op("relax.stack"):
        return ()
    (fields,) = value.args
    if value.attrs["axis"] != 0 or not isinstance(fields, Tuple):
        return ()
    found = tuple(field for field in fields.fields if isinstance(field, Var))
    return found if len(found) == len(fields.fields) else ()


def _without_stacking(body: SeqExpr, stacks: Mapping[tuple[Var, ...], Var]) -> SeqExpr:
    """The body with the stacks that come in where it made them."""
    made = {b.var: stacks[c] for b in body.bindings() if (c := _column(b.value)) in stacks}
    kept = map_bindings(body, lambda b: None if b.var in made else b)
    return substitute(kept, made)


def _rows(builder: BlockBuilder, stacks: Mapping[tuple[Var, ...], Var]) -> dict[Var, Expr]:
    rows: dict[Var, Expr] = {}
    for column, stack in stacks.items():
        names = [var.name for var in column]
        rows |= dict(zip(column, rows_of(builder, stack, names), strict=True))
    return rows
