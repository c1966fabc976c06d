"""Declaring an operator: its whole story in one block.

    @op("relax.nn.relu", lower=jax.nn.relu, gradient=lambda g, y, x: ...)
    def relu(data: TensorType) -> TensorType:
        \"\"\"Rectified linear unit: y = max(x, 0).\"\"\"
        return data

The function is the signature; its docstring is the documentation; its body is the type inference.
A parameter annotated with an IR type (`TensorType`, `ShapeType`, `TupleType`, `PrimType`,
`FuncType`) is an argument, and the body sees the argument's type. One annotated with an expression
(`Expr` for anything, `PrimExpr`, `ShapeExpr`, `Tuple`) is an argument too, and the body sees the
expression itself, which may be a variable of that kind. Every other parameter is an attribute.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.layout import OPAQUE
from relaxjax.ir.op import ByResult, GradientRule, NoGradient, Op, Param, arguments, register
from relaxjax.ir.types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from relaxjax.ir.wording import listed

from .conversions import all_arguments, converter
from .placements import with_placement
from .rearranging import AGNOSTIC
from .scaling import HOMOGENEOUS, LINEAR

R = TypeVar("R")

NOUNS: dict[type[Type], str] = {
    TensorType: "a tensor",
    ShapeType: "a shape",
    TupleType: "a tuple",
    PrimType: "a scalar of the host",
    FuncType: "a function",
    Type: "a value",
}

# What an operator may say of itself in `facts=`, for passes to use.
FACTS = {
    "unit": "the scalar u with op(x, u) = x; where the operator is commutative, op(u, x) = x too",
    "right_unit": "the scalar u with op(x, u) = x, not so on the left",
    "zero": "the scalar z with op(x, z) = op(z, x) = z for finite x",
    "commutative": "op(x, y) = op(y, x)",
    "associative": "op(op(x, y), z) = op(x, op(y, z)), up to rounding",
    "idempotent": "op(op(x)) = op(x); of two arguments: op(x, x) = x",
    "involution": "op(op(x)) = x",
    "inverse": "the name of the operator f with f(op(x)) = x wherever op(x) is finite",
    "odd": "op(-x) = -op(x)",
    "even": "op(-x) = op(x)",
    "linear": "op(x + y) = op(x) + op(y), and op(s x) = s op(x)",
    "homogeneous": "op(s x) = s op(x) for s that is not negative",
    "nonnegative": "no element of the result is below 0",
    "swapped": "the name of the operator f with f(x, y) = op(y, x)",
    "negated": "the name of the comparison f with f(x, y) = not op(x, y) where neither is NaN",
    "jumps": "the result is of floats, and jumps where those of the arguments move a little",
    "factors": "the attributes by which a call gives the factors, too, that its derivative takes",
    "elementwise": "each element of the result depends on the same element of the arguments only",
    "chooses": "elements of the result may be some of an argument's, compared, or added to none",
    "turns": "the slope jumps where an argument is some number, as that of relu at 0",
    "moves": "the result is elements of the first argument, rearranged or repeated",
    "identity": "the result is the first argument, which only passes look at in another way",
    "instead": "what to do where a derivative is asked for, and it has none",
    "steers": "it says how to differentiate, which legalised programs are to say too",
    "waits": "it says when its result is computed, which legalised programs are to say too",
    "placement": "the result is the first argument, and the device an attribute's to name",
    "value": "the scalar that fills the result",
    "communicates": "what a device gets depends on others, or on which it is: `alike`, or `apart`",
    "local_view": "the first argument is a function that each device of a mesh runs",
    "loop": "the first argument is a function that is run at each step, which passes look into",
    "branches": "one of the functions among the arguments is run",
    "higher_order": "an argument or the result is a function, as a value",
    "class_ids": "the name of the argument that picks classes out of the scores, the first one",
    "row_ids": "the name of the argument that picks rows out of the first one, along an axis",
    "own": "the attributes that TVM's operator of this name lacks: a text leaves out the defaults",
    "data_dependent": "the shape of the result depends on values, so no compiled program holds it",
}

# What an operator may say in `precision=`: what becomes of it where a program computes in 16 bits.
PRECISION = {
    "always": "it computes in 16 bits whatever its arguments are, and adds up in 32",
    "follow": "it computes in what its arguments have",
    "never": "it computes in 32 bits, because 16 would not hold its result well enough",
}

# What it may say in `fusion=`: how it can be computed together with its neighbours.
FUSION = {
    "elementwise": "each element of the result from the same element of arguments of its shape",
    "broadcast": "each element from one of each argument, which may be used for several",
    "injective": "each element from one of the arguments, wherever that stands",
    "reduction": "each element from many, added up or compared",
    "out_fusable": "products added up: elementwise operators behind it can be computed with it",
    "opaque": "it stands alone",
}


class OpError(TypeError, ValueError):
    """An operator was given something that it cannot take.

    A type holds sizes here, and whether 3 beside 4 is a wrong type or a wrong value is a matter of
    taste: TVM says ValueError of most.
    """


def op(
    name: str,
    *,
    lower: Callable[..., Any] | None = None,
    gradient: GradientRule | NoGradient | None = None,
    complete: Callable[..., Mapping[str, Any]] | None = None,
    pure: bool = True,
    facts: Mapping[str, Any] | None = None,
    **rules: Any,
) -> Callable[[Callable[..., Type]], Op]:
    """Declare and register an operator; the keywords are the fields of `Op`.

    What is safe for all stands for what it does not say: tensors as the program has them, computed
    in 32 bits and alone.
    """
    unknown = set(facts or ()) - set(FACTS)
    if unknown:
        raise ValueError(f"{name}: there is no fact {unknown}; the vocabulary is {sorted(FACTS)}")
    for rule, vocabulary in (("precision", PRECISION), ("fusion", FUSION)):
        if rules.get(rule) not in (None, *vocabulary):
            raise ValueError(
                f"{name}: `{rule}` must be one of {', '.join(vocabulary)}, found {rules[rule]!r}"
            )

    if not (rules.get("cost") is None or callable(rules["cost"])):
        raise TypeError(f"{name}: `cost` must be a rule such as LOWERED, found {rules['cost']!r}")

    if (facts or {}).get("elementwise"):
        rules.setdefault("layout", AGNOSTIC)
    for fact, scaling in (("linear", LINEAR), ("homogeneous", HOMOGENEOUS)):
        if (facts or {}).get(fact):
            rules.setdefault("scaling", scaling)
    rules = {"layout": OPAQUE, "precision": "never", "fusion": "opaque", **rules}

    def declare(function: Callable[..., Type]) -> Op:
        params, expected = _parameters(name, function)
        made = Op(
            name=name,
            params=params,
            infer=_inference(name, function, expected),
            doc=inspect.getdoc(function) or "",
            complete=None if complete is None else _prefixed(name, complete),
            lower=None if lower is None else _prefixed(name, lower),
            gradient=gradient
            if isinstance(gradient, ByResult | NoGradient | None)  # one by result names itself
            else _prefixed(name, gradient),
            pure=pure,
            facts=Attrs(facts),
            **rules,
        )
        check_rules(made)
        return register(made)

    return declare


def _inference(
    name: str, function: Callable[..., Type], expected: dict[str, type[Type] | None]
) -> Callable[[Call], Type]:
    """The body of the declaration as a rule on calls, with the arguments' kinds checked first."""
    body, kinds = _prefixed(name, function), list(expected.items())

    @functools.wraps(function)
    def infer(call: Call) -> Type:
        args, attrs = arguments(call)
        seen: list[Any] = []
        for index, arg in enumerate(args):
            param, kind = kinds[index] if index < len(kinds) else ("", None)
            if arg is None or kind is None:
                seen.append(arg)
                continue
            if not isinstance(arg.ty, kind):
                raise OpError(
                    f"{name}: `{param}` must be {NOUNS[kind]}, but `{arg}` is of type {arg.ty}"
                )
            seen.append(arg.ty)
        try:
            found = body(*seen, **attrs)
        except OpError:
            raise
        except ValueError as error:  # of a type that cannot be, such as one of negative size
            raise OpError(f"{name}: {error}") from None
        if not isinstance(found, Type):
            raise OpError(f"{name}: the type of the result is to be returned, found {found!r}")
        if isinstance(found, ObjectType) and call.ty_args:
            return _stated(call.ty_args)
        return with_placement(found, call)

    return infer


def _stated(types: tuple[Type, ...]) -> Type:
    """The type that a call states of its result, where that may be anything."""
    return types[0] if len(types) == 1 else TupleType(types)


def _prefixed(name: str, rule: Callable[..., R]) -> Callable[..., R]:
    """`rule`, with the operator's name before its errors, once."""

    @functools.wraps(rule)
    def named(*args: Any, **attrs: Any) -> R:
        try:
            return rule(*args, **attrs)
        except OpError as error:
            if str(error).startswith(f"{name}: "):
                raise
            raise OpError(f"{name}: {error}") from None

    return named


def _parameters(
    name: str, function: Callable[..., Type]
) -> tuple[tuple[Param, ...], dict[str, type[Type] | None]]:
    """The parameters in a declaration's signature, and the type that each argument must have."""
    hints = typing.get_type_hints(function, include_extras=True)
    params: list[Param] = []
    expected: dict[str, type[Type] | None] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in hints:
            raise TypeError(
                f"{name}: the parameter `{parameter.name}` needs an annotation, which says what it "
                "is: an IR type such as TensorType, or Expr, for an argument; any other type for "
                "an attribute"
            )
        annotation, optional = _without_none(hints[parameter.name])
        if parameter.kind is parameter.VAR_POSITIONAL:
            params.append(Param(parameter.name, True, all_arguments, (), variadic=True))
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        is_arg = isinstance(annotation, type) and issubclass(annotation, Type | Expr)
        if is_arg:
            expected[parameter.name] = annotation if issubclass(annotation, Type) else None
        convert = converter(annotation, optional and not is_arg)
        params.append(Param(parameter.name, is_arg, convert, default))
    return tuple(params), expected


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        kinds = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
        if len(kinds) == 1 and len(kinds) != len(typing.get_args(annotation)):
            return kinds[0], True
    return annotation, False


# What a rule takes before the operator's arguments and attributes.
_BEFORE: Mapping[str, tuple[str, ...]] = {
    "lower": (),
    "gradient": ("the adjoint of the result", "the result"),
    "jvp": ("the tangents of the arguments", "the result"),
    "decompose": (),
    "inference": (),
    "canonical": (),
}


def check_rules(operator: Op) -> None:
    """Raise where a rule cannot be called as passes call it."""
    if any(param.variadic for param in operator.params):
        return  # how many arguments there are is not known
    for rule in _BEFORE:
        check_rule(operator, rule, getattr(operator, rule))


def check_rule(operator: Op, kind: str, rule: Any) -> None:
    """Raise where this one cannot be called so: with arguments in order, and attributes by name."""
    args = [f"`{param.name}`" for param in operator.params if param.is_arg]
    attrs = [param.name for param in operator.params if not param.is_arg]
    given = (*_BEFORE[kind], *args)
    try:
        signature = inspect.signature(rule) if callable(rule) else None
    except ValueError:
        return  # it is not written in Python, and does not tell
    try:
        if signature is not None:
            signature.bind(*given, **dict.fromkeys(attrs))
    except TypeError as error:
        named = f", and by name {listed(attrs)}" if attrs else ""
        raise TypeError(
            f"{operator.name}: its `{kind}` is called with {_listed(given)}{named}, but it takes "
            f"{signature}: {error}"
        ) from None


def _listed(names: Any) -> str:
    *first, last = names or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


Writer = TypeVar("Writer", bound=Callable[..., Any])

# The functions that the script knows beside the operators, by the operator's name they would have.
SUGAR: dict[str, Callable[..., Any]] = {}


def sugar(name: str) -> Callable[[Writer], Writer]:
    """Declare a function of expressions under a name of the script, such as `relax.linear`."""

    def declare(function: Writer) -> Writer:
        SUGAR[name] = function
        return function

    return declare
