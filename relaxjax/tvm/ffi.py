"""What programs take from `tvm_ffi`: its containers are those of Python here."""

from relaxjax.ir.expr import Expr as Object
from relaxjax.script.values import shape as Shape

from .ir_queries import structural_hash as structural_hash
from .packed import get_global_func as get_global_func
from .packed import register_global_func as register_global_func

Array = list
Map = dict
String = str

__all__ = [
    "Array",
    "Map",
    "Object",
    "Shape",
    "String",
    "get_global_func",
    "register_global_func",
    "structural_hash",
]
