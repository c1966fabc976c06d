"""What an optimizer does to a table of which few rows have a gradient, as its function says it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op, operator_name
from relaxjax.ir.reached import reached
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.types import TensorType, TupleType, is_float
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import same_dims
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.passes.simplification.tensors import fill, is_elementwise, number_of

from .update import HALF

PARAMS, GRADIENTS, STATES = range(3)
Input: TypeAlias = tuple[int, int]  # which of the three tuples, and the field


class Added(IntEnum):
    """What is added to an input: from nothing to what is not zero without a gradient either."""

    NOTHING = 0
    LINEAR = 1  # for a sum of gradients it is the sum
    ZERO_AT_ZERO = 2  # zero where the gradient is zero
    ANY = 3


@dataclass(frozen=True)
class Form:
    """A value that is an input and what is added to it; the input is None for zero."""

    base: Input | None
    added: Added


@dataclass(frozen=True)
class _Operand:
    """What a call takes; one number fills a tensor that `is_one_number`."""

    form: Form
    is_one_number: bool = False


_ANY = Form(None, Added.ANY)


@dataclass(frozen=True)
class TableUpdate:
    """How a table is updated, number by number.

    `values` are the variables as large as the table, and `states` the fields of the state. Where it
    `is_exact`, rows without a gradient stay as they are, states included. `added` are the table and
    states that something is added to, whatever they are. Where it `is_linear`, that is a multiple
    of the gradient, whose rows may come one after the other; half precision would lose small ones.
    """

    number: int
    values: frozenset[Var]
    states: tuple[int, ...]
    is_exact: bool
    is_linear: bool
    added: frozenset[Input]


class NotByRowsError(ValueError):
    """The update of a table takes more than its rows one by one; the message says what."""


class OptimizerFunction:
    """The function of an optimizer, read: its inputs by variable, its results by field."""

    def __init__(self, function: Function) -> None:
        self.function = remove_all_unused(canonical_bindings(function))
        self.known = Uses.of(self.function)
        groups = {param: group for group, param in enumerate(self.function.params)}
        self.inputs: dict[Var, Input] = {
            var: (groups[value.tuple_value], value.index)
            for var, value in self.known.values.items()
            if isinstance(value, TupleGetItem)
            and isinstance(value.tuple_value, Var)
            and value.tuple_value in groups
        }
        body = self.function.body.body
        assert isinstance(body, Tuple)
        self.results = tuple(self._fields(field) for field in body.fields)
        self.tuples = frozenset(field for field in body.fields if isinstance(field, Var))

    def _fields(self, value: Expr) -> tuple[Expr, ...]:
        found = value if isinstance(value, Tuple) else self.known.value(value)
        return found.fields if isinstance(found, Tuple) else ()

    def update_of(self, number: int) -> TableUpdate:
        """How a parameter is updated; an error where that takes more than single rows."""
        types = self.function.params[PARAMS].ty
        assert isinstance(types, TupleType)
        ty = types.fields[number]
        assert isinstance(ty, TensorType)
        values = self._values(number, ty)
        self._check_inputs(number, values)
        forms, read = self._forms(values)
        sums = [form for var in values for form in self._summed(var, forms)]
        squares = _most(sums) > Added.LINEAR
        new, states = self._new(number, values)
        kept = {one: forms[var] for one, var in new.items() if forms[var].base == one}
        added = frozenset(kept.keys() - read)
        return TableUpdate(
            number,
            frozenset(values),
            states,
            len(kept) == len(new) and _most(kept.values()) <= Added.ZERO_AT_ZERO,
            added == new.keys()
            and _most(kept.values()) <= Added.LINEAR
            and not squares
            and ty.dtype not in HALF,
            added,
        )

    def _values(self, number: int, ty: TensorType) -> list[Var]:
        """What is computed with a table number by number, in order."""
        own = {(PARAMS, number), (GRADIENTS, number)}
        inputs = (var for var, one in self.inputs.items() if one in own)
        found = set(reached(inputs, lambda var: self._beside(var, ty)))
        return [var for var in self.known.bindings if var in found]

    def _beside(self, var: Var, ty: TensorType) -> Iterator[Var]:
        """The variables of a table's shape in the same elementwise calls."""
        for user in (var, *self.known.users_of(var)):
            call = self.known.value(user)
            if not is_elementwise(call) or not _has_shape(user, ty):
                continue
            assert isinstance(call, Call)
            for other in (user, *call.args):
                if not isinstance(other, Var) or not _has_shape(other, ty):
                    continue
                if number_of(other, self.known) is None:
                    yield other

    def _check_inputs(self, number: int, values: Sequence[Var]) -> None:
        for var in values:
            group, index = self.inputs.get(var, (STATES, 0))
            if group != STATES and index != number:
                raise NotByRowsError(f"takes `{var.name}`, too")

    def _forms(self, values: Sequence[Var]) -> tuple[dict[Var, Form], set[Input]]:
        """The forms of values, and the inputs that more is computed of than sums."""
        forms: dict[Var, Form] = {}
        read: set[Input] = set()
        for var in values:
            if var in self.inputs:
                is_gradient = self.inputs[var][0] == GRADIENTS
                given = Form(self.inputs[var], Added.NOTHING)
                forms[var] = Form(None, Added.LINEAR) if is_gradient else given
                continue
            call = self.known.value(var)
            if not isinstance(call, Call) or not is_elementwise(call):
                raise NotByRowsError(f"makes something for all rows at once, by {_named(call)}")
            operands = [self._operand(arg, forms) for arg in call.args]
            forms[var] = form_of(call, operands)
            taken = {operand.form.base for operand in operands} - {forms[var].base}
            read |= {base for base in taken if base is not None}
        return forms, read

    def _operand(self, arg: Expr, forms: Mapping[Var, Form]) -> _Operand:
        if isinstance(arg, Var) and arg in forms:
            return _Operand(forms[arg])
        number = number_of(arg, self.known)
        if number is None:
            raise NotByRowsError(f"takes `{arg}` of type {arg.ty} beside it")
        is_zero = fill(number, self.known) == 0
        return _Operand(Form(None, Added.NOTHING) if is_zero else _ANY, is_one_number=True)

    def _summed(self, var: Var, forms: Mapping[Var, Form]) -> Iterator[Form]:
        """The forms that are added up to one number, by the uses of a value."""
        for user in self.known.users_of(var):
            if user in forms or user in self.tuples:
                continue
            call, form = self.known.value(user), forms[var]
            if not _is_whole_sum(call):
                raise NotByRowsError(f"takes all rows at once, by {_named(call)}")
            if form.base is not None or form.added is Added.ANY:
                raise NotByRowsError(f"adds up rows that no gradient is for, by {_named(call)}")
            yield form

    def _new(self, number: int, values: Sequence[Var]) -> tuple[dict[Input, Var], tuple[int, ...]]:
        """The new values of what is as large as the table, and which states that are."""
        taken = {self.inputs[var] for var in values if var in self.inputs}
        new: dict[Input, Var] = {}
        for group, fields in ((PARAMS, self.results[0]), (STATES, self.results[1])):
            for index, field in enumerate(fields):
                if (group, index) not in taken and field not in values:
                    continue
                if not isinstance(field, Var) or field not in values:
                    raise NotByRowsError(f"gives `{field}` instead of single rows")
                new[group, index] = field
        if (PARAMS, number) not in new:
            raise NotByRowsError("gives what is not made of its rows")
        if any(group == PARAMS and index != number for group, index in new):
            raise NotByRowsError("makes another parameter of it, too")
        return new, tuple(index for group, index in new if group == STATES)


def form_of(call: Call, operands: Sequence[_Operand]) -> Form:
    """The form of the result of an elementwise call."""
    assert isinstance(call.op, Op)
    name, forms = call.op.name, [operand.form for operand in operands]
    if name in _CHOICES:
        return _chosen(operands)
    if name in _PRODUCTS:
        return _product(operands, divides=name in _QUOTIENTS)
    if name in _SUMS:
        return _sum(forms, is_difference=name in _DIFFERENCES)
    first = forms[0] if forms else _ANY
    is_cast = name in _CASTS and isinstance(call.ty, TensorType) and is_float(call.ty.dtype)
    keeps_base = is_cast and call.ty == call.args[0].ty
    if keeps_base or (first.base is None and (is_cast or name in _SIGNS)):
        return first
    is_power = name == "lax.integer_pow" and call.attrs["y"] > 0
    if first.base is None and (is_power or name in _ZERO_AT_ZERO):
        return Form(None, max(first.added, Added.ZERO_AT_ZERO))
    return _ANY


_DIFFERENCES = {"relax.subtract", "lax.sub"}
_SUMS = {"relax.add", "lax.add", "lax.add_any", *_DIFFERENCES}
_QUOTIENTS = {"relax.divide", "lax.div"}
_PRODUCTS = {"relax.multiply", "lax.mul", *_QUOTIENTS}
_CHOICES = {"relax.where", "lax.select_n"}
_CASTS = {"relax.astype", "lax.convert_element_type"}
_SIGNS = {"relax.negative", "lax.neg"}
_ZERO_AT_ZERO = {
    f"{dialect}.{name}"
    for dialect in ("relax", "lax")
    for name in ("abs", "square", "sqrt", "sign", "tanh")
}


def _sum(forms: Sequence[Form], is_difference: bool) -> Form:
    """Nothing but one input may have a place in a sum, and in a difference the first."""
    bases = [form.base for form in forms]
    if None not in bases or (is_difference and bases[1] is not None):
        return _ANY
    return Form(next((base for base in bases if base is not None), None), _most(forms))


def _product(operands: Sequence[_Operand], divides: bool) -> Form:
    """What is zero without a gradient times anything is so, for numbers that are finite."""
    for own, other in ((0, 1),) if divides else ((0, 1), (1, 0)):
        form = operands[own].form
        if form.base is None and form.added < Added.ANY:
            is_multiple = operands[other].is_one_number
            return form if is_multiple else Form(None, Added.ZERO_AT_ZERO)
    return _ANY


def _chosen(operands: Sequence[_Operand]) -> Form:
    """One of two values that are the same input without a gradient."""
    condition, *choices = operands
    forms = [choice.form for choice in choices]
    if len({form.base for form in forms}) > 1:
        return _ANY
    least = Added.NOTHING if condition.is_one_number else Added.ZERO_AT_ZERO
    return Form(forms[0].base, max(least, _most(forms)))


def _most(forms: Collection[Form]) -> Added:
    return max((form.added for form in forms), default=Added.NOTHING)


def _has_shape(expr: Expr, ty: TensorType) -> bool:
    return isinstance(expr.ty, TensorType) and same_dims(expr.ty.dims, ty.dims)


def _is_whole_sum(value: Expr | None) -> bool:
    """Whether it is a sum over all axes, as one number."""
    is_sum = operator_name(value) in ("relax.sum", "lax.reduce_sum")
    return is_sum and value is not None and known_ndim(value) == 0


def _named(value: Expr | None) -> str:
    return operator_name(value) or f"`{value}`"
