"""Random networks, compiled as users compile them: `dev.py fuzz` tries many more."""

import pytest
from full import FULL
from norm_networks import CHOICES, WAYS, random_loss, single_choice

from relaxjax.ir.structural import assert_structural_equal, structural_equal
from relaxjax.testing import Way, compare_compilations


def test_a_seed_gives_the_same_network_and_steps_can_be_left_out() -> None:
    network = random_loss(3)
    assert_structural_equal(network.module, random_loss(3).module)
    assert not structural_equal(network.module, random_loss(4).module)
    first, *others = network.steps
    assert random_loss(3, {first}).steps == tuple(others)


@pytest.mark.as_users
# In steps of 31 there are all policies, all dtypes, and six of the seven routes.
@pytest.mark.parametrize("seed", range(0, 2 * len(WAYS), 9 if FULL else 31))
def test_random_programs_come_out_right(seed: int) -> None:
    network = random_loss(seed)
    compare_compilations(network.module, "main", network.args, ways=[WAYS[seed % len(WAYS)]])


@pytest.mark.as_users
@pytest.mark.parametrize("index", range(len(CHOICES)))
def test_choices_by_a_norm_are_differentiated_rightly(index: int) -> None:
    """XLA computes such a norm in several kernels, and rounds otherwise in each."""
    loss = single_choice(index)
    route = ("build", "value_and_grad")[index % 2]
    compare_compilations(loss.module, "main", loss.args, ways=[Way(route)])
