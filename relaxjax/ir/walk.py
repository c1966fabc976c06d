"""Walking expressions: functions, not visitor classes."""

from collections.abc import Callable, Container, Iterator, Mapping
from operator import is_
from typing import Any, TypeGuard, overload

from .attrs import PLAIN, Attrs
from .dim_variables import dim_vars, substitute_dim
from .dims import Dim, SymbolicExpr, SymbolicVar
from .expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
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
from .node import replace, unchanged
from .op import Op
from .types import FuncType, ShapeType, TensorType, TupleType, Type

Rule = Callable[[Expr], Expr]

_LEAVES = frozenset({Var, DataflowVar, Op, Constant, GlobalVar})


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside `expr`, in the order in which they are evaluated."""
    kind = type(expr)
    if kind in _LEAVES:  # most are of these
        return ()
    if kind is Call:
        return (expr.op, *expr.args)  # type: ignore[attr-defined]  # of a call
    match expr:
        case Var() | Op() | Constant():
            return ()
        case Call():
            return (expr.op, *expr.args)
        case Tuple():
            return expr.fields
        case TupleGetItem():
            return (expr.tuple_value,)
        case SeqExpr():
            return (*(binding.value for binding in expr.bindings()), expr.body)
        case If():
            return (expr.cond, expr.true_branch, expr.false_branch)
        case Function():
            return (expr.body,)
        case _:
            return ()


def is_call_of_leaves(expr: Expr) -> TypeGuard[Call]:
    """Whether an expression is a call with nothing inside of its arguments, as nearly all are."""
    if type(expr) is not Call or not (isinstance(expr.op, Op) or type(expr.op) in _LEAVES):
        return False
    for arg in expr.args:  # noqa: SIM110  # a generator here takes twice as long
        if type(arg) not in _LEAVES:
            return False
    return True


def _inner(expr: Expr) -> list[Expr]:
    """The expressions directly inside `expr` that may have others inside them."""
    inside = expr.args if type(expr) is Call and isinstance(expr.op, Op) else children(expr)
    return [child for child in inside if type(child) not in _LEAVES]


def post_order(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything inside it, children first. Variables are visited at their uses."""
    # From the end: each expression before what is inside it, the last of that first.
    found: list[Expr] = []
    waiting = [expr]
    while waiting:
        item = waiting.pop()
        found.append(item)
        if type(item) in _LEAVES:
            continue
        if is_call_of_leaves(item):
            found += item.args[::-1]
            found.append(item.op)
        else:
            waiting += children(item)
    return reversed(found)


@overload
def rewrite(expr: Function, rule: Rule) -> Function: ...
@overload
def rewrite(expr: SeqExpr, rule: Rule) -> SeqExpr: ...
@overload
def rewrite(expr: Expr, rule: Rule) -> Expr: ...
def rewrite(expr: Expr, rule: Rule) -> Expr:
    """`expr` with `rule` applied to every expression inside it, children first, then to itself.

    What no rule changes stays the very same object, and no rule makes a function or a sequence
    another kind of expression.
    """
    return rule(map_children(expr, lambda child: rewrite(child, rule)))


def map_bindings(seq: SeqExpr, change: Callable[[Binding], Binding | None]) -> SeqExpr:
    """`seq` with each binding changed, or dropped where `change` gives None."""
    return replace(seq, blocks=kept(seq.blocks, (_map_block(b, change) for b in seq.blocks)))


def map_sequences(function: Function, change: Callable[[SeqExpr], SeqExpr]) -> Function:
    """`function` with each of its sequences changed, the inner before the outer."""
    return rewrite(function, lambda expr: change(expr) if isinstance(expr, SeqExpr) else expr)


def map_blocks(function: Function, change: Callable[[BindingBlock], BindingBlock]) -> Function:
    """`function` with each of its blocks changed, those in branches and closures too."""

    def in_sequence(seq: SeqExpr) -> SeqExpr:
        return replace(seq, blocks=kept(seq.blocks, map(change, seq.blocks)))

    return map_sequences(function, in_sequence)


def nested_sequences(expr: Expr) -> Iterator[SeqExpr]:
    """Every sequence inside `expr`, the outer before the inner: bodies, branches, closures."""
    waiting = [expr]
    while waiting:
        item = waiting.pop()
        if isinstance(item, SeqExpr):
            yield item
            values = [b.value for b in item.bindings() if not is_call_of_leaves(b.value)]
            waiting += (item.body, *reversed(values))
        else:
            waiting += reversed(_inner(item))


def nested_blocks(expr: Expr) -> Iterator[BindingBlock]:
    """Every block inside `expr`, those of an outer sequence before those of an inner one."""
    return (block for seq in nested_sequences(expr) for block in seq.blocks)


def dataflow_blocks(expr: Expr) -> Iterator[DataflowBlock]:
    return (block for block in nested_blocks(expr) if isinstance(block, DataflowBlock))


def nested_bindings(expr: Expr) -> Iterator[Binding]:
    """Every binding inside `expr`, those of an outer sequence before those of an inner one."""
    return (binding for seq in nested_sequences(expr) for binding in seq.bindings())


def bound_vars(expr: Expr) -> tuple[Var, ...]:
    """The variables that `expr` defines, parameters included, in order."""
    return tuple(_definitions(expr))


def all_vars(expr: Expr) -> tuple[Var, ...]:
    """Every variable of `expr`, each once: definitions first, then what is only used."""
    return tuple(dict.fromkeys((*_definitions(expr), *used_vars(expr))))


def names_of_vars(expr: Expr) -> Iterator[str]:
    """The names of all variables of `expr`, which are looked for when the first is asked for."""
    yield from (var.name for var in all_vars(expr))


def used_vars(expr: Expr) -> tuple[Var, ...]:
    """The variables that `expr` uses, each once, in order."""
    if is_call_of_leaves(expr):
        return _used_by(expr)
    return tuple(dict.fromkeys([e for e in post_order(expr) if isinstance(e, Var)]))


def free_vars(expr: Expr) -> tuple[Var, ...]:
    """The variables that `expr` uses and does not define, each once, in order."""
    if is_call_of_leaves(expr):
        return _used_by(expr)
    used, bound = used_vars(expr), set(_definitions(expr))
    return tuple(var for var in used if var not in bound) if bound else used


def _used_by(call: Call) -> tuple[Var, ...]:
    """The variables that a call of leaves uses."""
    return tuple(dict.fromkeys([e for e in (call.op, *call.args) if isinstance(e, Var)]))


def global_vars(expr: Expr) -> tuple[GlobalVar, ...]:
    """The functions of the module that `expr` names, each once, in order."""
    return tuple(dict.fromkeys(e for e in post_order(expr) if isinstance(e, GlobalVar)))


@overload
def substitute(expr: Function, mapping: Mapping[Var, Expr]) -> Function: ...
@overload
def substitute(expr: SeqExpr, mapping: Mapping[Var, Expr]) -> SeqExpr: ...
@overload
def substitute(expr: Expr, mapping: Mapping[Var, Expr]) -> Expr: ...
def substitute(expr: Expr, mapping: Mapping[Var, Expr]) -> Expr:
    """`expr` with variables replaced at their uses."""
    if not mapping or (is_call_of_leaves(expr) and not uses_any(expr, mapping)):
        return expr

    def visit(expr: Expr) -> Expr:
        return mapping.get(expr, expr) if isinstance(expr, Var) else map_children(expr, visit)

    return visit(expr)


def uses_any(call: Call, variables: Container[Var]) -> bool:
    """Whether a call of leaves uses one of some variables."""
    if isinstance(call.op, Var) and call.op in variables:
        return True
    for arg in call.args:  # noqa: SIM110  # a generator here takes twice as long
        if isinstance(arg, Var) and arg in variables:
            return True
    return False


def substitute_type(ty: Type, mapping: Mapping[SymbolicVar, Dim]) -> Type:
    """`ty` with symbolic dimensions replaced."""
    if not mapping:
        return ty
    match ty:
        case TensorType(shape=tuple() as shape):
            return replace(ty, shape=kept(shape, (substitute_dim(d, mapping) for d in shape)))
        case ShapeType(values=tuple() as values):
            return replace(ty, values=kept(values, (substitute_dim(d, mapping) for d in values)))
        case TupleType(fields=fields):
            return replace(ty, fields=kept(fields, (substitute_type(f, mapping) for f in fields)))
        case FuncType(params=params):
            changed = params and kept(params, (substitute_type(p, mapping) for p in params))
            return replace(ty, params=changed, ret=substitute_type(ty.ret, mapping))
        case _:
            return ty


def type_symbols(ty: Type | None) -> tuple[SymbolicVar, ...]:
    """The symbolic dimensions of a type, each once, in order of appearance.

    Those that a function type's own parameters define are not among them.
    """
    match ty:
        case TensorType(shape=tuple() as dims) | ShapeType(values=tuple() as dims):
            found = [var for dim in dims if type(dim) is not int for var in dim_vars(dim)]
        case TupleType(fields=types):
            found = [var for item in types for var in type_symbols(item)]
        case FuncType(params=params, ret=ret):
            own = {var for item in params or () for var in definable_symbols(item)}
            inside = (var for item in (*(params or ()), ret) for var in type_symbols(item))
            found = [var for var in inside if var not in own]
        case _:
            found = []
    return tuple(dict.fromkeys(found))


def type_vars(ty: Type | None) -> tuple[Var, ...]:
    """The variables whose values are shapes in a type, each once, in order of appearance."""
    match ty:
        case TensorType(shape=Var() as var):
            return (var,)
        case TupleType(fields=types):
            return tuple(dict.fromkeys(var for item in types for var in type_vars(item)))
        case FuncType(params=params, ret=ret):
            inside = (*(params or ()), ret)
            return tuple(dict.fromkeys(var for item in inside for var in type_vars(item)))
        case _:
            return ()


def definable_symbols(ty: Type | None) -> tuple[SymbolicVar, ...]:
    """The symbolic dimensions that a value of this type tells: the bare ones in its shapes."""
    match ty:
        case TensorType(shape=tuple() as dims) | ShapeType(values=tuple() as dims):
            found = [dim for dim in dims if isinstance(dim, SymbolicVar)]
        case TupleType(fields=types):
            found = [var for item in types for var in definable_symbols(item)]
        case _:
            found = []
    return tuple(dict.fromkeys(found))


def value_symbols(value: Any) -> tuple[SymbolicVar, ...]:
    """The symbolic dimensions inside an attribute."""
    if isinstance(value, SymbolicExpr):
        return dim_vars(value)
    if isinstance(value, tuple | Attrs):
        items = value if isinstance(value, tuple) else value.values()
        # Nearly all are numbers and names, which hold no other.
        held = [value_symbols(item) for item in items if type(item) not in PLAIN]
        return tuple(dict.fromkeys(var for symbols in held for var in symbols)) if held else ()
    return type_symbols(value) if isinstance(value, Type) else ()


def expr_symbols(expr: Expr) -> tuple[SymbolicVar, ...]:
    """The symbolic dimensions that occur in `expr`: its shapes, attributes and types."""
    found: list[SymbolicVar] = []
    # Types that were looked at, by identity: a tuple may be large, and used often.
    seen: dict[int, Type | None] = {}
    for item in post_order(expr):
        match item:
            case Var():
                pass
            case ShapeExpr(values=values):
                found += value_symbols(values)
            case PrimExpr(value=value):
                found += value_symbols(value)
            case Call():
                found += value_symbols(item.attrs)
                found += [var for ty in item.ty_args for var in type_symbols(ty)]
        ty = item.ty
        if id(ty) not in seen:
            seen[id(ty)] = ty
            found += type_symbols(ty)
    return tuple(dict.fromkeys(found))


def map_children(expr: Expr, visit: Rule) -> Expr:
    """`expr` with `visit` applied to the expressions directly inside it."""
    if type(expr) in _LEAVES:
        return expr
    if isinstance(expr, Call):  # as most are
        return _map_call(expr, visit)
    match expr:
        case Var() | Op() | Constant():
            return expr
        case Tuple(fields=items):
            return _retyped(expr, fields=kept(items, map(visit, items)))
        case TupleGetItem():
            return _retyped(expr, tuple_value=visit(expr.tuple_value))
        case SeqExpr():
            changed = map_bindings(expr, lambda b: replace(b, value=visit(b.value)))
            return replace(changed, body=visit(expr.body))
        case If():
            return replace(
                expr,
                cond=visit(expr.cond),
                true_branch=visit(expr.true_branch),
                false_branch=visit(expr.false_branch),
            )
        case Function():
            return replace(expr, body=visit(expr.body))
        case _:
            return expr


def _map_call(call: Call, visit: Rule) -> Call:
    op, args = visit(call.op), kept(call.args, map(visit, call.args))
    same = op is call.op and args is call.args
    return call if same else replace(call, op=op, args=args)


def _retyped(expr: Expr, **changes: Any) -> Expr:
    """A tuple, or a field of one, with other children, which its type follows."""
    return expr if unchanged(expr, changes) else replace(expr, ty=None, **changes)


def _map_block(block: BindingBlock, change: Callable[[Binding], Binding | None]) -> BindingBlock:
    changed = (c for binding in block.bindings if (c := change(binding)) is not None)
    return replace(block, bindings=kept(block.bindings, changed))


def kept(old: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    """`new` as a tuple, or `old` itself where every item is the same object."""
    fresh = tuple(new)
    return old if len(fresh) == len(old) and all(map(is_, old, fresh)) else fresh


def _definitions(expr: Expr) -> Iterator[Var]:
    waiting: list[Expr | Binding] = [expr]
    while waiting:
        item = waiting.pop()
        if isinstance(item, VarBinding | MatchCast):  # what is in its value came before
            yield item.var
        elif isinstance(item, Function):
            yield from item.params
            waiting.append(item.body)
        elif isinstance(item, SeqExpr):
            for binding in reversed(tuple(item.bindings())):
                waiting.append(binding)
                if not is_call_of_leaves(binding.value):
                    waiting.append(binding.value)
        elif type(item) not in _LEAVES:
            waiting += reversed(_inner(item))
