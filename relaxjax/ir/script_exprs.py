"""Types, expressions and attributes as script text, each on one line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any, TypeGuard

import numpy as np

from .attrs import DESTINATION_PASSING
from .device_mesh import MESHES, DeviceMesh, Placement
from .dims import Dim, SymbolicExpr, SymbolicVar, dim_text
from .expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    prim_dtype,
)
from .identifiers import Identifiers, identifier
from .index_map import IndexMap
from .literals import array_text, number_text, string_text
from .op import Op, Param
from .tensor_json import KIND
from .types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType
from .wording import tuple_text

DIALECTS = {"relax": "R", "lax": "L"}


# What writes a node, by its class.
Writers = Mapping[type, Callable[[Any, Any], Any]]


def writer_of(writers: Writers, node: object) -> Callable[[Any, Any], Any] | None:
    """The writer for the class of a node, or for the nearest of its base classes."""
    for kind in type(node).__mro__:
        if kind in writers:
            return writers[kind]
    return None


class ScriptExprs:
    """Writes nodes as text, and keeps what the text refers to: names, constants, prefixes."""

    def __init__(self, module_alias: str, syntax_sugar: bool) -> None:
        self.module_alias = module_alias
        self.syntax_sugar = syntax_sugar
        self.prefixes: set[str] = set()
        self.meshes: Sequence[Any] = ()  # those that the module lists
        self.constants: list[np.ndarray[Any, Any]] = []
        self._constant_index: dict[int, int] = {}
        self.start_scope()

    def start_scope(self, *taken: str) -> None:
        """Forget all variables: a function of the module begins."""
        self.names = Identifiers({self.module_alias, *taken})
        self.var_names: dict[Var, str] = {}
        self.used_vars: set[Var] = set()
        self.symbol_names: dict[SymbolicVar, str] = {}
        self.quotes_dims = False
        self.calls_module = False

    def text(self, node: Any) -> str:
        """The text of a type or an expression."""
        write = writer_of(WRITERS, node)
        return f"<{type(node).__name__}>" if write is None else str(write(self, node))

    def value_text(self, value: Any) -> str:
        """The text of an attribute."""
        match value:
            case None | bool() | int() | float() | complex():
                return number_text(value)
            case str():
                return string_text(value)
            case list() | tuple():
                return f"[{', '.join(map(self.value_text, value))}]"
            case Mapping():
                items = (f"{string_text(k)}: {self.value_text(v)}" for k, v in value.items())
                return f"{{{', '.join(items)}}}"
            case SymbolicExpr():
                return self.dim(value)
            case _:
                write = writer_of(WRITERS, value)
                return repr(value) if write is None else str(write(self, value))

    def var(self, var: Var) -> str:
        """The name of a variable, given where it appears first."""
        if var not in self.var_names:
            self.var_names[var] = self.names.unique(var.name)
        return self.var_names[var]

    def symbol(self, symbol: SymbolicVar) -> str:
        if symbol not in self.symbol_names:
            self.symbol_names[symbol] = self.names.unique(symbol.name)
        return self.symbol_names[symbol]

    def dim(self, dim: Dim) -> str:
        """A dimension. In a signature, where no symbol is declared yet, symbols stand in quotes."""
        text = dim_text(dim, self.symbol)
        if isinstance(dim, int):
            return text
        if text.startswith("T.") or not isinstance(dim, SymbolicVar):
            self.prefixes.add("T")
        return f'"{text}"' if self.quotes_dims else text

    def _r(self, name: str, *parts: str, **named: str | None) -> str:
        """`R.name(parts, key=value)`; what is named None is left out."""
        self.prefixes.add("R")
        pairs = [f"{key}={value}" for key, value in named.items() if value is not None]
        return f"R.{name}({', '.join([*parts, *pairs])})"

    def _dims(self, dims: Iterable[Dim]) -> list[str]:
        return [self.dim(dim) for dim in dims]

    # Types

    def _object_type(self, ty: ObjectType) -> str:
        self.prefixes.add("R")
        return "R.Object"

    def _prim_type(self, ty: PrimType) -> str:
        return self._r("Prim", string_text(ty.dtype))

    def _shape_type(self, ty: ShapeType) -> str:
        if ty.values is not None:
            return self._r("Shape", f"[{', '.join(self._dims(ty.values))}]")
        return self._r("Shape", ndim=str(ty.ndim)) if ty.ndim >= 0 else self._bare("Shape")

    def _tensor_type(self, ty: TensorType) -> str:
        if ty.placement is not None:
            return self._placed_tensor(ty, ty.placement)
        dtype = None if ty.dtype is None else string_text(ty.dtype)
        ndim = str(ty.ndim) if ty.shape is None and ty.ndim >= 0 else None
        vdevice = None if ty.vdevice is None else string_text(ty.vdevice)
        shape = self._tensor_shape(ty)
        if not shape and dtype is ndim is vdevice is None:
            return self._bare("Tensor")
        return self._r("Tensor", *shape, dtype=dtype, ndim=ndim, vdevice=vdevice)

    def _placed_tensor(self, ty: TensorType, placement: Placement) -> str:
        mesh, text = self.value_text(placement.mesh), string_text(placement.text)
        shape = self._tensor_shape(ty)
        if shape and ty.dtype is not None and ty.vdevice is None:
            return self._r("DTensor", *shape, string_text(ty.dtype), mesh, text)
        dtype = None if ty.dtype is None else string_text(ty.dtype)
        ndim = str(ty.ndim) if not shape and ty.ndim >= 0 else None
        vdevice = None if ty.vdevice is None else string_text(ty.vdevice)
        named = {"dtype": dtype, "device_mesh": mesh, "placement": text, "vdevice": vdevice}
        return self._r("DTensor", *shape, **named, ndim=ndim)

    def _tensor_shape(self, ty: TensorType) -> list[str]:
        if isinstance(ty.shape, Var):
            return [self.var(ty.shape)]
        return [] if ty.shape is None else [tuple_text(self._dims(ty.dims or ()))]

    def _tuple_type(self, ty: TupleType) -> str:
        return self._r("Tuple", *map(self.text, ty.fields))

    def _func_type(self, ty: FuncType) -> str:
        if ty.params is None:
            ret = None if isinstance(ty.ret, ObjectType) else self.text(ty.ret)
            return self._r("Callable", ret=ret, purity=str(ty.pure))
        params = tuple_text(map(self.text, ty.params))
        return self._r("Callable", params, self.text(ty.ret), str(ty.pure))

    def _bare(self, name: str) -> str:
        self.prefixes.add("R")
        return f"R.{name}"

    def _mesh(self, mesh: DeviceMesh) -> str:
        """A mesh, by its place in the module's list where that has it."""
        if mesh in self.meshes:
            return string_text(f"{MESHES}[{self.meshes.index(mesh)}]")
        self.prefixes.update(("R", "I"))
        return repr(mesh)

    def _index_map(self, layout: IndexMap) -> str:
        self.prefixes.add("T")
        return repr(layout)

    # Expressions

    def _var(self, var: Var) -> str:
        self.used_vars.add(var)
        return self.var(var)

    def _global_var(self, var: GlobalVar) -> str:
        self.calls_module = True
        return f"{self.module_alias}.{var.name}"

    def _extern_func(self, function: ExternFunc) -> str:
        symbol = string_text(function.symbol)
        plain = _is_opaque(function) and not _is_pure(function)
        return self._r("ExternFunc", symbol, *([] if plain else [self.text(function.ty)]))

    def _op(self, operator: Op) -> str:
        dialect, _, rest = operator.name.partition(".")
        prefix = DIALECTS.get(dialect, "I")
        self.prefixes.add(prefix)
        return f"I.Op({string_text(operator.name)})" if prefix == "I" else f"{prefix}.{rest}"

    def _constant(self, constant: Constant) -> str:
        text = array_text(constant.data)
        if text is not None:
            return self._r("const", text, string_text(constant.dtype))
        index = self._constant_index.get(id(constant.data))
        if index is None:
            index = self._constant_index[id(constant.data)] = len(self.constants)
            self.constants.append(constant.data)
        return f'metadata["{KIND}"][{index}]'

    def _shape_expr(self, shape: ShapeExpr) -> str:
        return self._r("shape", f"[{', '.join(self._dims(shape.values))}]")

    def _prim_expr(self, prim: PrimExpr) -> str:
        value = prim.value
        text = self.dim(value) if isinstance(value, SymbolicExpr) else number_text(value)
        if prim.dtype == prim_dtype(value):
            return self._r("prim_value", text)
        self.prefixes.add("T")
        return f"T.{prim.dtype}({text})"

    def _string_imm(self, string: StringImm) -> str:
        return self._r("str", string_text(string.value))

    def _data_type_imm(self, dtype: DataTypeImm) -> str:
        return self._r("dtype", string_text(dtype.value))

    def _tuple(self, value: Tuple) -> str:
        items = list(map(self.text, value.fields))
        return tuple_text(items) if items and self.syntax_sugar else self._r("tuple", *items)

    def _tuple_get_item(self, item: TupleGetItem) -> str:
        value = self.text(item.tuple_value)
        if isinstance(item.tuple_value, Tuple):
            # Python itself would take the field out of a tuple that is written out.
            return self._r("TupleGetItem", value, str(item.index))
        return f"{value}[{item.index}]"

    def _call(self, call: Call) -> str:
        if call.attrs.get(DESTINATION_PASSING) and isinstance(call.op, ExternFunc):
            return self._destination_passing(call, call.op)
        callee, args = self._callee(call)
        parts = [*args, *self._named(_said(call))]
        if call.ty_args:
            parts.append(f"ty_args={tuple_text(map(self.text, call.ty_args))}")
        return f"{callee}({', '.join(parts)})"

    def _destination_passing(self, call: Call, function: ExternFunc) -> str:
        (ty,) = call.ty_args
        several = isinstance(ty, TupleType)
        types = ", ".join(map(self.text, ty.fields if isinstance(ty, TupleType) else [ty]))
        args = tuple_text(map(self.text, call.args)) if call.args else self._r("tuple")
        result = f"out_ty={f'[{types}]' if several else types}"
        return self._r("call_dps_packed", string_text(function.symbol), args, result)

    def _named(self, attrs: Mapping[str, Any]) -> list[str]:
        """Attributes as arguments by name, in a mapping where Python has no such name."""
        names = [name for name in attrs if identifier(name) == name and not iskeyword(name)]
        named = [f"{name}={self.value_text(attrs[name])}" for name in names]
        others = {name: value for name, value in attrs.items() if name not in names}
        return [*named, f"**{self.value_text(others)}"] if others else named

    def _callee(self, call: Call) -> tuple[str, list[str]]:
        """What is called, and the arguments. Functions from outside are called by their name."""
        args = list(map(self.text, call.args))
        if _is_opaque(call.op):
            return self._bare(_packed(call.op)), [string_text(call.op.symbol), *args]
        callee = self.text(call.op)
        if not isinstance(call.op, Op) and (call.attrs or call.ty_args):
            return self._bare(_packed(call.op)), [callee, *args]
        if call.args and callee.startswith("R.call_") and _is_opaque(call.args[0]):
            args[0] = string_text(call.args[0].symbol)
        params = getattr(call.op, "params", ()) if isinstance(call.op, Op) else ()
        return callee, _named_where_needed(params, args)


WRITERS: Writers = {
    ObjectType: ScriptExprs._object_type,
    PrimType: ScriptExprs._prim_type,
    ShapeType: ScriptExprs._shape_type,
    TensorType: ScriptExprs._tensor_type,
    TupleType: ScriptExprs._tuple_type,
    FuncType: ScriptExprs._func_type,
    IndexMap: ScriptExprs._index_map,
    DeviceMesh: ScriptExprs._mesh,
    Var: ScriptExprs._var,
    GlobalVar: ScriptExprs._global_var,
    ExternFunc: ScriptExprs._extern_func,
    Op: ScriptExprs._op,
    Constant: ScriptExprs._constant,
    ShapeExpr: ScriptExprs._shape_expr,
    PrimExpr: ScriptExprs._prim_expr,
    StringImm: ScriptExprs._string_imm,
    DataTypeImm: ScriptExprs._data_type_imm,
    Tuple: ScriptExprs._tuple,
    TupleGetItem: ScriptExprs._tuple_get_item,
    Call: ScriptExprs._call,
}


def _named_where_needed(params: Sequence[Param], args: list[str]) -> list[str]:
    """The arguments, by name from where an attribute stands before them in the signature."""
    positional = next((i for i, param in enumerate(params) if not param.is_arg), len(args))
    if len(args) <= positional or any(param.variadic for param in params):
        return args
    names = [param.name for param in params if param.is_arg][positional:]
    named = [f"{name}={arg}" for name, arg in zip(names, args[positional:], strict=False)]
    return [*args[:positional], *named]


def _said(call: Call) -> Mapping[str, Any]:
    """The attributes that a text has: TVM, which reads it, does not know all of them."""
    if not isinstance(call.op, Op) or "own" not in call.op.facts:
        return call.attrs
    own = {
        param.name: param.default for param in call.op.params if param.name in call.op.facts["own"]
    }
    return {
        name: value for name, value in call.attrs.items() if name not in own or value != own[name]
    }


def _is_opaque(value: Any) -> TypeGuard[ExternFunc]:
    """Whether this is a function from outside of which no more than its purity is known."""
    if not isinstance(value, ExternFunc):
        return False
    ty: Any = value.ty
    return ty is None or (ty.params is None and isinstance(ty.ret, ObjectType))


def _is_pure(function: Any) -> bool:
    return bool(getattr(function.ty, "pure", False))


def _packed(function: Any) -> str:
    return "call_pure_packed" if _is_pure(function) else "call_packed"
