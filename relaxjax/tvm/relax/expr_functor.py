"""Visitors and mutators: classes with a method for each kind of node, where TVM has them.

A method that is not overridden visits what is inside. A mutator emits what it makes into its
`builder_`: what an overriding method emits there comes before the binding that it visits.
"""

from typing import Any, TypeVar

from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import (
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
)
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
)
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace, unchanged
from relaxjax.ir.op import Op
from relaxjax.ir.types import Type
from relaxjax.ir.walk import all_vars, children, kept

from .block_builder import BlockBuilder

Class = TypeVar("Class", bound=type)

_METHODS = {
    Call: "visit_call_",
    Constant: "visit_constant_",
    DataTypeImm: "visit_data_type_imm_",
    DataflowVar: "visit_dataflow_var_",
    ExternFunc: "visit_extern_func_",
    Function: "visit_function_",
    GlobalVar: "visit_global_var_",
    If: "visit_if_",
    Op: "visit_op_",
    PrimExpr: "visit_prim_value_",
    SeqExpr: "visit_seq_expr_",
    ShapeExpr: "visit_shape_expr_",
    StringImm: "visit_string_imm_",
    Tuple: "visit_tuple_",
    TupleGetItem: "visit_tuple_getitem_",
    Var: "visit_var_",
}
_WITHOUT_METHOD = "visit_expr_fallback_"


class ExprFunctor:
    """A method for each kind of node, found by its class."""

    def visit_expr(self, expr: Expr) -> Any:
        """Visit an expression by the method of its kind."""
        return getattr(self, _METHODS.get(type(expr), _WITHOUT_METHOD))(expr)

    def visit_binding(self, binding: Binding) -> None:
        """Visit a binding by the method of its kind."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        else:
            self.visit_var_binding_(binding)

    def visit_binding_block(self, block: BindingBlock) -> None:
        """Visit a block by the method of its kind."""
        if isinstance(block, DataflowBlock):
            self.visit_dataflow_block_(block)
        else:
            self.visit_binding_block_(block)

    def visit_var_def(self, var: Var) -> Any:
        """Visit a variable where it is defined."""
        dataflow = isinstance(var, DataflowVar)
        return self.visit_dataflow_var_def_(var) if dataflow else self.visit_var_def_(var)

    def visit_var_binding_(self, binding: Any, /) -> None:
        raise NotImplementedError

    def visit_match_cast_(self, binding: MatchCast, /) -> None:
        raise NotImplementedError

    def visit_binding_block_(self, block: BindingBlock, /) -> None:
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_dataflow_block_(self, block: DataflowBlock, /) -> None:
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_var_def_(self, var: Var, /) -> Any:
        return var

    def visit_dataflow_var_def_(self, var: Var, /) -> Any:
        return self.visit_var_def_(var)

    def visit_constant_(self, constant: Constant, /) -> Any:
        return self.visit_generic_const_(constant)

    def visit_var_(self, expr: Expr, /) -> Any:
        """A leaf: there is nothing inside."""
        return expr

    visit_data_type_imm_ = visit_dataflow_var_ = visit_extern_func_ = visit_var_
    visit_generic_const_ = visit_global_var_ = visit_op_ = visit_prim_value_ = visit_var_
    visit_shape_expr_ = visit_string_imm_ = visit_expr_fallback_ = visit_var_


class PyExprVisitor(ExprFunctor):
    """Looks at a program: children first where a method asks for them by `super()`."""

    def visit_var_binding_(self, binding: Any, /) -> None:
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    visit_match_cast_ = visit_var_binding_

    def visit_call_(self, expr: Expr, /) -> None:
        for child in children(expr):
            self.visit_expr(child)

    visit_tuple_ = visit_tuple_getitem_ = visit_if_ = visit_call_

    def visit_seq_expr_(self, seq: SeqExpr, /) -> None:
        for block in seq.blocks:
            self.visit_binding_block(block)
        self.visit_expr(seq.body)

    def visit_function_(self, function: Function, /) -> None:
        for param in function.params:
            self.visit_var_def(param)
        self.visit_expr(function.body)


class PyExprMutator(ExprFunctor):
    """Makes another program: a method gives what stands in the place of what it was given."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[Var, Var] = {}

    def visit_expr(self, expr: Expr) -> Any:
        """What stands in the place of an expression, typed, with what is nested in it bound."""
        changed = super().visit_expr(expr)
        if not isinstance(changed, Expr):
            raise TypeError(
                f"a method of {type(self).__name__} must give an expression in the place of "
                f"`{expr}`, found {changed!r}; to leave it as it is, give it back"
            )
        nested = isinstance(changed, Call | Tuple | TupleGetItem | If)
        return self.builder_.normalize(changed) if nested else changed

    def visit_expr_post_order(self, expr: Expr) -> Expr:
        """An expression with what is inside it visited, but not itself."""
        method = getattr(PyExprMutator, _METHODS.get(type(expr), _WITHOUT_METHOD))
        changed = method(self, expr)
        return self.builder_.normalize(changed) if isinstance(changed, Call) else changed

    def visit_with_new_scope(self, expr: Expr) -> SeqExpr:
        """An expression as a sequence of its own."""
        if isinstance(expr, SeqExpr):
            return self.visit_expr(expr)  # type: ignore[no-any-return]  # as it is given
        with self.builder_.scope():
            return self.builder_.sequence(self.visit_expr(expr))

    def visit_var_binding_(self, binding: Any, /) -> None:
        value = self.visit_expr(binding.value)
        var = self.visit_var_def(binding.var)
        typed = var if value.ty is None else self.with_type(var, value.ty)
        if typed is not binding.var:
            self._remap[binding.var] = typed
        self.builder_.emit_binding(replace(binding, var=typed, value=value))

    def visit_match_cast_(self, binding: MatchCast, /) -> None:
        value = self.builder_.normalize_leaf(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if var is not binding.var:
            self._remap[binding.var] = var
        self.builder_.emit_binding(replace(binding, var=var, value=value))

    def visit_dataflow_block_(self, block: DataflowBlock, /) -> None:
        with self.builder_.dataflow(block.span):
            super().visit_dataflow_block_(block)

    def visit_var_(self, expr: Expr, /) -> Expr:
        return self._remap.get(expr, expr) if isinstance(expr, Var) else expr

    visit_dataflow_var_ = visit_var_

    def visit_call_(self, call: Call, /) -> Expr:
        op, args = self.visit_expr(call.op), kept(call.args, map(self.visit_expr, call.args))
        return _changed(call, op=op, args=args)

    def visit_tuple_(self, expr: Tuple, /) -> Expr:
        return _changed(expr, fields=kept(expr.fields, map(self.visit_expr, expr.fields)))

    def visit_tuple_getitem_(self, expr: TupleGetItem, /) -> Expr:
        return _changed(expr, tuple_value=self.visit_expr(expr.tuple_value))

    def visit_if_(self, expr: If, /) -> Expr:
        cond = self.visit_expr(expr.cond)
        true = self.visit_with_new_scope(expr.true_branch)
        false = self.visit_with_new_scope(expr.false_branch)
        return _changed(expr, cond=cond, true_branch=true, false_branch=false)

    def visit_seq_expr_(self, seq: SeqExpr, /) -> Expr:
        with self.builder_.scope():
            for block in seq.blocks:
                self.visit_binding_block(block)
            result = self.builder_.sequence(self.visit_expr(seq.body))
        same = kept(tuple(seq.bindings()), result.bindings()) == tuple(seq.bindings())
        return seq if same and result.body is seq.body else replace(result, span=seq.span)

    def visit_function_(self, function: Function, /) -> Expr:
        params = kept(function.params, map(self.visit_var_def, function.params))
        self._remap.update(zip(function.params, params, strict=True))
        with self.builder_.scope(taken=[var.name for var in all_vars(function)]):
            body = self.visit_with_new_scope(function.body)
        if params is function.params and body is function.body:
            return function
        pure, attrs = function.is_pure, function.attrs
        return make_function(params, body, pure=pure, attrs=attrs, span=function.span)

    def lookup_binding(self, var: Var) -> Any:
        """The value that a variable was bound to so far."""
        return self.builder_.lookup_binding(var)

    def with_type(self, var: Var, ty: Type) -> Var:
        """`var`, or another of its name where its type is another."""
        return var if ty == var.ty else replace(var, ty=ty)

    def set_var_remap(self, var: Var, other: Var) -> None:
        """Put another variable in the place of each use of one."""
        self._remap[var] = other

    def get_var_remap(self, var: Var) -> Var:
        """What stands in the place of a variable."""
        return self._remap.get(var, var)


def visitor(cls: Class) -> Class:
    """Declare a visitor: the class is checked, and stays as it is."""
    return _checked(cls, PyExprVisitor)


def mutator(cls: Class) -> Class:
    """Declare a mutator: the class is checked, and stays as it is."""
    return _checked(cls, PyExprMutator)


def _checked(cls: Class, base: type) -> Class:
    if not issubclass(cls, base):
        raise TypeError(f"`{cls!r}` must be a subclass of {base.__name__}")
    return cls


def _changed(expr: Expr, **parts: Any) -> Expr:
    """`expr` with other parts, its type to be found anew where they differ."""
    return expr if unchanged(expr, parts) else replace(expr, ty=None, **parts)
