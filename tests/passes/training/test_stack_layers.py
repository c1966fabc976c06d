"""Which layers SetupTrainer rolls by itself: as many, of as many operations, as were measured."""

import pytest
from parsing import parse_flow, parse_functions

from relaxjax.ir.module import IRModule
from relaxjax.passes.training.stack_layers import with_stacked_layers


def layers(count: int, operations: int) -> IRModule:
    """Layers of some operations each, a parameter and a product among them."""
    matrix = 'R.Tensor((3, 3), "float32")'
    lines, last = [], "h"
    for i in range(count):
        lines.append(f"a{i}_1 = R.matmul({last}, w{i})")
        lines += [f"a{i}_{j + 1} = R.sin(a{i}_{j})" for j in range(1, operations)]
        last = f"a{i}_{operations}"
    params = ", ".join([f"h: {matrix}", *(f"w{i}: {matrix}" for i in range(count))])
    body = "\n            ".join([*lines, f"out = R.negative({last})", "R.output(out)"])
    return parse_functions(f"""
    @R.function
    def main({params}):
        with R.dataflow():
            {body}
        return out
""")


@pytest.mark.parametrize(
    ("count", "operations", "is_rolled"),
    [(24, 3, True), (23, 3, False), (4, 18, True), (4, 17, False), (3, 30, False)],
)
def test_layers_are_rolled_from_72_operations_and_4_layers_on(
    count: int, operations: int, is_rolled: bool
) -> None:
    mod = layers(count, operations)
    rolled, storage = with_stacked_layers(mod, ["main"], 1, count, "auto")
    assert (rolled is not mod) is is_rolled
    assert [len(rows) for rows in storage.stacks] == ([count] if is_rolled else [])
    assert with_stacked_layers(mod, ["main"], 1, count, True)[1].stacks
    assert with_stacked_layers(mod, ["main"], 1, count, False)[0] is mod


def convolved(count: int) -> IRModule:
    """Layers of a convolution and 17 operations."""
    image, kernel = 'R.Tensor((2, 6, 6, 4), "float32")', 'R.Tensor((3, 3, 4, 4), "float32")'
    layouts = 'padding=1, data_layout="NHWC", kernel_layout="HWIO"'
    lines = []
    for i in range(count):
        lines.append(f"x{i}_0 = R.nn.conv2d(x{i}, w{i}, {layouts})")
        lines += [f"x{i}_{n + 1} = R.tanh(x{i}_{n})" for n in range(16)]
        lines.append(f"x{i + 1} = R.add(x{i}, x{i}_16)")
    signature = ", ".join([f"x0: {image}", *(f"w{i}: {kernel}" for i in range(count))])
    return parse_flow("\n".join([*lines, f"return x{count}"]), signature)


def test_layers_of_convolutions_are_rolled_where_that_is_asked_for() -> None:
    mod = convolved(6)
    assert with_stacked_layers(mod, ["main"], 1, 6, "auto")[0] is mod
    assert [len(rows) for rows in with_stacked_layers(mod, ["main"], 1, 6, True)[1].stacks] == [6]
