"""Which mesh, sharding and memory policy to train a model by, on devices that are not here.

A candidate is compiled for as many virtual devices. Where these are too many, it is compiled for
fewer of them, twice, from which its counts on all follow. Its time is a roofline's: what the
devices compute, or read and write, whichever takes longer, and then what they exchange.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.ops.cost_rules import byte_count
from relaxjax.trainable.sharding import Distribution, Split, parts
from relaxjax.trainable.sharding_rules import DATA, ShardingLike

from .hardware import Hardware
from .step_counts import StepCounts, extrapolated

MOST_VIRTUAL = 64  # devices to compile for, where the counts for more follow

# What a device sends of the bytes of an exchange among so many, along a ring.
_SENT = {"all-reduce": 2.0, "collective-permute": 1.0, "collective-broadcast": 1.0}


@dataclass(frozen=True)
class Candidate:
    """A mesh, what is split on it, and what is computed again."""

    mesh: Mapping[str, int]
    sharding: ShardingLike
    policy: str

    @property
    def devices(self) -> int:
        return prod(self.mesh.values())

    def with_parts(self, count: int) -> "Candidate":
        """The same with its batch in so many parts."""
        return replace(self, mesh={**self.mesh, DATA: count})

    def probes(self) -> list["Candidate"]:
        """What to compile for its counts: itself, or where it is large, two of fewer parts."""
        size, others = self.mesh[DATA], self.devices // self.mesh[DATA]
        fewer = [n for n in range(2, size) if size % n == 0 and n * others <= MOST_VIRTUAL]
        if self.devices <= MOST_VIRTUAL or len(fewer) < 2:
            return [self]
        return [self.with_parts(count) for count in fewer[-2:]]


@dataclass(frozen=True)
class Prediction:
    """What a candidate takes of each device, and how long a step is, in seconds."""

    candidate: Candidate
    counts: StepCounts
    computing: float
    moving: float
    exchanging: float
    compiled: StepCounts | None = None

    @property
    def seconds(self) -> float:
        return max(self.computing, self.moving) + self.exchanging

    @property
    def limit(self) -> str:
        """What most of the time goes to."""
        times = {
            "computing": self.computing, "memory": self.moving, "exchanges": self.exchanging
        }  # fmt: skip
        return max(times, key=lambda name: times[name])

    @property
    def bytes(self) -> int:
        return (self.compiled or self.counts).bytes

    @property
    def exchanged(self) -> float:
        """The bytes that a device exchanges in a step."""
        return sum((self.compiled or self.counts).exchanges.values())


def candidates(
    devices: int, shardings: Sequence[ShardingLike], policies: Sequence[str], samples: int
) -> list[Candidate]:
    """The meshes of so many devices, with all that can be split on them.

    Patterns have the axis `data` and one of their own. A mesh divides the samples of a batch.
    """
    found = []
    for sharding in shardings:
        own = _own_axes(sharding)
        for other in _divisors(devices) if own else [1]:
            size = devices // other
            if samples % size == 0 and (not own or other > 1):
                mesh = {DATA: size, **dict.fromkeys(own, other)}
                found += [Candidate(mesh, sharding, policy) for policy in policies]
    if not found:
        fitting = [str(n) for n in _divisors(samples) if n > 1]
        raise ValueError(
            f"{devices} devices do not divide a batch of {samples} samples: "
            f"{', '.join(fitting) or 'no other number'} would, or another size by --batch"
        )
    return found


def predicted(
    candidate: Candidate, probes: Sequence[StepCounts], held: int, on: Hardware, dtype: str
) -> Prediction:
    """What is to be expected of a candidate, by the counts of what was compiled for it."""
    compiled = probes[0] if len(probes) == 1 else None
    counts = probes[-1]
    if compiled is None:
        parts_of = [probe.mesh[DATA] for probe in candidate.probes()]
        few, more = zip(parts_of, probes, strict=True)
        counts = extrapolated(few, more, candidate.mesh[DATA])
    counts = replace(counts, held=held)
    count = candidate.devices
    return Prediction(
        candidate,
        counts,
        computing=counts.flops / count / on.flops_in(dtype),
        moving=counts.moved / count / on.bandwidth,
        exchanging=sum(
            _seconds(kind, size, axes, candidate.mesh, on)
            for (kind, axes), size in counts.exchanges.items()
        ),
        compiled=compiled,
    )


def held_bytes(variables: Mapping[str, Sequence[Var]], spread: Distribution) -> int:
    """The bytes of parameters, states and a batch on each device, as a mesh splits them."""
    total = 0
    for group, vars_ in variables.items():
        splits = spread.group(group)
        total += sum(_part(var, splits.get(var.name, ()), spread) for var in vars_)
    return total


def ordered(found: Sequence[Prediction], memory: int) -> list[Prediction]:
    """Those that fit first, the fastest of them first; of about equal ones what takes least."""
    return sorted(
        found, key=lambda one: (one.bytes > memory, float(f"{one.seconds:.2g}"), one.bytes)
    )


def _part(var: Var, split: Split, spread: Distribution) -> int:
    assert isinstance(var.ty, TensorType)
    count = byte_count(var.ty)
    assert isinstance(count, int)
    return count // prod(parts(axes, spread.sizes) for axes in split)


def _seconds(
    kind: str, size: float, axes: Sequence[str], mesh: Mapping[str, int], on: Hardware
) -> float:
    """How long an exchange of so many bytes along some axes takes.

    Along the last axis devices stand beside each other, if these are not too many. Any other axis
    reaches as far as the whole mesh does.
    """
    among = prod(mesh[axis] for axis in axes)
    reach = among if tuple(axes) == tuple(mesh)[-1:] else prod(mesh.values())
    rate = on.link if reach <= on.beside else on.network
    return _SENT.get(kind, 1.0) * (among - 1) / among * size / rate


def _own_axes(sharding: ShardingLike) -> list[str]:
    """The axes that patterns name beside that of the batch."""
    if isinstance(sharding, str):
        return []
    entries = [entry for spec in sharding.values() for entry in spec]
    names = [
        name for entry in entries for name in ((entry,) if isinstance(entry, str) else entry or ())
    ]
    own = [name for name in dict.fromkeys(names) if name != DATA]
    if len(own) > 1:
        raise ValueError(
            f"a plan has the axis `{DATA}` and one more, but the patterns name "
            f"{', '.join(f'`{name}`' for name in own)}"
        )
    return own


def _divisors(count: int) -> list[int]:
    return [n for n in range(1, count + 1) if count % n == 0]
