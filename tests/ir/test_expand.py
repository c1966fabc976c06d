"""Spelling out calls inside a function."""

from relaxjax.ir import Call, Expr, Function, Op, assert_structural_equal
from relaxjax.ir.expand import expand_calls
from relaxjax.script import from_source


def parse(text: str) -> Function:
    function = from_source(text)
    assert isinstance(function, Function)
    return function


def squares_as_products(call: Call) -> Expr | None:
    if isinstance(call.op, Op) and call.op.name == "relax.power":
        base, _ = call.args
        return (base * base) * base
    return None


def test_a_call_is_spelt_out_in_its_place() -> None:
    """The pieces come before it, in the same kind of block; its variable and location stay."""
    function = parse("""
@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
    with R.dataflow():
        a = R.power(x, y)
        b = R.add(a, y)
        R.output(b)
    return b
""")
    expected = parse("""
@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
    with R.dataflow():
        lv = R.multiply(x, x)
        a = R.multiply(lv, x)
        b = R.add(a, y)
        R.output(b)
    return b
""")
    expanded = expand_calls(function, squares_as_products)
    assert_structural_equal(expanded, expected)
    old, new = list(function.body.bindings()), list(expanded.body.bindings())
    assert new[1].var is old[0].var
    assert new[0].span == new[1].span == old[0].span


def test_branches_and_closures_are_walked() -> None:
    function = parse("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
    @R.function
    def cube(z: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        o = R.power(z, z)
        return o
    if c:
        r = R.power(x, x)
    else:
        r = cube(x)
    return r
""")
    expanded = expand_calls(function, squares_as_products)
    assert "R.power" not in expanded.script()
    assert expanded.script().count("R.multiply") == 4


def test_where_nothing_is_spelt_out_the_function_stays_the_same_object() -> None:
    function = parse("""
@R.function
def main(x: R.Tensor((3,), "float32")):
    y = R.add(x, x)
    return y
""")
    assert expand_calls(function, squares_as_products) is function
