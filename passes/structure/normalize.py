"""A-normal form: every nested value bound to a variable, every type known."""

from collections.abc import Mapping

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Expr, GlobalVar, Var
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
)
from relaxjax.ir.inline import callees_first
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.retype import found_results
from relaxjax.ir.span import located
from relaxjax.ir.types import ObjectType, Type
from relaxjax.ir.walk import all_vars, kept, map_children, used_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function


@pass_factory(opt_level=1)
def Normalize(mod: IRModule) -> IRModule:
    """Bring every function into A-normal form, and infer the types that are missing.

    Empty blocks go, and neighbouring blocks of one kind become one. Where more is known of a body
    than the function is declared to return, and no other one calls it, it returns that. What is
    normal already stays the very same object.
    """
    return found_results(IRModule(), normalized(mod))


def normalized(mod: IRModule) -> IRModule:
    """`mod` with every function in A-normal form and typed."""
    functions = mod.relax_functions()
    types = {var.name: function.ty for var, function in mod.functions_items()}
    normal: dict[str, Function] = {}
    for name in callees_first(functions):
        with in_function(name, functions[name]):
            normal[name] = normal_function(functions[name], types)
        types[name] = normal[name].ty
    return mod.with_functions({name: normal[name] for name in functions})


def normal_function(function: Function, types: Mapping[str, Type | None]) -> Function:
    """One function in A-normal form; `types` are those of the functions of the module."""
    return _Normalizer(function, types).function(function)


class _Normalizer:
    """Normalises one function; `retyped` leads from variables without a type to typed ones."""

    def __init__(self, function: Function, types: Mapping[str, Type | None]) -> None:
        self.builder = BlockBuilder()
        self.names = [var.name for var in all_vars(function)]
        self.types = types
        self.retyped: dict[Var, Var] = {}

    def function(self, function: Function) -> Function:
        for param in function.params:
            if param.ty is None:
                raise ValueError(f"the parameter `{param.name}` has no type to infer others from")
        untyped = function.body.ty is None and isinstance(function.ret_ty, ObjectType)
        body = self.sequence(function.body)
        ret_ty = make_function(function.params, body).ret_ty if untyped else function.ret_ty
        return replace(function, body=body, ret_ty=ret_ty)

    def sequence(self, body: Expr) -> SeqExpr:
        """A body or a branch; an expression alone becomes a sequence."""
        seq = body if isinstance(body, SeqExpr) else SeqExpr((), body)
        with self.builder.scope(self.names):
            for block in seq.blocks:
                self.block(block)
            built = self.builder.sequence(self.expr(seq.body))
        blocks = _like(seq.blocks, built.blocks)
        same = built.body is seq.body and seq.ty is not None
        return replace(seq, blocks=blocks, body=built.body, ty=seq.ty if same else built.ty)

    def block(self, block: BindingBlock) -> None:
        if isinstance(block, DataflowBlock):
            with self.builder.dataflow(block.span):
                self.bindings(block.bindings)
        else:
            self.bindings(block.bindings)

    def bindings(self, bindings: tuple[Binding, ...]) -> None:
        for binding in bindings:
            with located(binding.span), self.builder.origin(binding.span, binding.derived_from):
                self.binding(binding)

    def binding(self, binding: Binding) -> None:
        if isinstance(binding.value, Function) and binding.var in used_vars(binding.value):
            # A closure that calls itself: its variable needs a type before its body is read.
            self.var(binding.var, binding.value.ty)
        value = self.builder.normalize(self.expr(binding.value))
        ty = binding.ty if isinstance(binding, MatchCast) else value.ty
        self.builder.emit_binding(replace(binding, var=self.var(binding.var, ty), value=value))

    def var(self, var: Var, ty: Type | None) -> Var:
        if var.ty is not None:
            return var
        if var not in self.retyped:
            self.retyped[var] = type(var)(var.name, ty, span=var.span)
        return self.retyped[var]

    def expr(self, expr: Expr) -> Expr:
        """`expr` over typed variables, its branches and closures normal."""
        match expr:
            case Var():
                return self.retyped.get(expr, expr)
            case GlobalVar():
                return replace(expr, ty=expr.ty or self.types.get(expr.name))
            case SeqExpr():
                for block in expr.blocks:
                    self.bindings(block.bindings)
                return self.expr(expr.body)
            case If():
                return replace(
                    expr,
                    cond=self.builder.normalize_leaf(self.expr(expr.cond)),
                    true_branch=self.sequence(expr.true_branch),
                    false_branch=self.sequence(expr.false_branch),
                )
            case Function():
                return self.function(expr)
            case _:
                return map_children(expr, self.expr)


def _like(old: tuple[BindingBlock, ...], new: tuple[BindingBlock, ...]) -> tuple[BindingBlock, ...]:
    """`new`, with the blocks of `old` where they hold the same bindings, and with their spans."""
    if [type(block) for block in old] != [type(block) for block in new]:
        return new
    pairs = zip(old, new, strict=True)
    return kept(old, (replace(a, bindings=kept(a.bindings, b.bindings)) for a, b in pairs))
