"""What XLA counts of a training step on a mesh: bytes of each device, and what devices exchange."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.lowering.collectives import axes_of_groups, collectives_of
from relaxjax.lowering.memory import compiled_step
from relaxjax.ops.cost import function_cost
from relaxjax.trainable.names import TRAIN_STEP

Exchanges = Mapping[tuple[str, tuple[str, ...]], float]


@dataclass(frozen=True)
class StepCounts:
    """A step on a mesh: the bytes of each device, and those that it exchanges by kind and axes.

    `held` are parameters, states and the batch, `temporary` what a step needs beside them. `flops`
    and `moved`, the bytes that operators read and write, are those of all devices together.
    """

    held: int
    temporary: int
    exchanges: Exchanges
    flops: int
    moved: int

    @property
    def bytes(self) -> int:
        return self.held + self.temporary

    def to_json(self) -> dict[str, Any]:
        listed = [[kind, list(axes), count] for (kind, axes), count in self.exchanges.items()]
        return {
            "held": self.held,
            "temporary": self.temporary,
            "exchanges": listed,
            "flops": self.flops,
            "moved": self.moved,
        }

    @staticmethod
    def of_json(found: dict[str, Any]) -> "StepCounts":
        exchanges = {(kind, tuple(axes)): count for kind, axes, count in found["exchanges"]}
        return StepCounts(**{**found, "exchanges": exchanges})


def counted(mod: IRModule, sizes: Mapping[str, int]) -> StepCounts:
    """The counts of a module's step, compiled for the devices of its mesh, which are here."""
    compiled = compiled_step(mod)
    found = compiled.memory_analysis()
    assert found is not None
    exchanges: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for one in collectives_of(compiled.as_text() or ""):
        axes = axes_of_groups(sizes, one.groups) or tuple(sizes)
        exchanges[one.kind, axes] += one.bytes * (one.times or 1)
    cost = function_cost(mod[TRAIN_STEP], mod)
    flops, moved = (0, 0) if cost is None else (cost.flops, cost.bytes)
    if not isinstance(flops, int) or not isinstance(moved, int):
        raise ValueError("the size of a dimension is not known: give the batch its size by --batch")
    return StepCounts(
        held=int(found.argument_size_in_bytes),
        temporary=int(found.temp_size_in_bytes + found.output_size_in_bytes)
        - int(found.alias_size_in_bytes),
        exchanges=dict(exchanges),
        flops=flops,
        moved=moved,
    )


def extrapolated(
    few: tuple[int, StepCounts], more: tuple[int, StepCounts], parts: int
) -> StepCounts:
    """The counts for a batch in so many parts, of those for two other numbers of parts.

    What is of the batch is divided by the number of parts, and what is of the parameters is not:
    both follow from the two counts. What is held is counted otherwise.
    """
    (one, first), (other, second) = few, more

    def along(at_one: float, at_other: float) -> float:
        divided = (at_one - at_other) / (1 / one - 1 / other)
        return max(0.0, at_other + divided * (1 / parts - 1 / other))

    keys = {**first.exchanges, **second.exchanges}
    exchanges = {
        key: along(first.exchanges.get(key, 0), second.exchanges.get(key, 0)) for key in keys
    }
    temporary = int(along(first.temporary, second.temporary))
    return StepCounts(second.held, temporary, exchanges, second.flops, second.moved)
