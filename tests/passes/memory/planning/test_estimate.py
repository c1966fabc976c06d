"""The bytes of values that are needed at a time, as a function is written."""

from parsing import parse_flow

from relaxjax.ir.function import Function
from relaxjax.passes.memory.planning.estimate import most_at_a_time


def test_a_value_counts_from_its_binding_to_its_last_reader() -> None:
    function = parse_flow("""
        a = R.exp(x)
        b = R.concat((a, a))
        c = R.sum(b)
        d = R.multiply(c, a)
        """, x=(4,))["main"]  # fmt: skip
    assert isinstance(function, Function)
    assert most_at_a_time(function) == 16 + 32 + 4


def test_what_has_no_known_size_may_be_large() -> None:
    function = parse_flow("a = R.exp(x)\nreturn a", x='R.Tensor(ndim=1, dtype="float32")')["main"]
    assert isinstance(function, Function)
    assert most_at_a_time(function) >= 2**60
