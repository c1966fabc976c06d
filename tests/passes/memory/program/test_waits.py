"""What is computed no sooner than others are done."""

import re

import pytest
from parsing import parse_main

from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.planning.recompute import rematerialized
from relaxjax.passes.memory.program.program import Program

SHAPE = (128, 128)
PRODUCT = "y = L.dot_general(x, w, dimension_numbers=[[[1], [0]], [[], []]])"


BITS = f"bits = L.random_bits(key, bit_width=32, shape={[*SHAPE]})"
ROW = f"""row = L.random_bits(key, bit_width=32, shape=[1, 128])
bits = L.broadcast_in_dim(row, shape={[*SHAPE]}, broadcast_dimensions=[0, 1])"""


def late_keys(before: str, bits: str) -> list[tuple[str, str]]:
    """What waits where an adjoint takes random bits late, and for what."""
    chosen = "z = L.select_n(L.lt(bits, R.const(9, 'uint32')), x, y)"
    body = f"{before}\n{bits}\n{chosen}\ng = L.mul(z, z)\nreturn (z, (g,))"
    mod = parse_main(body, x=SHAPE, w=SHAPE, key='R.Tensor((), "key<fry>")')
    planner = Planner(Program.of(mod["main"], mod, "main"))
    script = rematerialized(mod, "main", planner.waiting)["main"].script()
    return re.findall(r"R\.grad\.delay\((\w+), (\w+)\)", script)


def test_random_numbers_wait_for_the_product_before_them() -> None:
    assert late_keys(PRODUCT, BITS) == [("key", "y")]


@pytest.mark.parametrize(
    ("before", "bits"),
    [(PRODUCT, ROW), ("y = L.tanh(x)", BITS)],
    ids=["a few", "before any product"],
)
def test_other_random_numbers_do_not(before: str, bits: str) -> None:
    assert late_keys(before, bits) == []
