"""InferType, ToANormalForm, RemovePurityChecking, PrintIR."""

import io

import pytest
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax import Call, IRModule, TensorType, Var
from relaxjax.ir import BindingBlock, SeqExpr, VarBinding, assert_structural_equal
from relaxjax.ir.builder import make_function
from relaxjax.ir.op import get_op
from relaxjax.passes import (
    InferType,
    Pass,
    PrintIR,
    RemovePurityChecking,
    ToANormalForm,
    ToNonDataflow,
)

TY = TensorType((3,), "float32")
WRITTEN = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = R.exp(x)
    return y
"""


@pytest.mark.parametrize("given", [InferType(), ToANormalForm()])
def test_missing_types_are_inferred(given: Pass) -> None:
    x, y = Var("x", TY), Var("y")
    block = BindingBlock((VarBinding(y, Call(get_op("relax.exp"), (x,))),))
    function = make_function([x], SeqExpr((block,), y), attrs={"global_symbol": "main"})
    typed = given(IRModule.from_expr(function))
    assert_structural_equal(typed, parse_functions(WRITTEN))
    assert given(typed) is typed


@pytest.mark.parametrize("given", [InferType(), ToANormalForm()])
def test_nested_values_are_bound(given: Pass) -> None:
    x = Var("x", TY)
    inner = x + x
    function = make_function([x], SeqExpr((), inner * inner), attrs={"global_symbol": "main"})
    text = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    gv = R.add(x, x)
    gv1 = R.multiply(gv, gv)
    return gv1
"""
    assert_structural_equal(given(IRModule.from_expr(function)), parse_functions(text))


PACKED = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    @R.function
    def inner(q: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        w = R.exp(q)
        return w
    y = R.call_pure_packed("f", x, ty_args=R.Tensor((3,), "float32"))
    z = inner(y)
    return z
"""
UNCHECKED = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    R.func_attr({"relax.force_pure": True})
    @R.function
    def inner(q: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        R.func_attr({"relax.force_pure": True})
        w = R.exp(q)
        return w
    y = R.call_packed("f", x, ty_args=R.Tensor((3,), "float32"))
    z = inner(y)
    return z
"""


def test_promises_of_purity_go() -> None:
    check_rewrite(RemovePurityChecking(), PACKED, UNCHECKED)


def test_impure_functions_stay() -> None:
    check_kept(
        RemovePurityChecking(),
        '@R.function(pure=False)\ndef main(x: R.Tensor((3,), "float32")):\n'
        '    _ = R.print(x, format="{}")\n    return x\n',
    )


def test_a_call_that_fills_arrays_stays_pure() -> None:
    text = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    R.func_attr({"relax.force_pure": True})
    with R.dataflow():
        y = R.call_dps_packed("f", (x,), out_ty=R.Tensor((3,), "float32"))
        R.output(y)
    return y
"""
    check_kept(RemovePurityChecking(), text)


def test_a_module_is_printed_on_its_way() -> None:
    module = parse_functions(WRITTEN)
    file = io.StringIO()
    assert PrintIR("after Gradient", file=file)(module) is module
    assert file.getvalue() == f"# after Gradient\n{module.script()}\n"


def test_a_module_is_printed_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    module = ToNonDataflow()(parse_functions(WRITTEN))
    PrintIR()(module)
    assert capsys.readouterr().out == f"{module.script()}\n"


def test_a_dataflow_block_with_a_promise_in_it_ends() -> None:
    text = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    with R.dataflow():
        y = R.call_pure_packed("f", x, ty_args=R.Tensor((3,), "float32"))
        R.output(y)
    between = R.sin(y)
    with R.dataflow():
        z = R.exp(between)
        R.output(z)
    return z
"""
    after = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    R.func_attr({"relax.force_pure": True})
    y = R.call_packed("f", x, ty_args=R.Tensor((3,), "float32"))
    between = R.sin(y)
    with R.dataflow():
        z = R.exp(between)
        R.output(z)
    return z
"""
    check_rewrite(RemovePurityChecking(), text, after)
