"""What the tests of rewriters share: a pattern, a chain of operators, and a comparison."""

from parsing import parse_function

from relaxjax.dpl import DFPattern, is_op, wildcard
from relaxjax.ir import Expr, Function, assert_structural_equal, well_formed

x, y = wildcard(), wildcard()
TWICE = is_op("relax.add")(x, x)


def doubled(expr: Expr, found: dict[DFPattern, Expr]) -> Expr:
    return found[x] * 2.0


def check_function(function: Function, expected: str) -> None:
    well_formed(function)
    assert_structural_equal(function, parse_function(expected))


chain = parse_function("""
    @R.function
    def chain(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            b = R.negative(a)
            c = R.negative(b)
            d = R.negative(c)
            e = R.negative(d)
            f = R.exp(e)
            R.output(f)
        return f
    """)
