"""Budgets as people say them."""

from typing import Any

import numpy as np
import pytest

from relaxjax.passes.memory.planning.budget import Budget, budget_in_bytes, check_memory_options


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (0, 0),
        (4096, 4096),
        ("4096", 4096),
        ("8GiB", 8 * 2**30),
        ("1.5 mib", 3 * 2**19),
        ("2kB", 2000),
        ("0.5 B", 0),
        (0.25, 250),
        (1.0, 1000),
        ("60%", 600),
        ("12.5 %", 125),
        ("0.5", 500),
        ("1.0", 1000),
    ],
)
def test_bytes(budget: Budget, expected: int) -> None:
    assert budget_in_bytes(budget, lambda: 1000) == expected


@pytest.mark.parametrize("budget", ["much", "8 parsec", "-1", "", "1e3", True, -1, None])
def test_what_is_no_budget(budget: Budget) -> None:
    with pytest.raises(ValueError, match=r'is no memory budget: write "64MiB", "1.5GiB", "60%"'):
        budget_in_bytes(budget, lambda: 1000)


@pytest.mark.parametrize("budget", [0.0, 1.5, "0%", "120%", "1.5", float("nan")])
def test_a_share_is_of_everything(budget: Budget) -> None:
    with pytest.raises(ValueError, match=r"is no share: write"):
        budget_in_bytes(budget, lambda: 1000)


@pytest.mark.parametrize(
    ("budget", "policy", "words"),
    [
        (True, None, '`memory_budget` is True, which is no budget: write "64MiB", "1.5GiB", "60%"'),
        (["8GiB"], None, r"`memory_budget` is \['8GiB'\], which is no budget: write"),
        (None, True, '`memory_policy` must be the name of one, but it is True: write "free", or'),
        (None, ("free",), r"`memory_policy` must be the name of one, but it is \('free',\)"),
    ],
)
def test_an_option_is_named_as_the_user_has_it(budget: Any, policy: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        check_memory_options(budget, policy)


@pytest.mark.parametrize("budget", [None, 5, np.int64(5), np.float32(0.5), "8GiB"])
def test_options_that_may_be_given(budget: Any) -> None:
    check_memory_options(budget, None)
    check_memory_options(None, "free")
