"""Which numbers of parts are compiled for a budget, by what was predicted and what XLA takes."""

import re
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import chosen_platform, has_several_cpus
from relaxjax.passes.memory import parts_of_batch
from relaxjax.passes.memory.offload import peak_as_written
from relaxjax.passes.memory.parts_of_batch import InParts
from relaxjax.passes.memory.rematerialize import decided

pytestmark = pytest.mark.skipif(
    chosen_platform() != "cpu" or has_several_cpus(), reason="it is for one CPU"
)

ADJOINT = "loss_adjoint"


@cache
def adjoint(samples: int) -> IRModule:
    """Of four layers."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        for weight in params:
            x = x + jnp.tanh(x @ weight)
        return ((x - y) ** 2).mean()

    given = np.zeros((4, 16, 16), "float32"), *np.zeros((2, samples, 16), "float32")
    return relaxjax.value_and_grad(loss, memory_policy="none").module(*given)


class Compiler:
    """Takes what is predicted, and so many bytes more for a part that is the whole batch."""

    def __init__(self, more: int = 0) -> None:
        self.more = more
        self.predicted: dict[int, int] = {}  # for each number of parts that is compiled

    def __call__(self, split: IRModule) -> int:
        (number,) = map(int, re.findall(r"length=(\d+)", split.script()))
        assert number not in self.predicted
        self.predicted[number] = peak_as_written(split, ADJOINT)
        return self.predicted[number] + self.more // number

    @property
    def tried(self) -> list[int]:
        return list(self.predicted)


def in_parts(samples: int, limit: int, taken: Compiler) -> InParts:
    mod = adjoint(samples)
    return InParts(mod, ADJOINT, None, [decided(mod, ADJOINT, policy="none")], limit, taken)


def test_the_fewest_parts_that_are_predicted_to_keep_a_limit_are_tried_first() -> None:
    taken = Compiler()
    found = in_parts(256, 60_000, taken).likely()
    assert found is not None
    assert found.parts is not None
    assert found.parts.number == 4
    assert taken.tried == [4]


def test_what_few_parts_take_more_than_predicted_is_expected_of_more_by_their_size() -> None:
    """Four take 160,000 bytes; of eight 80,000 are expected, of sixteen 41,000."""
    taken = Compiler(more=480_000)
    assert in_parts(256, 60_000, taken).likely() is not None
    assert taken.tried == [4, 16]


def test_parts_with_nothing_to_spare_are_tried_before_single_samples() -> None:
    few = Compiler()
    in_parts(4, 10**9, few).likely()
    taken = Compiler()
    assert in_parts(4, few.predicted[2], taken).likely() is not None
    assert taken.tried == [2]
    missed = Compiler(more=2)
    assert in_parts(4, few.predicted[2], missed).likely() is not None
    assert missed.tried == [2, 4]


def test_single_samples_that_take_as_long_are_tried_before_parts_with_nothing_to_spare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = Compiler()
    in_parts(4, 10**9, few).likely()
    monkeypatch.setattr(parts_of_batch, "most_quick", lambda function, peak: 4)
    taken = Compiler()
    assert in_parts(4, few.predicted[2], taken).likely() is not None
    assert taken.tried == [4]


def test_the_smallest_is_tried_though_it_is_not_expected_to_keep_the_limit() -> None:
    """And no more than once."""
    taken = Compiler(more=10**9)
    found = in_parts(256, 60_000, taken)
    assert found.likely() is None
    assert found.unlikely() is None
    assert found.unlikely() is None
    assert taken.tried == [4, 256]
