"""A training in several processes: what they must agree on, and what all of them are to know."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

T = TypeVar("T")

_WAIT = 300  # seconds for another process, which may still be reading its data
_WAIT_FOR_FILES = 3600  # seconds for its files, which a slow disk may write for long
_MOST_SHOWN = 200  # characters of what a process said


class ProcessesError(RuntimeError):
    """The processes of a training do not do the same, or one of them is gone."""


def are_several() -> bool:
    return bool(jax.process_count() > 1)


def is_first() -> bool:
    """Whether this is the process that shows and writes for all."""
    return bool(jax.process_index() == 0)


@dataclass(frozen=True)
class Conversation:
    """Questions that all processes ask in one order, by a name that no other of them has."""

    name: str
    _serial: Iterator[int] = field(default_factory=itertools.count, init=False)

    def told(self, subject: str, own: str, seconds: float = _WAIT) -> list[str]:
        """What each process says of a subject, in their order; all must ask for it in turn."""
        if not are_several():
            return [own]
        client, number, count = _client(), next(self._serial), jax.process_count()
        key, me = f"{self.name}/{number}", jax.process_index()
        client.key_value_set(f"{key}/{me}", f"{subject}\n{own}")
        found = []
        for other in range(count):
            try:
                text = client.blocking_key_value_get(f"{key}/{other}", int(seconds * 1000))
            except Exception as error:  # of the runtime, whose errors have no class of their own
                raise ProcessesError(
                    f"process {other} of {count} did not come to {subject} within {seconds:g} s of "
                    f"process {me}: it has ended, or waits for something else"
                ) from error
            theirs, _, said = text.partition("\n")
            if theirs != subject:
                raise ProcessesError(
                    f"process {me} is at {subject}, but process {other} is at {theirs}: all "
                    "processes of a training run the same program"
                )
            found.append(said)
        if number > 1:  # everybody has read it: they came to what followed it
            client.key_value_delete(f"{self.name}/{number - 2}/{me}")
        return found


_training = Conversation("relaxjax")


def agree(subject: str, own: str, mend: str) -> None:
    """Raise on every process where they say different things of a subject."""
    found = _training.told(subject, own)
    other = next((at for at, text in enumerate(found) if text != found[0]), None)
    if other is not None:
        raise ProcessesError(
            f"the processes differ in {subject}: process 0 has {_short(found[0])}, process {other} "
            f"has {_short(found[other])}: {mend}"
        )


def all_did(
    subject: str,
    verb: str,
    work: Callable[[], None],
    own: str = "",
    among: Conversation = _training,
) -> list[str]:
    """What each process says once it has done its work; if one fails, all of them raise."""

    def told(fault: str | None) -> list[Any]:
        said = among.told(subject, json.dumps([own, fault]), _WAIT_FOR_FILES)
        return list(map(json.loads, said))

    try:
        work()
    except Exception as error:  # which the others wait to hear of
        told(str(error))
        raise
    said = told(None)
    for at, (_, fault) in enumerate(said):
        if fault is not None:
            raise ProcessesError(f"process {at} could not {verb} {subject}: {fault}")
    return [name for name, _ in said]


def in_step(batches: Iterable[T], kind: Any) -> Iterator[T]:
    """Batches that each process takes its part of, as many and of the same kinds in all of them."""
    mend = "give each process as many batches as the others, of the same shapes"
    if isinstance(batches, list | tuple):
        kinds = [str(kind(batch)) for batch in batches]
        agree("the batches of an epoch", f"{len(kinds)} batches: {', '.join(kinds)}", mend)
        yield from batches
        return
    rest = iter(batches)
    while True:
        try:
            batch = next(rest)
        except StopIteration:
            agree("the next batch", "no batch any more", mend)
            return
        except BaseException as error:
            _training.told("the next batch", f"an error: {error}")
            raise
        agree("the next batch", f"one of {kind(batch)}", mend)
        yield batch


def on_host(tree: Any) -> Any:
    """Arrays whose parts are in several processes, as whole arrays of numpy in each of them."""
    if not are_several():
        return tree
    return jax.tree.map(lambda leaf: whole_on_host(leaf) if _has_numbers(leaf) else leaf, tree)


def whole_on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array in the host's memory, gathered from all processes where it must be."""
    if isinstance(array, jax.Array) and not (
        array.is_fully_addressable or array.is_fully_replicated
    ):
        return np.asarray(multihost_utils.process_allgather(array, tiled=True))
    return np.asarray(array)


def wait_for_all(subject: str) -> None:
    """Return once all processes are here."""
    _training.told(subject, "")


def whole_from_each(array: Any, sharding: Any) -> Any:
    """An array that each process has whole, where every device holds its part of it."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        return jax.jit(_copied, out_shardings=sharding)(array)
    if _is_key(array):
        numbers = whole_from_each(jax.random.key_data(array), sharding)
        return jax.random.wrap_key_data(numbers, impl=str(jax.random.key_impl(array)))
    host = np.asarray(array)
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])


def _has_numbers(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not _is_key(leaf)


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", np.dtype("float32"))
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def _copied(array: Any) -> Any:
    return jax.numpy.copy(array)


def _client() -> Any:
    """The client of JAX's coordination service, for which JAX has no public name."""
    from jax._src import distributed

    return distributed.global_state.client


def _short(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
