"""Dead code inside one function; the pass's own tests show whole programs."""

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import DataflowVar, Expr, Tuple, Var
from relaxjax.ir.function import BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.span import Span
from relaxjax.ir.types import ShapeType, TensorType
from relaxjax.ops.binary import add, multiply

TENSOR = TensorType((3,), "float32")


def names(function: Function) -> list[str]:
    return [binding.var.name for binding in function.body.bindings()]


def function(params: list[Var], bindings: list[tuple[Var, Expr]], result: Expr) -> Function:
    block = DataflowBlock(tuple(VarBinding(var, value) for var, value in bindings))
    return make_function(params, SeqExpr((block,), result))


def test_what_is_needed_stays_the_same_object() -> None:
    x = Var("x", TENSOR)
    y = DataflowVar("y", TENSOR)
    z = Var("z", TENSOR)
    given = function([x], [(y, add(x, x)), (z, multiply(y, x))], z)
    assert remove_all_unused(given) is given


def test_a_chain_of_unused_bindings_goes_whole() -> None:
    x = Var("x", TENSOR)
    a, b = DataflowVar("a", TENSOR), DataflowVar("b", TENSOR)
    z = Var("z", TENSOR)
    given = function([x], [(a, add(x, x)), (b, add(a, a)), (z, multiply(x, x))], z)
    swept = remove_all_unused(given)
    assert names(swept) == ["z"]
    assert names(given) == ["a", "b", "z"]
    assert swept.params == given.params


def test_uses_inside_tuples_count() -> None:
    x = Var("x", TENSOR)
    a, b = Var("a", TENSOR), Var("b", TENSOR)
    given = function([x], [(a, add(x, x)), (b, add(x, x))], Tuple((x, Tuple((a,)))))
    assert names(remove_all_unused(given)) == ["a"]


def test_a_variable_that_only_a_type_mentions_stays() -> None:
    """A tensor's shape may be held in a variable."""
    shape = Var("shape", ShapeType(ndim=1))
    given_shape = Var("given", ShapeType(ndim=1))
    x = Var("x", TensorType(None, "float32", 1))
    y = Var("y", TensorType(shape, "float32"))
    given = function([given_shape, x], [(shape, given_shape), (y, x)], y)
    assert names(remove_all_unused(given)) == ["shape", "y"]


def test_a_long_function_takes_no_deep_recursion() -> None:
    builder = BlockBuilder()
    n = SymbolicVar("n")
    x = Var("x", TensorType((n,), "float32"))
    with builder.scope():
        with builder.dataflow():
            value: Expr = x
            for _ in range(3000):
                value = builder.emit(add(value, x))
            unused = value
            for _ in range(3000):
                unused = builder.emit(add(unused, x))
            result = builder.emit_output(value)
        body = builder.sequence(result)
    swept = remove_all_unused(make_function([x], body))
    assert len(names(swept)) == 3001


def test_spans_are_kept() -> None:
    x, y, z = Var("x", TENSOR), Var("y", TENSOR), Var("z", TENSOR)
    spans = [Span("model.py", line) for line in range(4)]
    bindings = (VarBinding(y, add(x, x)), VarBinding(z, add(x, x), span=spans[0]))
    body = SeqExpr((BindingBlock(bindings, span=spans[1]),), z, span=spans[2])
    swept = remove_all_unused(make_function([x], body, span=spans[3]))
    (block,) = swept.body.blocks
    assert block.bindings == bindings[1:]
    found = [block.bindings[0].span, block.span, swept.body.span, swept.span]
    assert found == spans
