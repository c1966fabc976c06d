"""The `T` of a script: symbolic dimensions, and scalars of the host.

n = T.int64()     a symbolic dimension
n % 4 == 0        a comparison of dimensions: the condition of an `if`, or an R.prim_value; Python
                  code outside of scripts writes T.EQ(n % 4, 0) and T.NE, for its `==` is identity
T.max(n, 1)       arithmetic on dimensions, beside + - * // %; so T.floordiv, T.floormod, T.ceildiv
T.float64(0.5)    a number, or T.FloatImm("float64", 0.5)
x: T.int64        a parameter that is a number of the host
T.index_map(lambda n, c: (n, c // 4, c % 4))   a layout, for R.layout_transform
"""

from operator import floordiv as floordiv
from operator import mod as floormod
from typing import Any as _Any

from relaxjax.ir.dims import dim_max as max
from relaxjax.ir.dims import dim_min as min
from relaxjax.ir.dtypes import DLPACK_CODES as _DLPACK_CODES
from relaxjax.ir.index_map import index_map

from .namespace import unknown_member as _unknown_member
from .scalars import ScalarType as _ScalarType
from .scalars import ceildiv as ceildiv
from .scalars import equal as EQ
from .scalars import not_equal as NE
from .scalars import number as FloatImm
from .scalars import number as IntImm
from .scalars import symbolic_var as Var

__all__ = [
    "EQ",
    "NE",
    "FloatImm",
    "IntImm",
    "Var",
    "bfloat16",
    "bool",
    "ceildiv",
    "float16",
    "float32",
    "float64",
    "floordiv",
    "floormod",
    "index_map",
    "int8",
    "int16",
    "int32",
    "int64",
    "max",
    "min",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool, int8, int16, int32, int64 = map(_ScalarType, ("bool", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_ScalarType, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(_ScalarType, ("float16", "float32", "float64"))
bfloat16 = _ScalarType("bfloat16")


def __getattr__(name: str) -> _Any:
    if name in _DLPACK_CODES:  # the dtypes that are seldom a scalar's
        return _ScalarType(name)
    raise _unknown_member("T", name, globals())
