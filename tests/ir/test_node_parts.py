"""What is no part of a node is refused where the node is made, not where it is read."""

from collections.abc import Callable
from typing import Any

import pytest

import relaxjax.ops  # noqa: F401  # the operators
from relaxjax.ir import TensorType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, GlobalVar, Tuple, Var, const
from relaxjax.ir.function import BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.script import tirx as T

ANY: Any = 3
FUNCTIONS: Any = [ANY]
X = Var("x", TensorType((3,), "float32"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Var(ANY), "the name of a variable must be a string, found `3` of type int"),
        (lambda: Var("x", ANY), r"the type of a variable must be a type such as R.Tensor\(\(2, 3"),
        (lambda: GlobalVar(ANY), "the name of a function must be a string, found `3`"),
        (lambda: Tuple((X, ANY)), "a field of a tuple must be an expression, found `3`"),
        (lambda: VarBinding(ANY, X), "what is bound must be a variable, found `3`"),
        (lambda: VarBinding(X, ANY), "the value of a binding must be an expression, found `3`"),
        (lambda: MatchCast(ANY, X, X.ty or ANY), "what is bound must be a variable, found `3`"),
        (lambda: MatchCast(X, ANY, X.ty or ANY), "the value of a match_cast must be an expression"),
        (lambda: MatchCast(X, X, ANY), "the type of a match_cast must be a type such as"),
        (lambda: BindingBlock((ANY,)), "a part of a block must be a VarBinding or a MatchCast"),
        (lambda: SeqExpr((ANY,), X), "a part of a sequence must be a block of bindings, found `3`"),
        (lambda: SeqExpr((), ANY), "the result of a sequence must be an expression, found `3`"),
        (lambda: If(ANY, SeqExpr((), X), SeqExpr((), X)), "the condition must be an expression"),
        (lambda: Function((ANY,), SeqExpr((), X)), "a parameter of a function must be a variable"),
        (
            lambda: Function((X,), SeqExpr((), X), attrs=Attrs(global_symbol=3)),
            "`global_symbol` must be a string, found `3` of type int",
        ),
        (lambda: IRModule(FUNCTIONS), "what a module is made of must be functions by their names"),
        (lambda: IRModule.from_expr(ANY), "what a module is made of must be a function, found `3`"),
        (lambda: infer(Call(ANY, (X,))), "what is called must be an operator or a function"),
        (
            lambda: infer(Call(get_op("relax.add"), (X, ANY))),
            "an argument of `relax.add` must be an expression, found `3` of type int",
        ),
        (lambda: T.Var(ANY), "the name of a symbolic dimension is a string, found `3`"),
    ],
)
def test_parts_of_other_kinds_are_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("dtype", [None, "", "void"])
@pytest.mark.parametrize("name", ["astype", "argsort", "zeros"])
def test_a_dtype_that_is_needed_is_never_float64_by_default(name: str, dtype: Any) -> None:
    data: Any = (2,) if name == "zeros" else const([1.0, 2.0])
    with pytest.raises(TypeError, match='`dtype` must be a dtype such as "float32", but'):
        get_op(f"relax.{name}")(data, dtype=dtype)
