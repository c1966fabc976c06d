"""Expressions, where TVM has them."""

from relaxjax.ir import Call as Call
from relaxjax.ir import Constant as Constant
from relaxjax.ir import DataflowBlock as DataflowBlock
from relaxjax.ir import DataflowVar as DataflowVar
from relaxjax.ir import DataTypeImm as DataTypeImm
from relaxjax.ir import Expr as Expr
from relaxjax.ir import ExternFunc as ExternFunc
from relaxjax.ir import Function as Function
from relaxjax.ir import GlobalVar as GlobalVar
from relaxjax.ir import If as If
from relaxjax.ir import MatchCast as MatchCast
from relaxjax.ir import PrimValue as PrimValue
from relaxjax.ir import SeqExpr as SeqExpr
from relaxjax.ir import ShapeExpr as ShapeExpr
from relaxjax.ir import StringImm as StringImm
from relaxjax.ir import Tuple as Tuple
from relaxjax.ir import TupleGetItem as TupleGetItem
from relaxjax.ir import Var as Var
from relaxjax.ir import VarBinding as VarBinding
from relaxjax.ir import const as const
from relaxjax.ir.function import Binding as Binding
from relaxjax.ir.function import BindingBlock as BindingBlock
