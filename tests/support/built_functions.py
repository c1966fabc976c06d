"""Functions that a builder makes of two tensors and a flag, and what they bind, as text."""

from collections.abc import Callable

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax.ir import BlockBuilder, Expr, Function, SymbolicVar, TensorType, Var, well_formed
from relaxjax.ir.expr import Call, ExternFunc

N, M = SymbolicVar("n"), SymbolicVar("m")
TY = TensorType((N, 2), "float32")
X, Y = Var("x", TY), Var("y", TY)
FLAG = Var("flag", TensorType((), "bool"))
IMPURE = Call(ExternFunc("effect"), (X,), ty_args=(TY,))


def built(body: Callable[[BlockBuilder], Expr], *params: Var, pure: bool = True) -> Function:
    """The function that `body` emits, which must be well-formed."""
    builder = BlockBuilder()
    with builder.function("main", params or (X, Y, FLAG), pure=pure):
        builder.emit_func_output(body(builder))
    well_formed(builder.get())
    main = builder.get()["main"]
    assert isinstance(main, Function)
    return main


def bindings(function: Function) -> list[str]:
    """The bindings of a function as text, without their types."""
    return [f"{binding.var.name} = {binding.value}" for binding in function.body.bindings()]
