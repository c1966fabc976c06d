"""The options of printing: what they change, and what is none of them."""

from textwrap import dedent
from typing import Any

import pytest

from relaxjax import Call, GlobalVar, IRModule, TensorType, Tuple, Var
from relaxjax.ir.builder import make_function
from relaxjax.ir.function import BindingBlock, SeqExpr, VarBinding
from relaxjax.ir.printer import print_node

VECTOR = TensorType((3,), "float32")
X, Y = Var("x", VECTOR), Var("y", VECTOR)


def test_what_the_options_change() -> None:
    binding = VarBinding(Y, Call(GlobalVar("f"), (Tuple((X,)),)))
    function = make_function([], SeqExpr((BindingBlock((binding,)),), Y))
    text = IRModule({"main": function}).script(
        name="Net", module_alias="mod", indent_spaces=2, show_all_ty=False, syntax_sugar=False
    )
    assert str(text) == dedent("""
        # from relaxjax.script import ir as I, relax as R

        @I.ir_module
        class Net:
          @R.function(private=True)
          def main() -> R.Tensor((3,), dtype="float32"):
            mod = Net
            y = mod.f(R.tuple(x))
            return y
        """).strip("\n")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            {"show_mata": True},
            "there is no print option `show_mata`; there are name, .*; did you mean `show_meta`",
        ),
        ({"name": "my net"}, "`name` must be a Python identifier, found 'my net'"),
        ({"module_alias": ""}, "`module_alias` must be a Python identifier, found ''"),
        ({"indent_spaces": 0}, "`indent_spaces` must be at least 1, found 0"),
    ],
)
def test_an_option_that_there_is_not(option: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        print_node(X, **option)
