"""A-normal form: from programs as a person may build them, nested and without types."""

import pytest

from relaxjax import BlockBuilder, FuncType, IRModule, ObjectType, TensorType, TupleType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.check import well_formed
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, DataflowVar, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import (
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.span import Span
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ops.binary import add, multiply
from relaxjax.passes.structure.normalize import Normalize

TENSOR = TensorType((3,), "float32")
PUBLIC = Attrs(global_symbol="main")


def untyped(op: Expr, *args: Expr) -> Call:
    """A call as it is written by hand: without a type."""
    return Call(op, args)


def normal(function: Function) -> Function:
    """The function normalised, checked to be well formed, and to stay as it is from then on."""
    module = Normalize()(IRModule({"main": function}))
    well_formed(module)
    assert Normalize()(module) is module
    result = module["main"]
    assert isinstance(result, Function)
    return result


def test_nested_values_are_bound_and_typed() -> None:
    x = Var("x", TENSOR)
    nested = untyped(add, untyped(multiply, x, x), Tuple((x, untyped(add, x, x)))[1])
    result = normal(Function((x,), SeqExpr((), nested), attrs=PUBLIC))

    builder = BlockBuilder()
    with builder.function("main", [x]):
        product = builder.emit(multiply(x, x))
        total = builder.emit(add(x, x))
        field = builder.emit(TupleGetItem(Tuple((x, total)), 1))
        builder.emit_func_output(builder.emit(add(product, field)))
    assert_structural_equal(result, builder.get()["main"])
    assert result.ret_ty == TENSOR


def test_variables_without_a_type_get_one() -> None:
    x, y, z = Var("x", TENSOR), DataflowVar("y"), Var("z")
    bindings = (
        VarBinding(y, untyped(add, x, x)),
        VarBinding(z, untyped(multiply, y, untyped(add, y, y))),
    )
    result = normal(Function((x,), SeqExpr((DataflowBlock(bindings),), z), attrs=PUBLIC))
    (block,) = result.body.blocks
    assert isinstance(block, DataflowBlock)
    found = [(type(b.var), b.var.name, b.var.ty) for b in block.bindings]
    assert found == [(DataflowVar, "y", TENSOR), (DataflowVar, "lv", TENSOR), (Var, "z", TENSOR)]
    assert result.body.body is block.bindings[-1].var


def test_branches_and_closures_are_normal_too() -> None:
    x, c, t = Var("x", TENSOR), Var("c", TensorType((), "bool")), Var("t", TENSOR)
    closure, y = Var("closure"), Var("y")
    inner = Function((t,), SeqExpr((), untyped(add, t, untyped(add, t, x))))
    choice = If(c, SeqExpr((), untyped(closure, untyped(add, x, x))), SeqExpr((), x))
    bindings = (VarBinding(closure, inner), VarBinding(y, choice))
    result = normal(Function((x, c), SeqExpr((BindingBlock(bindings),), y), attrs=PUBLIC))
    first, second = result.body.bindings()
    assert first.var.ty == FuncType((TENSOR,), TENSOR)
    assert isinstance(first.value, Function)
    assert len(list(first.value.body.bindings())) == 2
    assert isinstance(second.value, If)
    assert len(list(second.value.true_branch.bindings())) == 2
    assert second.var.ty == TENSOR


def test_a_closure_that_calls_itself() -> None:
    x, c, t, loop = (
        Var("x", TENSOR),
        Var("c", TensorType((), "bool")),
        Var("t", TENSOR),
        Var("loop"),
    )
    again, out = Var("again"), Var("out")
    choice = If(c, SeqExpr((), untyped(loop, t)), SeqExpr((), t))
    inner = Function((t,), SeqExpr((BindingBlock((VarBinding(again, choice),)),), again), TENSOR)
    bindings = (VarBinding(loop, inner), VarBinding(out, untyped(loop, x)))
    result = normal(Function((x, c), SeqExpr((BindingBlock(bindings),), out), attrs=PUBLIC))
    assert [binding.var.ty for binding in result.body.bindings()] == [
        FuncType((TENSOR,), TENSOR),
        TENSOR,
    ]


def test_a_sequence_inside_a_value_is_laid_out() -> None:
    x, y, z = Var("x", TENSOR), Var("y"), Var("z")
    inside = SeqExpr((BindingBlock((VarBinding(y, untyped(add, x, x)),)),), untyped(add, y, y))
    body = SeqExpr((BindingBlock((VarBinding(z, inside),)),), z)
    result = normal(Function((x,), body, attrs=PUBLIC))
    assert [binding.var.name for binding in result.body.bindings()] == ["y", "z"]


def test_match_cast_gives_its_type() -> None:
    n = SymbolicVar("n")
    ty = TensorType((n,), "float32")
    x, y, z = Var("x", TensorType(None, "float32", 1)), Var("y"), Var("z")
    bindings = (MatchCast(y, x, ty), VarBinding(z, untyped(add, y, y)))
    result = normal(Function((x,), SeqExpr((BindingBlock(bindings),), z), attrs=PUBLIC))
    assert [binding.var.ty for binding in result.body.bindings()] == [ty, ty]
    assert result.ret_ty == TensorType(None, "float32", 1)


def test_calls_of_functions_take_the_type_that_those_get() -> None:
    """Whatever their order: `main` calls `helper`, which has no result type before."""
    x, t = Var("x", TENSOR), Var("t", TENSOR)
    main = Function((x,), SeqExpr((), untyped(GlobalVar("helper"), x)), attrs=PUBLIC)
    helper = Function((t,), SeqExpr((), Tuple((t, untyped(add, t, t)))))
    for order in (("main", "helper"), ("helper", "main")):
        functions = {"main": main, "helper": helper}
        module = Normalize()(IRModule({name: functions[name] for name in order}))
        well_formed(module)
        assert list(module) == list(order)
        assert module["main"].ret_ty == TupleType((TENSOR, TENSOR))


def test_a_declared_result_type_that_says_less_than_the_body_becomes_the_body_s() -> None:
    x = Var("x", TENSOR)
    declared = TensorType(None, "float32", 1)
    given = Function((x,), SeqExpr((), untyped(add, x, x)), declared, attrs=PUBLIC)
    assert normal(given).ret_ty == TENSOR
    typed = Function((x,), SeqExpr((), x), ObjectType(), attrs=PUBLIC)
    assert normal(typed).ret_ty == TENSOR


def test_blocks_are_tidied() -> None:
    x, y, z = Var("x", TENSOR), Var("y", TENSOR), Var("z", TENSOR)
    first = BindingBlock((VarBinding(y, add(x, x)),))
    second = BindingBlock((VarBinding(z, add(x, y)),))
    body = SeqExpr((DataflowBlock(()), first, BindingBlock(()), second), z)
    (block,) = normal(Function((x,), body, TENSOR, attrs=PUBLIC)).body.blocks
    assert [binding.var for binding in block.bindings] == [y, z]


def test_names_stay_unique() -> None:
    x, gv = Var("x", TENSOR), Var("gv", TENSOR)
    value = untyped(add, untyped(add, x, x), x)
    body = SeqExpr((BindingBlock((VarBinding(gv, value),)),), gv)
    names = [b.var.name for b in normal(Function((x,), body, attrs=PUBLIC)).body.bindings()]
    assert names == ["gv1", "gv"]


def test_what_is_normal_stays_the_same_object() -> None:
    builder = BlockBuilder()
    x = Var("x", TENSOR)
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(multiply(builder.emit(add(x, x)), x))
        builder.emit_func_output(builder.emit(add(out, x)))
    module = builder.get()
    assert Normalize()(module) is module


def test_spans_are_kept_and_given_to_what_is_new() -> None:
    spans = [Span("model.py", line) for line in range(5)]
    x, y = Var("x", TENSOR), Var("y", span=spans[0])
    value = untyped(add, untyped(add, x, x), x)
    block = DataflowBlock((VarBinding(y, value, span=spans[1]),), span=spans[2])
    body = SeqExpr((block,), y, span=spans[3])
    result = normal(Function((x,), body, attrs=PUBLIC, span=spans[4]))
    (found,) = result.body.blocks
    new, old = found.bindings
    assert [new.span, old.var.span, old.span] == [spans[1], spans[0], spans[1]]
    assert [found.span, result.body.span, result.span] == spans[2:]


def test_a_parameter_needs_a_type() -> None:
    x = Var("x")
    message = "the parameter `x` has no type to infer others from"
    with pytest.raises(ValueError, match=message) as error:
        Normalize()(IRModule({"main": Function((x,), SeqExpr((), x))}))
    assert error.value.__notes__ == ["in the function `main`", "in the pass `Normalize`"]


def test_what_cannot_be_typed_shows_the_line() -> None:
    x, y = Var("x", TENSOR), Var("y", TensorType((4,), "float32"))
    z = Var("z")
    binding = VarBinding(z, untyped(add, x, y), span=Span("model.py", 7))
    body = SeqExpr((BindingBlock((binding,)),), z)
    with pytest.raises(
        TypeError, match=r"\(3\) of `x1` and \(4\) of `x2` do not broadcast"
    ) as error:
        Normalize()(IRModule({"main": Function((x, y), body)}))
    assert "  at model.py:7:1" in error.value.__notes__
