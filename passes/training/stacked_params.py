"""Parameters of equal layers stored as stacks: one loop runs over them, and nothing is copied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import map_bindings, substitute, used_vars

from .opening import with_opening
from .update import tensor_type

# Where a parameter is: the number of its array, and the row there, or None for an array of its own.
Place = tuple[int, int | None]


@dataclass(frozen=True)
class Stacking:
    """Which of the parameters share an array: groups of their numbers, each the rows of one."""

    count: int
    groups: tuple[tuple[int, ...], ...]

    @property
    def arrays(self) -> list[tuple[int, ...]]:
        """The parameters of every array; a stack stands where its first row stood."""
        first = {group[0]: group for group in self.groups}
        rows = {number for group in self.groups for number in group}
        return [first.get(n, (n,)) for n in range(self.count) if n in first or n not in rows]

    @property
    def places(self) -> list[Place]:
        """Where each of the parameters is."""
        found: dict[int, Place] = {}
        for array, numbers in enumerate(self.arrays):
            is_stack = numbers in self.groups
            found |= {n: (array, row if is_stack else None) for row, n in enumerate(numbers)}
        return [found[number] for number in range(self.count)]

    def stacked_vars(self, params: Sequence[Var]) -> list[Var]:
        """Variables for the arrays."""
        return [
            stack_var([params[n] for n in numbers])
            if numbers in self.groups
            else params[numbers[0]]
            for numbers in self.arrays
        ]


def stacking_of(function: Function, first: int, count: int) -> Stacking:
    """The parameters that a function uses in no other way than all together as one stack."""
    numbers = {param: n for n, param in enumerate(function.params[first : first + count])}
    uses: dict[Var, int] = {}
    groups = []
    for binding in function.body.bindings():
        for var in used_vars(binding.value):
            uses[var] = uses.get(var, 0) + 1
        column = _column(binding.value)
        if column and all(var in numbers for var in column) and len(set(column)) == len(column):
            groups.append(column)
    once = [column for column in groups if all(uses[var] == 1 for var in column)]
    return Stacking(count, tuple(tuple(numbers[var] for var in column) for column in once))


def with_stacks(function: Function, first: int, stacking: Stacking) -> Function:
    """A function that takes stacks in the place of the parameters from `first` on."""
    last = first + stacking.count
    params = function.params[first:last]
    arrays = stacking.stacked_vars(params)
    stacks = {
        tuple(params[n] for n in numbers): array
        for numbers, array in zip(stacking.arrays, arrays, strict=True)
        if numbers in stacking.groups
    }
    body = _without_stacking(function.body, stacks)
    used = set(used_vars(body))
    apart = {column: var for column, var in stacks.items() if not used.isdisjoint(column)}
    body = with_opening(function, body, lambda builder: _rows(builder, apart)) if apart else body
    given = (*function.params[:first], *arrays, *function.params[last:])
    return make_function(
        given, body, ret_ty=function.ret_ty, pure=function.pure, attrs=function.attrs
    )


def stack_var(rows: Sequence[Var]) -> Var:
    """A variable for the stack of some parameters."""
    ty = tensor_type(rows[0])
    stacked = TensorType((len(rows), *(ty.dims or ())), ty.dtype, vdevice=ty.vdevice)
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
    changed = substitute(kept, made)
    assert isinstance(changed, SeqExpr)
    return changed


def _rows(builder: BlockBuilder, stacks: Mapping[tuple[Var, ...], Var]) -> dict[Var, Expr]:
    rows: dict[Var, Expr] = {}
    for column, stack in stacks.items():
        names = [var.name for var in column]
        rows |= dict(zip(column, rows_of(builder, stack, names), strict=True))
    return rows
