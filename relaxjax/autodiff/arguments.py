"""The arguments of a loss, sorted: differentiated by, traced, or left as they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from relaxjax.frontends import leaf_names, leaf_paths


@dataclass(frozen=True)
class Arguments:
    """The leaves of a call's arguments, and which of them are those of `argnums`: `asked`.

    All of these are `wanted`, but for integers and keys, which have no derivative. Traced are the
    wanted and all other arrays. What else there is, such as a flag or the name of a mode, is for
    the function to look at.
    """

    leaves: tuple[Any, ...]
    names: tuple[str, ...]
    tree: Any
    asked: tuple[int, ...]
    asked_tree: Any
    wanted: tuple[int, ...]
    paths: Callable[[], Sequence[str]]  # of the leaves, as the user writes them

    @cached_property
    def traced(self) -> list[int]:
        """The places of the leaves that the program takes."""
        wanted = set(self.wanted)
        return [
            index for index, leaf in enumerate(self.leaves) if index in wanted or _is_array(leaf)
        ]

    def check_numbers(self) -> None:
        """Raise where a leaf has a shape and a dtype alone, which is enough to plan, not to run.

        So has an array whose memory a program took.
        """
        for place, leaf in enumerate(self.leaves):
            if isinstance(leaf, jax.ShapeDtypeStruct):
                raise TypeError(without_numbers(f"`{self.paths()[place]}`"))
            if has_memory(leaf) and leaf.is_deleted():
                raise RuntimeError(used_up(self.paths()[place]))

    @property
    def ways(self) -> list[str]:
        """The way to each leaf inside of its argument, such as `layers/0/w`."""
        found = jax.tree_util.tree_leaves_with_path(jax.tree.unflatten(self.tree, self.leaves))
        return [jax.tree_util.keystr(path[2:], simple=True, separator="/") for path, _ in found]

    @property
    def untraced(self) -> list[Any]:
        """What the traced leaves are where they are arrays of numpy that only stand by, or None."""
        return [
            leaf if place not in self.wanted and isinstance(leaf, np.ndarray) else None
            for place, leaf in ((place, self.leaves[place]) for place in self.traced)
        ]

    @property
    def weak(self) -> list[bool]:
        """Which of the leaves to differentiate by promote like numbers of Python."""
        return [jax.typeof(self.leaves[place]).weak_type for place in self.wanted]

    def nested(self, gradients: Iterable[Any]) -> Any:
        """The gradients as the arguments are nested; those of integers as JAX gives them."""
        given = dict(zip(self.wanted, gradients, strict=True))
        found = [
            given[place] if place in given else _without_numbers(self.leaves[place])
            for place in self.asked
        ]
        return jax.tree.unflatten(self.asked_tree, found)

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function of the traced leaves, the others bound.

        It holds none of the traced leaves of this call, which another transformation may trace: JAX
        keeps the function beyond that.
        """
        tree, places = self.tree, self.traced
        still = [None if i in places else leaf for i, leaf in enumerate(self.leaves)]

        def on_arrays(*arrays: Any) -> Any:
            given = dict(enumerate(still)) | dict(zip(places, arrays, strict=True))
            args, kwargs = jax.tree.unflatten(tree, given.values())
            return function(*args, **kwargs)

        return on_arrays


def sort_arguments(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    argnums: int | Sequence[int],
    allow_int: bool,
) -> Arguments:
    """Sort the arguments of a call; those of `argnums` must be real or complex numbers.

    With `allow_int` there may be integers, truth values and random keys among them.
    """
    chosen = _chosen(argnums, len(args))
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    names = leaf_names(function, args, kwargs)
    ends = np.cumsum([0, *(len(jax.tree.leaves(arg)) for arg in args)])
    asked = [place for index in chosen for place in range(ends[index], ends[index + 1])]
    wanted = [place for place in asked if not (allow_int and _is_whole(leaves[place]))]
    paths = partial(leaf_paths, function, args, kwargs)
    for place in wanted:
        _check_smooth(leaves[place], place, paths)
    parts = tuple(args[index] for index in chosen)
    asked_tree = jax.tree.structure(parts if isinstance(argnums, Sequence) else parts[0])
    sorted_out = tuple(asked), asked_tree, tuple(wanted)
    return Arguments(tuple(leaves), tuple(names), tree, *sorted_out, paths)


def _chosen(argnums: int | Sequence[int], count: int) -> list[int]:
    given = list(argnums) if isinstance(argnums, Sequence) else [argnums]
    for number in given:
        if not isinstance(number, int | np.integer):
            raise TypeError(f"`argnums` must be an integer or several of them, found {argnums!r}")
        if not -count <= number < count:
            raise TypeError(
                f"`argnums` is {argnums}, but the function is called with {count} arguments by "
                "position: those to differentiate by must be among these"
            )
    chosen = [number % count for number in given]
    if len(set(chosen)) != len(chosen) or not chosen:
        raise ValueError(f"`argnums` must name one argument or several different ones: {argnums}")
    return chosen


def _is_array(leaf: Any) -> bool:
    """Whether a leaf is an array that JAX takes, not one of words, of objects or of dates."""
    if isinstance(leaf, np.ndarray):
        return is_of_jax(leaf.dtype)
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)


@cache
def is_of_jax(dtype: np.dtype) -> bool:
    """Whether JAX has arrays of it."""
    try:
        jax.typeof(np.empty((), dtype))
    except TypeError:
        return False
    return True


def without_numbers(what: str) -> str:
    """What is wrong with an argument of which only shape and dtype are given."""
    return (
        f"{what} is a jax.ShapeDtypeStruct, which has no numbers to compute with: give an array, "
        "or ask `.memory(...)` and `.module(...)`, which need no more than shapes and dtypes"
    )


def has_memory(leaf: Any) -> bool:
    """Whether it is an array that a program can take the memory of."""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer)


def used_up(what: str) -> str:
    """What is wrong with an array whose memory a program took."""
    return (
        f"{what} was given to a program that used it up, by donation, and is gone: give what that "
        "program returned, or a copy from before"
    )


def _is_whole(leaf: Any) -> bool:
    """Whether a leaf is an integer, a truth value or a random key, or an array of such."""
    dtype = getattr(leaf, "dtype", type(leaf))
    whole = jnp.issubdtype(dtype, np.integer) or jnp.issubdtype(dtype, jax.dtypes.prng_key)
    return whole or dtype in (np.bool_, bool, int)


def _without_numbers(leaf: Any) -> Any:
    return np.zeros(np.shape(leaf), jax.dtypes.float0)


def _check_smooth(leaf: Any, place: int, paths: Callable[[], Sequence[str]]) -> None:
    try:
        is_array = isinstance(leaf, jax.Array)  # to ask JAX of what is none takes long
        dtype = leaf.dtype if is_array else jax.eval_shape(lambda array: array, leaf).dtype
    except TypeError:
        found = f"{leaf!r} of type {type(leaf).__name__}"
        instead = ", or what is no array out of the argument, as by `equinox.partition`"
    else:
        if jnp.issubdtype(dtype, jnp.inexact):
            return
        found = f"of dtype {dtype}"
        instead = ", or pass over integers and keys by `allow_int=True`" if _is_whole(leaf) else ""
    raise TypeError(
        "only arrays of floating-point or complex dtype can be differentiated by, "
        f"but `{paths()[place]}` is {found}: leave it out of `argnums`{instead}"
    )
