"""Arguments whose memory the results of a call may take."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import jax

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.wording import quoted


def donated_params(function: Function, name: str, donate: Sequence[str | int]) -> list[int]:
    """The positions of the parameters that are donated, given by name or position."""
    names = [param.name for param in function.params]
    positions = []
    for item in donate:
        if item not in names and item not in range(len(names)):
            listed = quoted(names)
            raise ValueError(f"`{name}` has no parameter `{item}` to donate; it has {listed}")
        positions.append(names.index(item) if isinstance(item, str) else item)
    return positions


def fault_of_donation(
    params: Sequence[Var], donated: Collection[int], args: Sequence[Any]
) -> str | None:
    """What is wrong with the memory of arguments, after a call that failed with them."""
    taken: dict[int, str] = {}
    for place, name, array in sorted(_arrays(params, args), key=lambda found: found[0] in donated):
        if array.is_deleted():
            return (
                f"the memory of `{name}` is gone: it was donated to an earlier call, or deleted; "
                "use that call's result in its place"
            )
        for memory in _memory(array):
            if memory in taken and place in donated:
                other = "holds it twice" if taken[memory] == name else "is the same array"
                return (
                    f"the memory of `{name}` is donated, but `{taken[memory]}` {other}: give each "
                    "a copy of its own, by jnp.array(...)"
                )
            taken[memory] = name
    return None


def _arrays(params: Sequence[Var], args: Sequence[Any]) -> Iterator[tuple[int, str, jax.Array]]:
    """All arrays among the arguments, with the places and names of their parameters."""
    for place, (param, arg) in enumerate(zip(params, args, strict=True)):
        for leaf in jax.tree.leaves(arg):
            if isinstance(leaf, jax.Array):
                yield place, param.name, leaf


def _memory(array: jax.Array) -> list[int]:
    """Where an array lies, on each of its devices; nothing of a random key, which does not tell."""
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.extended):
        return []
    return [int(shard.data.unsafe_buffer_pointer()) for shard in array.addressable_shards]
