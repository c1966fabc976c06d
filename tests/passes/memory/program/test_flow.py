"""The largest flow, against what scipy finds."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from relaxjax.passes.memory.program.flow import UNREACHED, Network


def reached_by_scipy(widths: dict[tuple[int, int], int], nodes: int) -> set[int]:
    """The nodes that are still within reach of the first once the flow to the last is largest."""
    matrix = np.zeros((nodes, nodes), np.int32)
    for arc, width in widths.items():
        matrix[arc] = width
    capacity = csr_array(matrix)
    left = capacity - maximum_flow(capacity, 0, nodes - 1).flow
    left.eliminate_zeros()
    return set(breadth_first_order(left, 0, return_predecessors=False).tolist())


@pytest.mark.parametrize("seed", range(30))
def test_what_is_left_within_reach_is_what_scipy_leaves(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = int(random.integers(3, 16))
    widths = {
        (start, end): int(random.integers(1, 9))
        for start in range(nodes)
        for end in range(nodes)
        if start != end and (end, start) < (start, end) and random.random() < 0.35
    }
    widths |= {(0, 1): 9, (nodes - 2, nodes - 1): 9}
    levels = Network(widths, nodes).fill(0, nodes - 1)
    found = {node for node, level in enumerate(levels) if level != UNREACHED}
    assert found == reached_by_scipy(widths, nodes)


def test_a_flow_gives_way_to_a_larger_one() -> None:
    """The shortest way takes the middle arc, which the largest flow has to do without."""
    widths = {(0, 1): 1, (0, 2): 1, (1, 2): 1, (1, 4): 1, (2, 3): 1, (3, 5): 1, (4, 5): 1}
    network = Network(widths, 6)
    levels = network.fill(0, 5)
    assert levels == [0, *[UNREACHED] * 5]
    assert [1 - room for room in network.room[::2]] == [1, 1, 0, 1, 1, 1, 1]


def test_without_arcs_nothing_is_reached() -> None:
    assert Network({}, 2).fill(0, 1) == [0, UNREACHED]
