"""The record that holds an operator's whole story."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from .arguments import by_name
from .attrs import Attrs
from .expr import Call, Expr
from .layout import LayoutRule
from .registry import OPERATORS, did_you_mean, enter, named_operator
from .types import ObjectType, TupleType, Type
from .wording import counted, quoted

# Counted from the back, so that it is the same for all tensors that broadcast. None stands for a
# factor that is one number.
Axis: TypeAlias = int | None


def _nowhere(call: Call, place: int, axis: Axis) -> None:
    return None


@dataclass(frozen=True)
class ScalingRule:
    """How a factor along one axis moves through the calls of an operator.

    `to_arguments`: the result times a factor along `axis` is the call on arguments times it. Each
    of several ways names the arguments, by their places, and the axis in each.
    `to_result`: a call on the argument at `place` times a factor is the result times it, along the
    axis that it gives.
    `to_partner`: a call on the argument at `place` times a factor is the call on another argument
    times it: its place, and the axis in it.
    Where `nonnegative` is set, this holds for factors that are not below 0.
    """

    to_arguments: Callable[[Call, Axis], Sequence[Mapping[int, Axis]]]
    to_result: Callable[[Call, int, Axis], tuple[Axis] | None] = _nowhere
    to_partner: Callable[[Call, int, Axis], tuple[int, Axis] | None] = _nowhere
    nonnegative: bool = False


class NoGradient(Enum):
    """The gradient of an operator whose derivative is zero wherever it exists, or that has none."""

    ZERO = "zero"


ZERO_GRADIENT = NoGradient.ZERO

InferRule = Callable[[Call], Type]
# What a gradient rule gives for an argument: its adjoint, None for no gradient, or a function that
# gives either, called where it is asked for: some arguments cannot be differentiated by.
Partial: TypeAlias = "Expr | Callable[[], Expr | None] | None"
# A gradient rule takes the adjoint of the result, the variable the result is bound to, then the
# operator's own arguments and attributes; it gives one adjoint for each argument. A single
# expression stands for the adjoint of the only argument.
GradientRule = Callable[..., "Expr | tuple[Partial, ...]"]


@dataclass(frozen=True, slots=True)
class ByResult:
    """A gradient rule that is told which of an operator's results have an adjoint.

    `rule` takes the fields of the adjoint instead of the adjoint: None for a result that nothing
    came back to. Zeros would not do, since zero times what is not finite is not zero.
    """

    rule: Callable[..., "Expr | tuple[Partial, ...]"]

    def __call__(self, g: Expr, *args: Any, **attrs: Any) -> "Expr | tuple[Partial, ...]":
        return self.rule(fields_of(g), *args, **attrs)


def operator_of(value: Expr | None) -> "Op | None":
    """The operator that a value calls, None where it calls none."""
    return value.op if isinstance(value, Call) and isinstance(value.op, Op) else None


def operator_name(value: Expr | None) -> str | None:
    """The name of the operator that a value calls, None where it calls none."""
    operator = operator_of(value)
    return None if operator is None else operator.name


def fields_of(value: Expr) -> Sequence[Expr]:
    """The fields of a tuple, or the value that is none."""
    return list(value) if isinstance(value.ty, TupleType) else [value]


@dataclass(frozen=True, slots=True, repr=False)
class Param:
    """One parameter of an operator: an argument (an expression), or an attribute (a constant).

    `convert` takes what the user wrote to what the call keeps, and raises on anything else.
    """

    name: str
    is_arg: bool
    convert: Callable[[Any], Any]
    default: Any = ...
    variadic: bool = False  # stands for any number of arguments, as `*values` does

    @property
    def required(self) -> bool:
        return self.default is ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Op(Expr):
    """An operator: its name and signature, and every rule that a pass may ask for.

    A rule that is None is missing, and whoever needs it says so in an error. `complete` takes what
    the user wrote, by parameter, and gives what must change before the call keeps it: defaults that
    depend on other parameters, the dimension behind a -1. `training_form` gives None for a call
    that behaves in training as it stands. `inference` spells the operator out as it behaves in
    inference, where `decompose` does not; `canonical` gives the basic operators it is short for.
    `places` gives the placement of the result of a call, by its type.
    """

    name: str
    params: tuple[Param, ...]
    infer: InferRule
    doc: str = ""
    complete: Callable[..., Mapping[str, Any]] | None = None
    lower: Callable[..., Any] | None = None
    gradient: GradientRule | NoGradient | None = None
    jvp: Callable[..., Any] | NoGradient | None = None
    training_form: Callable[..., Expr | None] | None = None
    decompose: Callable[..., Expr] | None = None
    inference: Callable[..., Expr] | None = None
    canonical: Callable[..., Expr | None] | None = None
    layout: LayoutRule | None = None
    scaling: ScalingRule | None = None
    places: Callable[[Call, Any], Any] | None = None
    precision: str | None = None
    fusion: str | None = None
    cost: Callable[..., Any] | None = None
    pure: bool = True
    facts: Attrs = field(default_factory=Attrs)
    ty: Type | None = field(default_factory=ObjectType, kw_only=True, compare=False)

    def __call__(self, *args: Any, **named: Any) -> Call:
        """The call of this operator, typed where all its arguments are."""
        return make_call(self, args, named)

    def __reduce__(self) -> Any:
        return get_op, (self.name,)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers in training: then no call of it is another one's equal.

        Its training form takes a key for that.
        """
        rule = self.training_form
        return rule is not None and "key" in inspect.signature(rule).parameters

    def get_attr(self, name: str) -> Any:
        """What TVM has for operators under a name, such as `FPrimalGradient`; None without it."""
        if name not in TVM_ATTRIBUTES:
            known = ", ".join(TVM_ATTRIBUTES) or "none, until `relaxjax.tvm` is imported"
            raise ValueError(f"an operator has no attribute `{name}`; there are {known}")
        return TVM_ATTRIBUTES[name](self)

    def has_attr(self, name: str) -> bool:
        """Whether there is anything for this operator under a name of TVM's."""
        return name in TVM_ATTRIBUTES and self.get_attr(name) is not None

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators."""
        return sorted(OPS)

    @staticmethod
    def get(name: str) -> "Op":
        """The operator called `name`, as `tvm.ir.Op.get`."""
        return get_op(name)


OPS: dict[str, Op] = OPERATORS
# What knows of gradients as TVM has them stands above this layer, and enters itself here.
TVM_ATTRIBUTES: dict[str, Callable[[Op], Any]] = {}


def get_op(name: str) -> Op:
    """The operator called `name`; an unknown name is an error that suggests near misses."""
    found: Op = named_operator(name)
    return found


def register(operator: Op) -> Op:
    """Enter an operator into the table; a name belongs to the function that infers its type."""
    return enter("operator", OPS, operator, lambda one: one.infer)


def make_call(operator: Op, given: tuple[Any, ...], named: Mapping[str, Any]) -> Call:
    """Sort what the user wrote into arguments and attributes, convert it, and infer the type."""
    bound = _bind(operator, given, named)
    values = {param.name: _convert(operator, param, bound[param.name]) for param in operator.params}
    if operator.complete is not None:
        values |= operator.complete(**values)
    args: list[Expr] = []
    attrs: dict[str, Any] = {}
    left_out = ""
    for param in operator.params:
        value = values[param.name]
        if not param.is_arg:
            attrs[param.name] = value
        elif value is None:
            left_out = left_out or param.name
        elif left_out:
            # A call keeps its arguments by position only, so there is no place for a gap.
            raise TypeError(
                f"{operator.name}: `{left_out}` is left out, so `{param.name}` behind it "
                "must be left out too"
            )
        elif param.variadic:
            args.extend(value)
        else:
            args.append(value)
    call = Call(operator, tuple(args), Attrs(attrs))
    return typed(call) if all(arg.ty is not None for arg in args) else call


def typed(call: Call) -> Call:
    """The call of an operator with its inferred type; its own errors name the operator."""
    assert isinstance(call.op, Op)
    if call.ty is not None:
        return call
    return Call(
        call.op, call.args, call.attrs, call.ty_args, ty=call.op.infer(call), span=call.span
    )


def arguments(call: Call) -> tuple[list[Expr | None], dict[str, Any]]:
    """The arguments of an operator's call, None for optional ones left out, and its attributes."""
    assert isinstance(call.op, Op)
    names, required, is_variadic = _places(call.op)
    surplus = len(call.args) > len(names) and not is_variadic
    if surplus or len(call.args) < required:
        listed = quoted(names)
        raise TypeError(
            f"{call.op.name} takes {listed}, but the call has {counted(len(call.args), 'argument')}"
        )
    _check_attributes(call.op, call.attrs)
    missing = [None] * (len(names) - len(call.args))
    return [*call.args, *missing], dict(call.attrs)


@lru_cache(maxsize=1024)
def _places(operator: Op) -> tuple[Sequence[str], int, bool]:
    """The names of an operator's arguments, how many must be there, and whether it takes more."""
    params = [param for param in operator.params if param.is_arg]
    names = [param.name for param in params if not param.variadic]
    required = sum(param.required and not param.variadic for param in params)
    return names, required, len(names) != len(params)


def argument_count(operator: Op) -> tuple[int, int | None]:
    """How many arguments a call has at least, and at most: None where there is no end."""
    names, required, is_variadic = _places(operator)
    return required, None if is_variadic else len(names)


def kept_attribute(operator: Op, name: str, value: Any) -> Any:
    """An attribute as a call keeps it, such as `[1]` for an axis 1; itself where none takes it."""
    param = next((one for one in operator.params if one.name == name and not one.is_arg), None)
    try:
        return value if param is None else param.convert(value)
    except (TypeError, ValueError):
        return value


@lru_cache(maxsize=1024)
def attribute_names(operator: Op) -> Mapping[str, bool] | None:
    """Whether each attribute must be there; None of a primitive of JAX, which knows its own."""
    params = [param for param in operator.params if not param.is_arg]
    if not params and any(param.variadic for param in operator.params):
        return None
    return {param.name: param.required for param in params}


def _check_attributes(operator: Op, attrs: Attrs) -> None:
    known = attribute_names(operator)
    if known is None:
        return
    for name in attrs:
        if name not in known:
            hint = did_you_mean(name, list(known))
            raise TypeError(f"{operator.name} has no attribute `{name}`{hint}")
    for name, is_required in known.items():
        if is_required and name not in attrs:
            raise TypeError(f"{operator.name}: the attribute `{name}` is missing")


def _bind(operator: Op, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    names = [param.name for param in operator.params]
    required = [param.name for param in operator.params if param.required]
    values = by_name(operator.name, names, _gathered(operator, given), named, required)
    for param in operator.params:
        values.setdefault(param.name, param.default)
    return values


def _gathered(operator: Op, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The positional arguments, those of a variadic parameter gathered into one tuple."""
    start = next((i for i, param in enumerate(operator.params) if param.variadic), len(given))
    return (*given[:start], given[start:]) if len(given) > start else given


def _convert(operator: Op, param: Param, value: Any) -> Any:
    if param.is_arg and value is None:
        if param.required:
            raise TypeError(f"{operator.name}: the argument `{param.name}` may not be None")
        return None
    try:
        return param.convert(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{operator.name}: `{param.name}` {error}") from None
