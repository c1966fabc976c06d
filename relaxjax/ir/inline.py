"""Putting the bodies of functions in the place of their calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .blocks import tidy_blocks
from .builder import BlockBuilder
from .dataflow import without_dataflow
from .expand import expand_bindings
from .expr import Call, DataflowVar, Expr, GlobalVar, Var
from .function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from .infer import dims_told, is_pure_call
from .lattice import Fit, fits
from .module import name_of
from .node import replace
from .renew import renew, substitute_symbols
from .types import FuncType, Type
from .uses import count_uses
from .walk import (
    bound_vars,
    free_vars,
    global_vars,
    map_sequences,
    substitute,
    type_symbols,
    type_vars,
)
from .written_above import body_of

Functions = Mapping[str, Function]


@body_of(Function.inline_functions)
def inline_functions(function: Function, function_map: Mapping[Any, Function]) -> Function:
    """`function` with the bodies of others, by name or GlobalVar, in the place of their calls.

    What is called there is inlined too, if it is in the map. A function that calls itself, on
    whatever way, is an error. A dataflow block into which a body does not fit becomes an ordinary
    block.
    """
    named: dict[str, Function] = {}
    for key, other in function_map.items():
        name = name_of(key)
        if named.setdefault(name, other) is not other:
            raise ValueError(f"two functions are given for `{name}`")
    for name in recursive(named):
        raise ValueError(f"the function `{name}` calls itself: it cannot be inlined")
    bodies: dict[str, Function] = {}
    for name in callees_first(named, [var.name for var in global_vars(function)]):
        bodies[name] = inlined_into(named[name], bodies)
    return inlined_into(function, bodies) if bodies else function


def inlined_into(function: Function, bodies: Functions) -> Function:
    """`function` with the bodies of others in the place of its calls, but not of calls in those."""

    def callee(call: Call) -> Function | None:
        return bodies.get(call.op.name) if isinstance(call.op, GlobalVar) else None

    return open_calls(function, callee)


def callees_first(functions: Functions, called: Iterable[str] | None = None) -> Iterator[str]:
    """The names of the functions, each after those that it calls, as far as recursion allows.

    With `called`, they are those of these functions, and of what they call.
    """
    seen: set[str] = set()
    waiting = [(name, False) for name in reversed(list(functions if called is None else called))]
    while waiting:
        name, ready = waiting.pop()
        if ready:
            yield name
        elif name in functions and name not in seen:
            seen.add(name)
            waiting.append((name, True))
            waiting += [(var.name, False) for var in global_vars(functions[name])]


def recursive(functions: Functions) -> list[str]:
    """The names of the functions that call themselves, directly or through others."""
    calls = {name: {var.name for var in global_vars(f)} for name, f in functions.items()}
    callers: dict[str, list[str]] = {name: [] for name in functions}
    for name, called in calls.items():
        for other in called & callers.keys():
            callers[other].append(name)
    found: set[str] = set()
    seen: set[str] = set()
    # Whoever calls one that was left last, and was left before it, is called by that one too.
    for last in reversed(list(callees_first(functions))):
        circle, waiting = set[str](), [last]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                circle.add(name)
                waiting += callers[name]
        if len(circle) > 1 or last in calls[last]:
            found |= circle
    return [name for name in functions if name in found]


def opened(function: Function, args: Sequence[Expr]) -> SeqExpr:
    """The body of a function in terms of the arguments of one call.

    An argument of which only its value tells whether it is of the parameter's type is cast to that,
    and a shape that types name keeps that name.
    """
    copy, _ = renew(function)
    symbols = dims_told(copy.params, args)
    outer = {symbol for var in free_vars(copy) for symbol in type_symbols(var.ty)}
    own = {symbol: dim for symbol, dim in symbols.items() if symbol not in outer}
    copy_of_call = substitute_symbols(copy, own)
    assert isinstance(copy_of_call, Function)
    given = dict(zip(copy_of_call.params, args, strict=True))
    casts = tuple(
        MatchCast(param, given.pop(param), param.ty)
        for param, arg in zip(copy_of_call.params, args, strict=True)
        if param.ty is not None and _only_value_tells(arg, param.ty)
    )
    named = {var for bound in bound_vars(copy_of_call.body) for var in type_vars(bound.ty)}
    shapes = tuple(VarBinding(param, given.pop(param)) for param in list(given) if param in named)
    body = substitute(copy_of_call.body, given)
    first: tuple[Binding, ...] = (*casts, *shapes)
    return replace(body, blocks=(BindingBlock(first), *body.blocks)) if first else body


def _only_value_tells(arg: Expr, ty: Type) -> bool:
    """Whether types do not prove that an argument is of a type. Functions check their own calls."""
    functions = isinstance(arg.ty, FuncType) and isinstance(ty, FuncType)
    return not functions and fits(arg.ty, ty) is Fit.MAYBE


def open_calls(function: Function, callee: Callable[[Call], Function | None]) -> Function:
    """`function` with each call replaced by the body of what `callee` gives for it, if anything.

    A dataflow block into which a body does not fit becomes an ordinary block.
    """

    def body_of(value: Expr) -> Function | None:
        return callee(value) if isinstance(value, Call) else None

    def too_narrow(block: DataflowBlock) -> bool:
        bodies = (body_of(binding.value) for binding in block.bindings)
        return any(f is not None and not _fits_dataflow(f.body) for f in bodies)

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        body = body_of(binding.value)
        if body is None:
            return None
        assert isinstance(binding.value, Call)
        seq = opened(body, binding.value.args)
        return _ending_in_value(seq, builder.current_block_is_dataflow())

    inlined = expand_bindings(without_dataflow(function, too_narrow), rule)
    return map_sequences(inlined, lambda seq: replace(seq, blocks=tidy_blocks(seq.blocks)))


def _fits_dataflow(seq: SeqExpr) -> bool:
    """Whether bindings may stand in a dataflow block."""
    values = [binding.value for binding in seq.bindings()]
    calls = [value for value in values if isinstance(value, Call)]
    return not any(isinstance(value, If) for value in values) and all(map(is_pure_call, calls))


def _ending_in_value(seq: SeqExpr, in_dataflow: bool) -> SeqExpr:
    """A sequence whose result is the value of its last variable, where nothing else uses that.

    What only a dataflow block sees is no value outside of one.
    """
    if not seq.blocks or not seq.blocks[-1].bindings or not isinstance(seq.body, Var):
        return seq
    *others, last = seq.blocks
    *bindings, result = last.bindings
    if (
        result.var is not seq.body
        or not isinstance(result, VarBinding)
        or count_uses(seq)[seq.body] > 1
    ):
        return seq
    if not in_dataflow and any(isinstance(var, DataflowVar) for var in free_vars(result.value)):
        return seq
    blocks = (*others, replace(last, bindings=tuple(bindings))) if bindings else tuple(others)
    return replace(seq, blocks=blocks, body=result.value, ty=None)
