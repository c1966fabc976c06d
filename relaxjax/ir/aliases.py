"""The names that types and scalars had up to TVM 0.25, each with its name of today."""

from .expr import PrimExpr as PrimValue
from .types import FuncType as FuncStructInfo
from .types import ObjectType as AnyType
from .types import ObjectType as ObjectStructInfo
from .types import PrimType as PrimStructInfo
from .types import ShapeType as ShapeStructInfo
from .types import TensorType as TensorStructInfo
from .types import TupleType as TupleStructInfo
from .types import Type as StructInfo

__all__ = [
    "AnyType",
    "FuncStructInfo",
    "ObjectStructInfo",
    "PrimStructInfo",
    "PrimValue",
    "ShapeStructInfo",
    "StructInfo",
    "TensorStructInfo",
    "TupleStructInfo",
]
