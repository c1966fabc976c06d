"""What the saved form of each kind of node consists of, and how a node is made of it.

Each kind has named fields, and each field a rule that says what may stand there, because whoever
wrote a document may not be trusted: a node is made only of fields that keep their rules.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .attrs import Attrs
from .device_mesh import DeviceMesh, Placement
from .dims import ATOMS, DimOp, SymbolicExpr, SymbolicVar, apply_kind, polynomial
from .expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    np_dtype,
)
from .function import BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from .global_info import DummyGlobalInfo, VDevice
from .index_map import IndexMap, index_axes, index_map_over
from .module import IRModule
from .node import Node
from .op import Op, get_op
from .types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type

# What has a place of its own in the table of a document.
Entry: TypeAlias = (
    Node | SymbolicExpr | VDevice | DummyGlobalInfo | IndexMap | DeviceMesh | Placement
)
ENTRIES = (Node, SymbolicExpr, VDevice, DummyGlobalInfo, IndexMap, DeviceMesh, Placement)

MAX_POWER = 64
MAX_RANK = 255


@dataclass(frozen=True, slots=True)
class Rule:
    """What may stand in a field. None may stand there where it is `optional`."""

    text: str
    accepts: Callable[[Any], bool]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of node: its fields, how they are read off a node, and how they make one."""

    rules: Mapping[str, Rule]
    read: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]


def kind_name(entry: Entry) -> str:
    """The name of an entry's kind; what cannot be saved is an error."""
    name = "Op" if isinstance(entry, Op) else type(entry).__name__
    if name not in KINDS:
        raise TypeError(f"a node of type {name} cannot be saved")
    return name


def _instance(text: str, *kinds: Any, optional: bool = False) -> Rule:
    return Rule(text, lambda value: isinstance(value, kinds), optional)


def _tuple_of(item: Rule, optional: bool = False) -> Rule:
    def accepts(value: Any) -> bool:
        return isinstance(value, tuple) and all(map(item.accepts, value))

    return Rule(f"a tuple, each item {item.text}", accepts, optional)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_terms(value: Any) -> bool:
    pairs = isinstance(value, tuple) and all(isinstance(t, tuple) and len(t) == 2 for t in value)
    return pairs and all(_is_int(count) and _is_monomial(factors) for factors, count in value)


def _is_monomial(value: Any) -> bool:
    pairs = isinstance(value, tuple) and all(isinstance(f, tuple) and len(f) == 2 for f in value)
    return pairs and all(
        _is_factor(atom) and _is_int(power) and 1 <= power <= MAX_POWER for atom, power in value
    )


def _is_factor(value: Any) -> bool:
    return isinstance(value, SymbolicVar | DimOp) and value.dtype == "int64"


def _is_functions(value: Any) -> bool:
    pairs = isinstance(value, tuple) and all(isinstance(p, tuple) and len(p) == 2 for p in value)
    return pairs and all(
        isinstance(name, str) and isinstance(function, Function | ExternFunc)
        for name, function in value
    )


TEXT = _instance("a string", str)
OPTIONAL_TEXT = _instance("a string", str, optional=True)
FLAG = _instance("true or false", bool)
INTEGER = Rule("an integer", _is_int)
RANK = Rule(f"an integer from -1 to {MAX_RANK}", lambda v: _is_int(v) and -1 <= v <= MAX_RANK)
ATTRS = _instance("attributes", Attrs)
DIM = Rule("an integer or a dimension", lambda v: _is_int(v) or isinstance(v, SymbolicExpr))
SCALAR = Rule(
    "a number, a flag or a dimension", lambda v: isinstance(v, int | float | SymbolicExpr)
)
TYPE = _instance("a type", Type)
OPTIONAL_TYPE = _instance("a type", Type, optional=True)
ANYTHING = Rule("a value", lambda value: True, optional=True)
EXPR = _instance("an expression", Expr)
VAR = _instance("a variable", Var)
SEQUENCE = _instance("a SeqExpr", SeqExpr)
_PART = Rule("a dimension or nothing", lambda v: v is None or (_is_int(v) and v >= 0))
OPERATOR = Rule(f"one of {', '.join(ATOMS)}", lambda value: value in ATOMS)
SHAPE = Rule(
    "a tuple of dimensions or a variable",
    lambda value: isinstance(value, Var) or _tuple_of(DIM).accepts(value),
    optional=True,
)


def _make_constant(dtype: str, shape: tuple[int, ...], data: str, **node: Any) -> Constant:
    """A tensor of its bytes, of which there must be as many as dtype and shape say."""
    number = np_dtype(dtype) if re.fullmatch(r"[a-z0-9_]{1,32}", dtype) else None
    if number is None:
        raise ValueError(f"there is no dtype `{dtype}` for tensors")
    if any(size < 0 for size in shape):
        raise ValueError(f"a shape has no negative sizes, found {shape}")
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the data is no base64: {error}") from None
    wanted = math.prod(shape) * number.itemsize
    if len(content) != wanted:
        raise ValueError(f"{dtype} {shape} takes {wanted} bytes, found {len(content)}")
    stored = np.frombuffer(content, number.newbyteorder("<")).reshape(shape)
    return Constant(stored.astype(number), **node)


def _read_constant(constant: Constant) -> dict[str, Any]:
    little = constant.data.astype(constant.data.dtype.newbyteorder("<"))
    return {
        "dtype": constant.dtype,
        "shape": constant.data.shape,
        "data": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def _make_module(
    functions: tuple[tuple[str, Any], ...], attrs: Attrs, global_infos: Attrs, **node: Any
) -> IRModule:
    if len(dict(functions)) != len(functions):
        raise ValueError("two functions have the same name")
    if not all(isinstance(infos, tuple) for infos in global_infos.values()):
        raise ValueError("each item of `global_infos` must be a tuple")
    return IRModule(dict(functions), attrs, global_infos, **node)


def _read_module(module: IRModule) -> dict[str, Any]:
    functions = tuple((var.name, function) for var, function in module.functions.items())
    return {
        "functions": functions,
        "attrs": module.attrs,
        "global_infos": Attrs(module.global_infos),
    }


def _make_op(name: str, span: Any = None) -> Op:
    try:
        return get_op(name)
    except KeyError as error:
        raise ValueError(error.args[0]) from None


def _read_function_type(ty: FuncType) -> dict[str, Any]:
    if ty.derive is not None:
        raise TypeError("a FuncType with a `derive` function cannot be saved")
    return {"params": ty.params, "ret": ty.ret, "pure": ty.pure}


def _fields(make: Callable[..., Any], **rules: Rule) -> Kind:
    """A kind whose fields are the attributes of the node, and the arguments that make it."""
    return Kind(rules, lambda entry: {name: getattr(entry, name) for name in rules}, make)


KINDS: dict[str, Kind] = {
    "SymbolicVar": _fields(SymbolicVar, name=TEXT),
    "DimOp": Kind(
        {"operator": OPERATOR, "lhs": DIM, "rhs": DIM},
        lambda dim: {"operator": dim.kind, "lhs": dim.lhs, "rhs": dim.rhs},
        lambda operator, lhs, rhs: apply_kind(operator, lhs, rhs),
    ),
    "DimExpr": _fields(polynomial, terms=Rule("pairs of a monomial and a coefficient", _is_terms)),
    "ObjectType": _fields(ObjectType),
    "PrimType": _fields(PrimType, dtype=TEXT),
    "ShapeType": _fields(ShapeType, values=_tuple_of(DIM, optional=True), ndim=RANK),
    "TensorType": _fields(
        TensorType,
        shape=SHAPE,
        dtype=OPTIONAL_TEXT,
        ndim=RANK,
        vdevice=OPTIONAL_TEXT,
        placement=_instance("a placement", Placement, optional=True),
    ),
    "TupleType": _fields(TupleType, fields=_tuple_of(TYPE)),
    "FuncType": Kind(
        {"params": _tuple_of(TYPE, optional=True), "ret": TYPE, "pure": FLAG},
        _read_function_type,
        FuncType,
    ),
    "Op": Kind({"name": TEXT}, lambda op: {"name": op.name}, _make_op),
    "Var": _fields(Var, name=TEXT, ty=OPTIONAL_TYPE),
    "DataflowVar": _fields(DataflowVar, name=TEXT, ty=OPTIONAL_TYPE),
    "GlobalVar": _fields(GlobalVar, name=TEXT, ty=OPTIONAL_TYPE),
    "ExternFunc": _fields(ExternFunc, symbol=TEXT, attrs=ATTRS, ty=OPTIONAL_TYPE),
    "Call": _fields(
        Call, op=EXPR, args=_tuple_of(EXPR), attrs=ATTRS, ty_args=_tuple_of(TYPE), ty=OPTIONAL_TYPE
    ),
    "Tuple": _fields(Tuple, fields=_tuple_of(EXPR)),
    "TupleGetItem": _fields(TupleGetItem, tuple_value=EXPR, index=INTEGER, ty=OPTIONAL_TYPE),
    "Constant": Kind(
        {"dtype": TEXT, "shape": _tuple_of(INTEGER), "data": TEXT}, _read_constant, _make_constant
    ),
    "ShapeExpr": _fields(ShapeExpr, values=_tuple_of(DIM)),
    "PrimExpr": _fields(PrimExpr, value=SCALAR, dtype=TEXT),
    "StringImm": _fields(StringImm, value=TEXT, ty=OPTIONAL_TYPE),
    "DataTypeImm": _fields(DataTypeImm, value=TEXT, ty=OPTIONAL_TYPE),
    "SeqExpr": _fields(SeqExpr, blocks=_tuple_of(_instance("a block", BindingBlock)), body=EXPR),
    "If": _fields(If, cond=EXPR, true_branch=SEQUENCE, false_branch=SEQUENCE, ty=OPTIONAL_TYPE),
    "Function": _fields(
        Function, params=_tuple_of(VAR), body=SEQUENCE, ret_ty=TYPE, pure=FLAG, attrs=ATTRS
    ),
    "VarBinding": _fields(VarBinding, var=VAR, value=EXPR, derived_from=OPTIONAL_TEXT),
    "MatchCast": _fields(MatchCast, var=VAR, value=EXPR, ty=TYPE, derived_from=OPTIONAL_TEXT),
    "BindingBlock": _fields(
        BindingBlock, bindings=_tuple_of(_instance("a binding", VarBinding, MatchCast))
    ),
    "DataflowBlock": _fields(
        DataflowBlock, bindings=_tuple_of(_instance("a binding", VarBinding, MatchCast))
    ),
    "VDevice": _fields(VDevice, target=ANYTHING, device_id=INTEGER, memory_scope=TEXT),
    "DeviceMesh": _fields(
        DeviceMesh, shape=_tuple_of(INTEGER), devices=_tuple_of(INTEGER), axes=_tuple_of(TEXT)
    ),
    "Placement": _fields(Placement, mesh=_instance("a mesh", DeviceMesh), parts=_tuple_of(_PART)),
    "DummyGlobalInfo": _fields(DummyGlobalInfo),
    "IndexMap": Kind(
        {
            "names": _tuple_of(TEXT),
            "axes": _tuple_of(_instance("a variable of a place", SymbolicVar)),
            "outputs": _tuple_of(DIM),
        },
        lambda layout: {
            "names": layout.names,
            "axes": index_axes(layout.ndim),
            "outputs": layout.outputs,
        },
        index_map_over,
    ),
    "IRModule": Kind(
        {
            "functions": Rule("pairs of a name and a function", _is_functions),
            "attrs": ATTRS,
            "global_infos": ATTRS,
        },
        _read_module,
        _make_module,
    ),
}
