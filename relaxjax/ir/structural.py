"""Structural equality and hash: two programs are the same up to the names of what they bind.

Both rest on one walk that lays a program out as a flat list of facts, with bound variables and
bound symbolic dimensions replaced by numbers. Two programs are equal where their lists are.
"""

import hashlib
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, TypeAlias

from .attrs import Attrs
from .device_mesh import DeviceMesh, Placement
from .dim_variables import dim_vars, substitute_dim
from .dims import Dim, SymbolicExpr, SymbolicVar
from .expr import Constant, ExternFunc, GlobalVar, Var
from .function import Function, MatchCast, SeqExpr, VarBinding
from .global_info import VDevice
from .index_map import IndexMap
from .module import IRModule
from .node import Node
from .op import Op
from .types import FuncType, TensorType, Type
from .walk import definable_symbols

# Where a fact was found: the place around it, the step from there, and what stands here.
Place: TypeAlias = "tuple[Place | None, str | int, Any]"

_END = object()


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two pieces of IR are the same up to the names of what they bind.

    Free variables must be the very same objects, or with `map_free_vars` correspond one to one.
    Attributes, stated types, purity and the order of bindings count; spans and inferred types do
    not.
    """
    return _difference(lhs, rhs, map_free_vars) is None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise an AssertionError that shows the first difference, unless the two are equal."""
    difference = _difference(lhs, rhs, map_free_vars)
    if difference is not None:
        raise AssertionError(_difference_text(*difference))


def structural_hash(node: Any) -> int:
    """A number that equal pieces of IR share, with `map_free_vars` or without, in every process."""
    digest = hashlib.blake2b(digest_size=8)
    for token in _laid_out(node, _Symbols(), map_free_vars=True).tokens:
        digest.update(_stable_bytes(token))
    return int.from_bytes(digest.digest(), "big")


def _stable_bytes(token: Any) -> bytes:
    """The same bytes for equal tokens in every process."""
    if type(token) is str:  # as most are
        return repr(token).encode() + b"\n"
    if isinstance(token, Constant):
        return f"Constant {token.dtype} {token.data.shape} ".encode() + token.data.tobytes()
    if isinstance(token, IndexMap):  # whatever its parameters are called
        return f"IndexMap {token.ndim} {token.outputs!r}\n".encode()
    known = token if isinstance(token, SymbolicExpr) else type(token)
    return repr(known).encode() + b"\n"


def _difference(lhs: Any, rhs: Any, map_free_vars: bool) -> tuple[Place, Place] | None:
    """The places of the first two facts that differ."""
    symbols = _Symbols()
    left, right = (_laid_out(side, symbols, map_free_vars) for side in (lhs, rhs))
    # Neither list is the beginning of the other: each says where its parts begin and end.
    for index, (token, other) in enumerate(zip(left.tokens, right.tokens, strict=False)):
        if type(token) is not type(other) or token != other:
            return left.places[index], right.places[index]
    return None


def _laid_out(value: Any, symbols: "_Symbols", map_free_vars: bool) -> "_Layout":
    layout = _Layout(symbols, map_free_vars)
    layout.value((None, "", value))
    return layout


@dataclass
class _Symbols:
    """The stand-ins for symbolic dimensions, which both sides share; in order, as texts show it."""

    bound: list[SymbolicVar] = field(default_factory=list)
    free: list[SymbolicVar] = field(default_factory=list)

    def stand_in(self, kind: str, number: int) -> SymbolicVar:
        pool: list[SymbolicVar] = getattr(self, kind)
        while len(pool) <= number:
            pool.append(SymbolicVar(f"{kind}{len(pool)}"))
        return pool[number]


class _Layout:
    """The walk over one side, and its facts: a token each, and the place where it was found.

    What a scope binds is numbered inside it and forgotten behind it.
    """

    def __init__(self, symbols: _Symbols, map_free_vars: bool) -> None:
        self.tokens: list[Any] = []
        self.places: list[Place] = []
        self.symbols = symbols
        self.map_free_vars = map_free_vars
        self.vars: dict[Var, int] = {}
        self.dims: dict[SymbolicVar, Dim] = {}
        self.free_vars: dict[Var, int] = {}
        self.free_dims: dict[SymbolicVar, Dim] = {}

    def value(self, place: Place) -> None:
        """Lay out what stands at a place: a node, an attribute, a dimension."""
        value = place[2]
        for kind in type(value).__mro__:
            if kind in _WAYS:
                _WAYS[kind](self, value, place)
                return

    def whole(self, value: Any, place: Place) -> None:
        self.add(value, place)

    def named(self, value: Op | GlobalVar, place: Place) -> None:
        self.add(f"{type(value).__name__} {value.name}", place)

    def plain(self, value: Any, place: Place) -> None:
        """The text tells 1, 1.0 and True apart, and a nan is equal to a nan."""
        self.add(f"{type(value).__name__} {value!r}", place)

    def node(self, node: Node, place: Place) -> None:
        self.add(type(node).__name__, place)
        self.fields(node, place)

    def tensor_type(self, ty: TensorType, place: Place) -> None:
        """A placement is stated first: without one, a type has no fact more than its fields."""
        self.add(type(ty).__name__, place)
        if ty.placement is not None:
            self.value((place, ".placement", ty.placement))
        self.fields(ty, place)

    def binding(self, binding: VarBinding | MatchCast, place: Place) -> None:
        self.add(type(binding).__name__, place)
        ty = binding.ty if isinstance(binding, MatchCast) else None
        self.define_dims(ty)
        self.define(binding.var, (place, ".var", binding.var))
        self.value((place, ".value", binding.value))
        if isinstance(binding, MatchCast):
            self.value((place, ".ty", ty))

    def func_type(self, ty: FuncType, place: Place) -> None:
        with self.scope():
            self.define_dims(*(ty.params or ()))
            self.node(ty, place)

    def sequence(self, seq: SeqExpr, place: Place) -> None:
        with self.scope():
            self.node(seq, place)

    def module(self, module: IRModule, place: Place) -> None:
        self.add(type(module).__name__, place)
        for name in sorted(module):
            self.add(name, (place, name, module[name]))
            self.value((place, name, module[name]))
        self.add(_END, (place, "functions", _END))
        self.value((place, "attrs", module.attrs))
        self.value((place, "global_infos", Attrs(module.global_infos)))

    def function(self, function: Function, place: Place) -> None:
        self.add(type(function).__name__, place)
        with self.scope():
            self.define_dims(*(param.ty for param in function.params))
            for param in function.params:
                self.vars.setdefault(param, len(self.vars))
            for index, param in enumerate(function.params):
                self.define(param, (place, f".params[{index}]", param))
            self.add(_END, (place, f".params[{len(function.params)}]", _END))
            self.fields(function, place, skip="params")

    def add(self, token: Any, place: Place) -> None:
        self.tokens.append(token)
        self.places.append(place)

    def fields(self, node: Node, place: Place, skip: str = "") -> None:
        for name, step in _compared_fields(type(node)):  # type: ignore[arg-type]  # it is hashable
            if name != skip:
                self.value((place, step, getattr(node, name)))

    def items(self, items: tuple[Any, ...], place: Place) -> None:
        self.add("tuple", place)
        for index, item in enumerate(items):
            self.value((place, index, item))
        self.add(_END, (place, len(items), _END))

    def mapping(self, attrs: Attrs, place: Place) -> None:
        self.add("Attrs", place)
        for name, item in sorted(attrs.items()):
            step = f"[{name!r}]"
            self.add(step, (place, step, item))
            self.value((place, step, item))
        self.add(_END, (place, "[...]", _END))

    def define(self, var: Var, place: Place) -> None:
        """Number a variable; its type is stated where it is defined."""
        self.vars.setdefault(var, len(self.vars))
        self.var(var, place)
        self.value((place, ".ty", var.ty))

    def define_dims(self, *types: Type | None) -> None:
        """Number the symbolic dimensions that values of these types tell, unless they are known."""
        for ty in types:
            for symbol in definable_symbols(ty):
                if symbol not in self.dims:
                    self.dims[symbol] = self.symbols.stand_in("bound", len(self.dims))

    def var(self, var: Var, place: Place) -> None:
        """A bound variable is a number; so is a free one that may correspond to another."""
        kind = type(var).__name__
        if var in self.vars:
            self.add(f"{kind} {self.vars[var]}", place)
        elif not self.map_free_vars:
            self.add(var, place)
        elif var in self.free_vars:
            self.add(f"free {kind} {self.free_vars[var]}", place)
        else:
            self.free_vars[var] = len(self.free_vars)
            self.add(f"free {kind} {self.free_vars[var]}", place)
            self.value((place, ".ty", var.ty))

    def dim(self, dim: SymbolicExpr) -> Dim:
        """`dim` in terms of stand-ins, so that canonical forms on both sides can be compared."""
        if not self.map_free_vars:
            return substitute_dim(dim, self.dims)
        for var in dim_vars(dim):
            if var not in self.dims and var not in self.free_dims:
                self.free_dims[var] = self.symbols.stand_in("free", len(self.free_dims))
        return substitute_dim(dim, ChainMap(self.dims, self.free_dims))

    @contextmanager
    def scope(self) -> Iterator[None]:
        outer_vars, outer_dims = len(self.vars), len(self.dims)
        yield
        while len(self.vars) > outer_vars:
            self.vars.popitem()
        while len(self.dims) > outer_dims:
            self.dims.popitem()


# The ways to lay out what is of a class, or of one that is derived from it.
_WAYS: dict[type, Callable[[_Layout, Any, Place], None]] = {
    SymbolicExpr: lambda layout, dim, place: layout.add(layout.dim(dim), place),
    Var: _Layout.var,
    Op: _Layout.named,
    GlobalVar: _Layout.named,
    Constant: _Layout.whole,
    IRModule: _Layout.module,
    Function: _Layout.function,
    FuncType: _Layout.func_type,
    TensorType: _Layout.tensor_type,
    SeqExpr: _Layout.sequence,
    VarBinding: _Layout.binding,
    MatchCast: _Layout.binding,
    Node: _Layout.node,
    tuple: _Layout.items,
    Attrs: _Layout.mapping,
    **dict.fromkeys(
        (type(None), int, float, complex, str, VDevice, DeviceMesh, Placement), _Layout.plain
    ),
    object: _Layout.whole,
}


@cache
def _compared_fields(kind: type[Node]) -> tuple[tuple[str, str], ...]:
    """What dataclass equality counts, and what is stated beside it; a step for each."""
    stated = ("ty",) if kind is ExternFunc else ()
    names = (*(item.name for item in fields(kind) if item.compare), *stated)
    return tuple((name, f".{name}") for name in names)


def _difference_text(left: Place, right: Place) -> str:
    paths = _path(left), _path(right)
    where = paths[0] if paths[0] == paths[1] else f"{paths[0]} and {paths[1]}"
    text = f"the two differ at {where or 'their root'}"
    for side, place in (("left", left), ("right", right)):
        text += f"\n{side}:\n{_indented(place[2])}"
        binding = _binding_around(place)
        if binding is not None and binding is not place[2]:
            text += f"\n  in\n{_indented(binding)}"
    return text


def _path(place: Place) -> str:
    steps = []
    around: Place | None = place
    while around is not None:
        step = around[1]
        steps.append(step if isinstance(step, str) else f"[{step}]")
        around = around[0]
    return "".join(reversed(steps)).lstrip(".")


def _binding_around(place: Place) -> Node | None:
    """The innermost binding that a place is in."""
    around: Place | None = place
    while around is not None:
        if isinstance(around[2], VarBinding | MatchCast):
            return around[2]
        around = around[0]
    return None


def _indented(value: Any) -> str:
    """`value` as a few short lines: a difference is to be seen at a glance."""
    if value is _END:
        return "    nothing more"
    text = value.script(show_meta=False) if isinstance(value, Node) else repr(value)
    lines = [line if len(line) <= 160 else f"{line[:159]}…" for line in text.splitlines()]
    shown = lines if len(lines) <= 8 else [*lines[:7], f"… and {len(lines) - 7} more lines"]
    return "\n".join(f"    {line}" for line in shown)
