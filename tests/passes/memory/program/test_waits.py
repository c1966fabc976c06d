"""What is computed no sooner than others are done."""

import re

from parsing import parse_main

from relaxjax.passes.memory.planning.planner import Planner
from relaxjax.passes.memory.planning.recompute import rematerialized
from relaxjax.passes.memory.program.program import Program

SHAPE = (128, 128)
PRODUCT = "L.dot_general({}, w, dimension_numbers=[[[1], [0]], [[], []]])"
TANH = "L.tanh({})"


def late_keys(*layers: str, rows: int = SHAPE[0]) -> list[tuple[str, str]]:
    """What waits in a forward part of layers, each with a mask of so many rows, and for what."""
    lines, x = list[str](), "x"
    for n, layer in enumerate(layers):
        lines += [
            f"y{n} = {layer.format(x)}",
            f"bits{n} = L.random_bits(key{n}, bit_width=32, shape=[{rows}, {SHAPE[1]}])",
            f"all{n} = L.broadcast_in_dim(bits{n}, shape={[*SHAPE]}, broadcast_dimensions=[0, 1])",
            f"z{n} = L.select_n(L.lt(all{n}, R.const(9, 'uint32')), {x}, y{n})",
        ]
        x = f"z{n}"
    lines += [f"g = L.mul({x}, {x})", f"return ({x}, (g,))"]
    keys = {f"key{n}": 'R.Tensor((), "key<fry>")' for n in range(len(layers))}
    mod = parse_main("\n".join(lines), x=SHAPE, w=SHAPE, **keys)
    planner = Planner(Program.of(mod["main"], mod, "main"))
    script = rematerialized(mod, "main", planner.waiting)["main"].script()
    return re.findall(r"R\.grad\.delay\((\w+), (\w+)\)", script)


def test_random_numbers_wait_for_the_product_before_them() -> None:
    assert late_keys(PRODUCT, PRODUCT) == [("key0", "y0"), ("key1", "y1")]
    assert late_keys(PRODUCT, TANH, PRODUCT)[:2] == [("key0", "y0"), ("key1", "y0")]


def test_those_of_one_layer_need_not_wait() -> None:
    """They take as much whenever they are drawn."""
    assert late_keys(PRODUCT) == []


def test_a_few_do_not_wait_and_none_before_any_product() -> None:
    assert late_keys(PRODUCT, PRODUCT, rows=1) == []
    assert late_keys(TANH, TANH) == []
