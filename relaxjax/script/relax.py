"""The `R` of a script: types, values, the forms of statements, and every operator by its name."""

import builtins as _builtins
from typing import Any as _Any

from relaxjax.ir.expr import ShapeExpr

from .annotations import device_mesh
from .annotations import function as Callable
from .annotations import object_type as Any
from .annotations import object_type as Object
from .annotations import placed_tensor as DTensor
from .annotations import prim as Prim
from .annotations import shape as Shape
from .annotations import tensor as Tensor
from .annotations import tuple_of as Tuple
from .decorators import FunctionDecorator as _FunctionDecorator
from .decorators import MacroDecorator as _MacroDecorator
from .decorators import rewriter
from .forms import DataflowForm as dataflow
from .forms import func_attr, match_cast, output
from .namespace import Operators as _Operators
from .values import DEVICES as _DEVICES
from .values import (
    call_dps_packed,
    call_inplace_packed,
    call_packed,
    call_pure_packed,
    const,
    device,
    dtype,
    invoke_closure,
    invoke_pure_closure,
    prim_value,
    shape,
)
from .values import call_packed as call_py_func
from .values import extern_func as ExternFunc
from .values import string as str
from .values import tuple_get_item as TupleGetItem
from .values import tuple_of as tuple

__all__ = [
    "Any",
    "Callable",
    "DTensor",
    "ExternFunc",
    "Object",
    "Prim",
    "Shape",
    "ShapeExpr",
    "Tensor",
    "Tuple",
    "TupleGetItem",
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "call_py_func",
    "const",
    "cpu",
    "cuda",
    "dataflow",
    "device",
    "device_mesh",
    "dtype",
    "func_attr",
    "function",
    "invoke_closure",
    "invoke_pure_closure",
    "macro",
    "match_cast",
    "output",
    "prim_value",
    "rewriter",
    "rocm",
    "shape",
    "str",
    "tuple",
]

cpu, cuda, rocm = (_DEVICES[kind] for kind in ("cpu", "cuda", "rocm"))
function = _FunctionDecorator()
macro = _MacroDecorator()

_OPERATORS = _Operators("relax", "R", globals())


def __getattr__(name: _builtins.str) -> _Any:
    return _OPERATORS.member(name)


def __dir__() -> _builtins.list[_builtins.str]:
    return _OPERATORS.__dir__()
