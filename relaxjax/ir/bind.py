"""Fixing some of what a function takes: parameters, and symbolic dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .dim_variables import dim_vars
from .dims import Dim, SymbolicVar, as_dim
from .expr import Call, Expr, PrimExpr, Var, const
from .function import Function, MatchCast
from .lattice import Fit, fits
from .node import replace
from .op import Op, typed
from .renew import substitute_symbols
from .retype import check_value, retyped
from .span import located
from .types import PrimType, Type
from .walk import definable_symbols, expr_symbols, nested_bindings, nested_sequences
from .wording import quoted
from .written_above import body_of

GIVE_ITS_NAME = "give its name, or the very object that the function has"


@body_of(Function.bind_params)
def bind_params(function: Function, binding_map: Mapping[str | Var, Any]) -> Function:
    """`function` with parameters fixed: what stands for them is an expression or an array."""
    values: dict[Var, Expr] = {}
    called: dict[str | Var, list[Var]] = {param: [param] for param in function.params}
    for param in function.params:
        called.setdefault(param.name, []).append(param)
    for key, given in binding_map.items():
        param = _param(function, key, called.get(key, []))
        if param in values:
            raise ValueError(f"the parameter `{param.name}` is given twice")
        values[param] = _as_expr(param, given)
        check_value(param, values[param])
    return retyped(function, values) if values else function


@body_of(Function.bind_symbolic_vars)
def bind_symbolic_vars(
    function: Function, binding_map: Mapping[str | SymbolicVar, Dim]
) -> Function:
    """`function` with symbolic dimensions replaced by numbers or other dimensions.

    Sizes that an operator would refuse are an error.
    """
    mapping: dict[SymbolicVar, Dim] = {}
    called = symbols_by_key(function)
    for key, value in binding_map.items():
        found = symbols_called(called, key)
        if not found:
            refuse_symbol("the function has no", key, _symbol_names(function))
        (symbol,) = found
        if mapping.get(symbol, value) != value:
            raise ValueError(
                f"the symbolic dimension `{key}` is given twice, as {mapping[symbol]} and {value}"
            )
        mapping[symbol] = as_dim(value)
    changed = substitute_symbols(function, mapping)
    assert isinstance(changed, Function)
    _check_told(changed, mapping)
    _check_calls(changed, mapping)
    return changed


def _check_told(function: Function, mapping: Mapping[SymbolicVar, Dim]) -> None:
    """Raise where a dimension would be one that nothing in the function tells."""
    defining = [param.ty for param in function.params]
    for seq in nested_sequences(function):
        defining += [item.ty for item in seq.bindings() if isinstance(item, MatchCast)]
    told = {symbol for ty in defining for symbol in definable_symbols(ty)}
    for symbol, dim in mapping.items():
        for unknown in dim_vars(dim):
            if unknown not in told:
                raise ValueError(
                    f"`{symbol}` cannot be `{dim}`: no parameter would tell what `{unknown}` is"
                )


def _check_calls(function: Function, mapping: Mapping[SymbolicVar, Dim]) -> None:
    """Raise where an operator refuses its arguments; primitives of JAX do so when they are run."""
    for binding in nested_bindings(function):
        call = binding.value
        if not (isinstance(call, Call) and isinstance(call.op, Op)):
            continue
        if not call.op.name.startswith("lax."):
            with located(binding.span):
                check_type(typed(replace(call, ty=None)), call.ty, mapping)


def check_type(call: Call, stated: Type | None, sizes: Mapping[SymbolicVar, Dim]) -> None:
    """Raise where a call is not of the type that is stated for it, now that sizes are known.

    What is inferred for dimensions takes them for sizes: for a negative number it may be wrong.
    """
    if fits(call.ty, stated) is Fit.NEVER:
        values = ", ".join(f"`{symbol}` = {value}" for symbol, value in sizes.items())
        raise ValueError(
            f"with {values}, `{call}` is of type {call.ty}, and not {stated} as it was before: "
            "a place or size that is written with dimensions must not be negative"
        )


def symbols_by_key(function: Function) -> dict[str | SymbolicVar, list[SymbolicVar]]:
    """The symbolic dimensions of a function, by themselves and by their names."""
    symbols = _symbols(function)
    called: dict[str | SymbolicVar, list[SymbolicVar]] = {symbol: [symbol] for symbol in symbols}
    for symbol in symbols:
        called.setdefault(symbol.name, []).append(symbol)
    return called


def refuse_symbol(subject: str, key: str | SymbolicVar, names: Sequence[str]) -> NoReturn:
    """Raise for a key that means no symbolic dimension, though one may have its name."""
    if f"{key}" in names:
        raise ValueError(f"the symbolic dimension `{key}` is another object: {GIVE_ITS_NAME}")
    there = f"; there are {quoted(names)}" if names else ""
    raise ValueError(f"{subject} symbolic dimension `{key}`{there}")


def symbols_called(
    known: Mapping[str | SymbolicVar, list[SymbolicVar]], key: str | SymbolicVar
) -> list[SymbolicVar]:
    """The symbolic dimensions that a key means, of those known by keys: one, or none."""
    found = known.get(key, [])
    if len(found) > 1:
        raise ValueError(
            f"the function has {len(found)} symbolic dimensions called `{key}`: "
            "give the dimension itself"
        )
    return found


def _symbols(function: Function) -> list[SymbolicVar]:
    """The symbolic dimensions that the parameters tell, else those inside, each once."""
    told = dict.fromkeys(s for param in function.params for s in definable_symbols(param.ty))
    return list(dict.fromkeys((*told, *expr_symbols(function))))


def _symbol_names(function: Function) -> list[str]:
    return [symbol.name for symbol in _symbols(function)]


def _param(function: Function, key: str | Var, found: list[Var]) -> Var:
    """The one parameter that is found by a key."""
    if len(found) == 1:
        return found[0]
    name = key.name if isinstance(key, Var) else key
    names = [param.name for param in function.params]
    if not found and name in names:
        raise ValueError(f"the parameter `{name}` is another variable: {GIVE_ITS_NAME}")
    if not found:
        raise ValueError(f"the function has no parameter `{name}`{_known(names)}")
    raise ValueError(
        f"the function has {len(found)} parameters called `{name}`: give the variable itself"
    )


def _known(names: list[str]) -> str:
    """Which names there are, for the end of a message about one that there is not."""
    return f"; it has {', '.join(f'`{n}`' for n in names)}" if names else ""


def _as_expr(param: Var, value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    return PrimExpr(value) if isinstance(param.ty, PrimType) else const(value)
