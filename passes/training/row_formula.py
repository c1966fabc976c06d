"""What an optimizer does to a table of which few rows have a gradient, as its function says it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import same_dims
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.passes.simplification.tensors import number_of

PARAMS, GRADIENTS, STATES = range(3)
Input: TypeAlias = tuple[int, int]  # which of the three tuples, and the field


class Added(IntEnum):
    """What is added to an input, as the rows of the gradient say it."""

    NOTHING = 0
    LINEAR = 1  # of a sum of rows it is the sum
    OTHER = 2  # zero where the gradient is zero


@dataclass(frozen=True)
class Form:
    """A value that is an input and what is added to it; the input is None for zero."""

    base: Input | None
    added: Added


@dataclass(frozen=True)
class _Operand:
    """What a call takes: a form, or None for one that is of neither kind; `fills` is one number."""

    form: Form | None
    fills: bool = False


@dataclass(frozen=True)
class TableUpdate:
    """How a table is updated, number by number.

    `values` are the variables as large as the table, and `states` the fields of the state. Where it
    `is_exact`, rows without a gradient stay as they are, and where it `is_linear`, nothing but a
    multiple of the gradient is added to the table.
    """

    number: int
    values: frozenset[Var]
    states: tuple[int, ...]
    is_exact: bool
    is_linear: bool


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
        forms, squares = self._forms(values), False
        for var in values:
            squares |= self._check_uses(var, values, forms)
        new, states = self._new(number, values)
        exact = all(_stays(forms.get(var), own) for own, var in new.items())
        param = forms.get(new[PARAMS, number])
        linear = exact and not squares and param is not None and param.added <= Added.LINEAR
        for state in states:
            form = forms.get(new[STATES, state])
            linear = linear and form is not None and form.added is Added.NOTHING
        return TableUpdate(number, frozenset(values), states, exact, linear)

    def _values(self, number: int, ty: TensorType) -> list[Var]:
        """What is computed with a table number by number, in order."""
        own = {(PARAMS, number), (GRADIENTS, number)}
        found = {var: None for var, one in self.inputs.items() if one in own}
        waiting = list(found)
        while waiting:
            for var in self._beside(waiting.pop(), ty):
                if var not in found:
                    found[var] = None
                    waiting.append(var)
        return [var for var in self.known.bindings if var in found]

    def _beside(self, var: Var, ty: TensorType) -> Iterator[Var]:
        """The variables of a table's shape in the same elementwise calls."""
        for user in (var, *self.known.users_of(var)):
            call = self.known.value(user)
            if not _is_elementwise(call) or not _has_shape(user, ty):
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

    def _forms(self, values: Sequence[Var]) -> dict[Var, Form | None]:
        forms: dict[Var, Form | None] = {}
        for var in values:
            if var in self.inputs:
                is_gradient = self.inputs[var][0] == GRADIENTS
                given = Form(self.inputs[var], Added.NOTHING)
                forms[var] = Form(None, Added.LINEAR) if is_gradient else given
                continue
            call = self.known.value(var)
            if not isinstance(call, Call) or not _is_elementwise(call):
                raise NotByRowsError(f"makes `{var.name}` by {_named(call)} for the whole table")
            forms[var] = form_of(call, [self._operand(arg, forms) for arg in call.args])
        return forms

    def _operand(self, arg: Expr, forms: dict[Var, Form | None]) -> _Operand:
        if isinstance(arg, Var) and arg in forms:
            return _Operand(forms[arg])
        number = number_of(arg, self.known)
        if number is None:
            raise NotByRowsError(f"takes `{arg}` of type {arg.ty} beside it")
        is_zero = getattr(getattr(number, "data", None), "item", lambda: None)() == 0
        return _Operand(Form(None, Added.NOTHING) if is_zero else None, fills=True)

    def _check_uses(self, var: Var, values: Sequence[Var], forms: dict[Var, Form | None]) -> bool:
        """Whether a value is summed, and more than a multiple of the gradient."""
        squares = False
        for user in self.known.users_of(var):
            if user in forms or user in self.tuples:
                continue
            call, form = self.known.value(user), forms[var]
            if not _is_whole_sum(call):
                raise NotByRowsError(f"takes all rows at once, by {_named(call)}")
            if form is None or form.base is not None:
                raise NotByRowsError(f"adds up rows that no gradient is for, by {_named(call)}")
            squares |= form.added is Added.OTHER
        return squares

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


def form_of(call: Call, operands: Sequence[_Operand]) -> Form | None:
    """The form of the result of an elementwise call, None for one that has none."""
    assert isinstance(call.op, Op)
    name, forms = call.op.name, [operand.form for operand in operands]
    first = forms[0] if forms else None
    if name in _CHOICES:
        return _chosen(operands)
    if name in _PRODUCTS:
        return _product(operands, divides=name in _QUOTIENTS)
    if name in _SUMS and None not in forms:
        return _sum([form for form in forms if form is not None], name in _DIFFERENCES)
    if first is None:
        return None
    same = call.ty == call.args[0].ty
    if name in _CASTS and (same or first.base is None):
        return first
    if first.base is not None:
        return None
    if name in _SIGNS:
        return first
    if name in _ZERO_AT_ZERO or (name == "lax.integer_pow" and call.attrs["y"] > 0):
        return Form(None, Added.OTHER)
    return None


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


def _sum(forms: Sequence[Form], is_difference: bool) -> Form | None:
    """Nothing but one input may have a place in a sum, and in a difference the first."""
    bases = [form.base for form in forms]
    if None not in bases or (is_difference and bases[1] is not None):
        return None
    return Form(next((base for base in bases if base is not None), None), _most(forms))


def _product(operands: Sequence[_Operand], divides: bool) -> Form | None:
    """What is zero without a gradient times anything is so, for numbers that are finite."""
    for own, other in ((0, 1),) if divides else ((0, 1), (1, 0)):
        form = operands[own].form
        if form is not None and form.base is None:
            return form if operands[other].fills else Form(None, Added.OTHER)
    return None


def _chosen(operands: Sequence[_Operand]) -> Form | None:
    """One of two values that are the same input without a gradient."""
    condition, *choices = operands
    forms = [choice.form for choice in choices if choice.form is not None]
    if len(forms) < len(choices) or len({form.base for form in forms}) > 1:
        return None
    return Form(forms[0].base, _most(forms) if condition.fills else Added.OTHER)


def _most(forms: Sequence[Form]) -> Added:
    return max(form.added for form in forms)


def _stays(form: Form | None, own: Input) -> bool:
    """Whether a value is that of an input where there is no gradient."""
    return form is not None and form.base == own


def _is_elementwise(value: Expr | None) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    is_moved = "moves" in value.op.facts or "value" in value.op.facts
    return value.op.fusion in ("elementwise", "broadcast") and not is_moved


def _has_shape(expr: Expr, ty: TensorType) -> bool:
    return isinstance(expr.ty, TensorType) and same_dims(expr.ty.dims, ty.dims)


def _is_whole_sum(value: Expr | None) -> bool:
    """Whether it is a sum over all axes, as one number."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    is_sum = value.op.name in ("relax.sum", "lax.reduce_sum")
    return is_sum and isinstance(value.ty, TensorType) and value.ty.ndim == 0


def _named(value: Expr | None) -> str:
    if isinstance(value, Call) and isinstance(value.op, Op):
        return value.op.name
    return f"`{value}`"
