"""Visitors and mutators as programs for TVM write them."""

from importlib import import_module
from typing import Any

import pytest
from parsing import parse_flow, parse_function

from relaxjax import tvm
from relaxjax.ir import assert_structural_equal, well_formed
from relaxjax.tvm import relax
from relaxjax.tvm.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor

PROGRAM = parse_function("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    @R.function
    def g(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        b = R.exp(a)
        return b
    if c:
        y = g(x)
    else:
        e = R.exp(x)
        y = R.add(e, R.const(1.0, "float32"))
    with R.dataflow():
        t = (y, x)
        z = t[0]
        m = R.match_cast(z, R.Tensor((3,), "float32"))
        r = R.reshape(m, R.shape([3]))
        w = R.exp(r)
        R.output(w)
    return w
""")


@mutator
class SinForExp(PyExprMutator):
    """What it makes is nested, so that the builder has something to bind."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if call.op == tvm.ir.Op.get("relax.exp"):
            return relax.op.sin(relax.op.negative(call.args[0]))
        return call


def test_calls_are_replaced_in_branches_and_closures() -> None:
    changed = SinForExp().visit_expr(PROGRAM)
    well_formed(changed)
    assert_structural_equal(
        changed,
        parse_function("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    @R.function
    def g(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        a1 = R.negative(a)
        b = R.sin(a1)
        return b
    if c:
        y = g(x)
    else:
        x1 = R.negative(x)
        e = R.sin(x1)
        y = R.add(e, R.const(1.0, "float32"))
    with R.dataflow():
        t = (y, x)
        z = t[0]
        m = R.match_cast(z, R.Tensor((3,), "float32"))
        r = R.reshape(m, R.shape([3]))
        r1 = R.negative(r)
        w = R.sin(r1)
        R.output(w)
    return w
"""),
    )


def test_what_changes_nothing_gives_the_very_function() -> None:
    assert PyExprMutator().visit_expr(PROGRAM) is PROGRAM


CHAIN = parse_flow("a = R.exp(x)\nb = R.sin(a)\nc = R.cos(b)\nreturn c", x=(3,))["main"]


@mutator
class Longer(relax.PyExprMutator):
    """Types follow, variables are put in the place of others, and what is emitted comes before."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if call.op.name == "relax.exp":
            return relax.op.concat([call.args[0], call.args[0]])
        return call

    def visit_var_binding_(self, binding: Any) -> None:
        if binding.value.op.name != "relax.sin":
            super().visit_var_binding_(binding)
            return
        (used,) = binding.value.args
        assert self.lookup_binding(self.get_var_remap(used)).op.name == "relax.concat"
        first = self.builder_.emit(relax.op.tan(self.visit_expr(used)), "first")
        self.set_var_remap(binding.var, first)


def test_types_follow_and_variables_are_replaced() -> None:
    changed = Longer().visit_expr(CHAIN)
    well_formed(changed)
    after = parse_flow("a = R.concat((x, x))\nfirst = R.tan(a)\nc = R.cos(first)\nreturn c", x=(3,))
    assert_structural_equal(changed, after["main"])


def test_modules_are_changed_through_the_builder() -> None:
    module = tvm.IRModule({"main": CHAIN}, attrs={"k": 1})
    functor = SinForExp(module)
    for var, function in module.functions_items():
        functor.builder_.update_func(var, functor.visit_expr(function))
    changed = functor.builder_.get()
    assert str(changed["main"].body.blocks[0].bindings[0].value) == "R.negative(x)"
    assert changed.attrs["k"] == 1


def test_a_visitor_sees_everything_in_order() -> None:
    log: list[str] = []

    @visitor
    class Logger(PyExprVisitor):
        def visit_var_def_(self, var: Any) -> None:
            log.append("def " + var.name)

        def visit_var_(self, var: Any) -> None:
            log.append(var.name)

        def visit_dataflow_var_(self, var: Any) -> None:
            log.append("(" + var.name + ")")

        def visit_op_(self, op: Any) -> None:
            log.append(op.name)

        def visit_shape_expr_(self, shape: Any) -> None:
            log.append(str(shape))

        def visit_generic_const_(self, constant: Any) -> None:
            log.append(str(constant))

    Logger().visit_expr(PROGRAM)
    text = " ".join(log)
    assert text == (
        "def c def x def a relax.exp a def b b def g c g x def y_then y_then relax.exp x def e "
        'relax.add e R.const(1.0, "float32") def y_else y_else def y y x def t (t) def z (z) '
        "def m relax.reshape (m) R.shape([3]) def r relax.exp (r) def w w"
    )


def test_what_is_no_expression_is_an_error() -> None:
    class Forgetful(PyExprMutator):
        def visit_call_(self, call: Any) -> Any:
            super().visit_call_(call)

    with pytest.raises(TypeError, match=r"of Forgetful must give .* of `R.exp\(x\)`, found None"):
        Forgetful().visit_expr(CHAIN)


def test_functors_are_declared_above_their_own_kind() -> None:
    with pytest.raises(TypeError, match="must be a subclass of PyExprMutator"):
        mutator(PyExprVisitor)
    with pytest.raises(TypeError, match="must be a subclass of PyExprVisitor"):
        visitor(int)


def test_where_else_programs_import_from() -> None:
    from relaxjax.tvm.relax.block_builder import BlockBuilder
    from relaxjax.tvm.relax.expr import Call, Function
    from relaxjax.tvm.script.parser import ir, tirx

    assert (BlockBuilder, Call, Function) == (relax.BlockBuilder, relax.Call, relax.Function)
    assert (ir, tirx) == (tvm.script.ir, tvm.script.tirx)
    with pytest.raises(ImportError, match=r"tvm.relax.frontend.onnx` has no place .*: make"):
        import_module("relaxjax.tvm.relax.frontend.onnx")
