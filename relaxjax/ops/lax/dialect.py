"""The dialect itself: an operator for each primitive of JAX, and programs read into it."""

from collections.abc import Sequence
from functools import lru_cache
from keyword import iskeyword
from typing import Any

from jax.extend import core

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.lattice import erase
from relaxjax.ir.op import OPS, ZERO_GRADIENT, GradientRule, NoGradient, Op
from relaxjax.ir.registry import REPLACED
from relaxjax.ir.types import ObjectType, TensorType, TupleType, Type
from relaxjax.ir.walk import type_symbols, value_symbols
from relaxjax.ops.declare import OpError

from .avals import aval_of, type_of, x64_for
from .choices import gradient_of_chosen
from .composites import COMPOSITES, composite_lowering
from .gradient import gradient_of, gradient_of_joined
from .inlining import open_program
from .jaxprs import jaxpr_and_result
from .lowering import lowering_of
from .operator import declare
from .prototypes import (
    LEARNED,
    check_call,
    find_primitive,
    learn_primitive,
    prototype_names,
    public_primitives,
)
from .reader import Found, Hint, OwnRule, Reader, Report
from .symbols import JaxSymbols, evaluate_attrs

# Primitives that the reader takes apart, or that hold programs: they are no operators themselves.
_NOT_OPERATORS = frozenset(
    {
        *("jit", "closed_call", "call", "eval_jaxpr", "remat2", "custom_lin", "custom_jvp_call"),
        *("custom_vjp_call", "scan", "while", "cond", "platform_index", "custom_linear_solve"),
        *("reduce", "reduce_window", "select_and_scatter", "get", "swap", "stage", "dce_sink"),
        *("empty2", "create_token", "after_all"),
    }
)
# Primitives of floats whose derivative is zero wherever it exists.
FLAT = frozenset({"ceil", "floor", "round", "sign", "stop_gradient"})
# The gradient rules of primitives that have others than JAX's own.
_RULES: dict[str, GradientRule | NoGradient] = {
    **dict.fromkeys(FLAT, ZERO_GRADIENT),
    "concatenate": gradient_of_joined,
    "max": gradient_of_chosen("lax.gt", "lax.lt"),
    "min": gradient_of_chosen("lax.lt", "lax.gt"),
}


def read_jaxpr(
    jaxpr: Any,
    args: Sequence[Expr],
    builder: BlockBuilder,
    *,
    symbols: JaxSymbols | None = None,
    hint: Hint = lambda primitive: "lv",
    platform: str | None = None,
    spans: bool = True,
    own_rule: OwnRule | None = None,
    around: Found | None = None,
    reports: list[Report] | None = None,
    callbacks: bool = False,
) -> list[Expr]:
    """Emit the equations of a closed jaxpr on `args` into `builder`; its results as expressions.

    Calls are inlined, and what no result needs is left out. So are checkpoints and custom
    derivatives, unless `own_rule` says what a function that has one becomes: then the backward
    program computes again what a checkpoint does not keep.
    `symbols` are those that the program was traced with, `hint` gives the name of a variable for
    the primitive that computes it, and with a `platform` such as "cpu" or "cuda" whatever differs
    by platform is decided. Bindings get the lines of the user's text that JAX remembers, unless
    `spans` is False. `around` tells arrays of the programs around this one, which rules may use.
    Equations that print are added to `reports`, with what they print; without it they are refused.
    So is what asks Python for a result, without `callbacks`: no other process has that function.
    """
    program = open_program(jaxpr)
    reader = Reader(
        builder,
        lax_op,
        symbols or JaxSymbols(),
        hint,
        platform=platform,
        spans=spans,
        own_rule=own_rule,
        scopes=[] if around is None else [around],
        reports=reports,
        callbacks=callbacks,
    )
    results = reader.read(program, args, [True] * len(program[0].outvars))
    return [result for result in results if result is not None]


def lax_op(primitive: core.Primitive) -> Op:
    """The operator of a primitive, made when it is first asked for.

    Another primitive of the same name, as a cell of a notebook makes that is run again, takes the
    place of the first; programs made before run the first.
    """
    name = primitive.name
    known = OPS.get(op_name(name))
    if known is not None and (name == "dim_as_value" or _of_name(name) is primitive):
        return known
    if known is not None and name not in LEARNED:
        raise OpError(
            f"a primitive that is none of JAX's is called `{name}`, as one of JAX's is: give it "
            "another name"
        )
    if known is not None:
        REPLACED.add(OPS.pop(op_name(name)))
    learn_primitive(primitive)
    return _declared(name, primitive)


def _of_name(name: str) -> core.Primitive | None:
    try:
        return find_primitive(name)
    except ValueError:
        return None


def _declared(name: str, primitive: core.Primitive | None = None) -> Op:
    return declare(
        op_name(name).removeprefix("lax."),
        f"The primitive `{name}` of jax.lax.",
        infer_by_lowering,
        lowering_of(name, primitive),
        _RULES.get(name) or gradient_of(op_name(name), lax_op),
    )


def op_name(primitive: str) -> str:
    """The name of a primitive's operator: an identifier, so that the script can write it."""
    name = primitive.replace("-", "_")
    return f"lax.{name}_" if iskeyword(name) else f"lax.{name}"


def infer_by_lowering(call: Call) -> Type:
    """The type of a call: the abstract evaluation of its lowering, which is mostly a primitive."""
    assert isinstance(call.op, Op)
    types = tuple(arg.ty for arg in call.args)
    for index, ty in enumerate(types):
        if not isinstance(ty, TensorType):
            raise OpError(
                f"{call.op.name}: argument {index + 1} must be a tensor, "
                f"but `{call.args[index]}` is of type {ty}"
            )
    if all(isinstance(ty, TensorType) and _is_known(ty) for ty in types):
        return _evaluated(call.op, types, call.attrs)
    return _partly_known(call.op, types, call.attrs)


@lru_cache(maxsize=4096)
def _evaluated(op: Op, types: tuple[Type | None, ...], attrs: Attrs) -> Type:
    symbols = JaxSymbols()
    avals = [aval_of(ty, symbols) for ty in types]
    params = evaluate_attrs(attrs, symbols.to_jax)
    lower = op.lower
    assert lower is not None
    try:
        check_call(op.name.removeprefix("lax.").rstrip("_"), attrs, len(types))
        # Random bits say in their width, not by a dtype, that they need 64-bit integers.
        width = f"uint{attrs.get('bit_width', 32)}"
        with x64_for(*types, attrs, width):
            _, result = jaxpr_and_result(lambda *args: lower(*args, **params), *avals)
    except Exception as error:
        raise OpError(f"{op.name}: {error}") from error
    if isinstance(result, tuple):
        return TupleType(tuple(type_of(item, symbols) for item in result))
    return type_of(result, symbols)


def _partly_known(op: Op, types: tuple[Type | None, ...], attrs: Attrs) -> Type:
    """What can be said with dimensions unknown: each stands for a new symbol, then for nothing."""
    given = [symbol for ty in types for symbol in type_symbols(ty)]
    guesses = tuple(_guess(ty) for ty in types)
    if None in guesses:
        return ObjectType()
    try:
        result = _evaluated(op, guesses, attrs)
    except OpError:
        return ObjectType()
    return erase(result, {*given, *value_symbols(attrs)})


def _guess(ty: Type | None) -> TensorType | None:
    if not isinstance(ty, TensorType) or ty.dtype is None or ty.ndim < 0:
        return None
    return ty if _is_known(ty) else TensorType([SymbolicVar("d") for _ in range(ty.ndim)], ty.dtype)


def _is_known(ty: TensorType) -> bool:
    return ty.dims is not None and ty.dtype is not None


for _name in (*public_primitives(), *prototype_names(), "dim_as_value"):
    if _name not in _NOT_OPERATORS and op_name(_name) not in OPS:
        _declared(_name)

for _name in COMPOSITES:
    declare(
        _name,
        f"The function `{_name}` of JAX, on arrays of one dtype, with JAX's own derivative.",
        infer_by_lowering,
        composite_lowering(_name),
        gradient_of(op_name(_name), lax_op),
    )
