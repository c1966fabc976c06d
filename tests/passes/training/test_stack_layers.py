"""Which layers SetupTrainer rolls by itself: as many, of as many operations, as were measured."""

import pytest
from parsing import parse_functions

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
