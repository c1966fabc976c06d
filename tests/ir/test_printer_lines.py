"""Every part of a printed program knows the line that it stands on."""

from relaxjax import IRModule, ShapeType, TensorType, TupleType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import make_function
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import BindingBlock, Function, If, SeqExpr, VarBinding
from relaxjax.ir.op import Op
from relaxjax.ir.printer import print_lines

SHAPE = ShapeType((SymbolicVar("n"), 2))
NOTHING = TupleType(())
PRINT = Op("relax.print", (), lambda call: NOTHING)


def bound(value: Expr, name: str) -> VarBinding:
    return VarBinding(Var(name, value.ty), value)


def function(*bindings: VarBinding, result: Expr, params: tuple[Var, ...]) -> Function:
    return make_function(params, SeqExpr((BindingBlock(bindings),), result))


def test_places_in_a_module() -> None:
    """Declarations of symbols move the lines below them, and a used result gets its name late."""
    x, y, c = Var("x", SHAPE), Var("y", SHAPE), Var("c", TensorType((), "bool"))
    inside = bound(y, "z")
    closure = function(inside, result=inside.var, params=(y,))
    first = bound(closure, "f")
    shout = bound(Call(PRINT, (x,), Attrs(), ty=NOTHING), "nothing")
    then, other = SeqExpr((), x), SeqExpr((), x)
    choice = bound(If(c, then, other, ty=SHAPE), "r")
    helper = function(first, shout, choice, result=shout.var, params=(x, c))
    main = function(bound(x, "a"), result=x, params=(x,))
    lines, places = print_lines(IRModule({"main": main, "helper": helper}), show_all_types=False)

    def line(part: object) -> str:
        return lines[places[id(part)]].strip()

    assert line(helper).startswith("def helper(")
    assert line(closure).startswith("def f(")
    assert line(first) == "@R.function"
    assert line(inside) == "z = y"
    assert line(closure.body) == "return z"
    assert line(shout) == "nothing: R.Tuple() = R.print(x)"
    assert line(choice) == "if c:"
    assert line(then) == line(other) == "r = x"
    assert places[id(other)] == places[id(then)] + 2
    assert line(helper.body) == "return nothing"
    assert line(main).startswith("def main(")
    assert line(main.body) == "return x"
