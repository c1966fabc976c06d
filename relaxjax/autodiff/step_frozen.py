"""Which parameters a training step trains, as the user says: by True and False, or by names."""

from fnmatch import fnmatchcase
from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from relaxjax.ir.registry import did_you_mean

from .step_trees import apart, check_trainable


def frozen_of(params: Any, trainable: Any) -> tuple[int, ...]:
    """The numbers of those arrays among the parameters that are not to be trained.

    `trainable` is a pytree of True and False like the parameters, or like the first levels of
    them, or a list of patterns for names such as `layers/0/w`. None trains all.
    """
    flags = _flags(params, trainable)
    trained = [
        leaf if flag else None for leaf, flag in zip(jax.tree.leaves(params), flags, strict=True)
    ]
    _, nesting = apart(params, numbers=False)
    if not any(flags[place] for place in nesting.places) and nesting.places:
        raise ValueError("`trainable` leaves no parameter to be trained: say True of some of them")
    check_trainable(jax.tree.unflatten(nesting.tree, trained), "params")
    return tuple(n for n, place in enumerate(nesting.places) if not flags[place])


def _flags(params: Any, trainable: Any) -> list[bool]:
    """For each leaf, whether it is to be trained."""
    if trainable is None:
        return [True] * len(jax.tree.leaves(params))
    if isinstance(trainable, list | tuple) and all(isinstance(one, str) for one in trainable):
        return _matching(params, list(trainable))
    if isinstance(trainable, str):
        raise TypeError(
            f"`trainable` is {trainable!r}: write it as a list of patterns for names, such as "
            f"[{trainable!r}], or give a pytree of True and False"
        )
    try:
        spread = jax.tree.map(
            lambda flag, part: jax.tree.map(lambda _: flag, part), trainable, params
        )
    except (ValueError, TypeError):
        raise ValueError(
            "`trainable` must be a pytree of True and False, nested as the parameters or as the "
            "first levels of them, or a list of patterns for names: it is for "
            f"{', '.join(_names(trainable))}, and the parameters are {', '.join(_names(params))}"
        ) from None
    for path, flag in tree_leaves_with_path(spread):
        if not isinstance(flag, bool | np.bool):
            raise TypeError(f"`trainable`{keystr(path)} must be True or False, but it is {flag!r}")
    return [bool(flag) for flag in jax.tree.leaves(spread)]


def _matching(params: Any, patterns: list[str]) -> list[bool]:
    """For each leaf, whether a pattern is for its name."""
    names = _names(params)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(
                f"the pattern {pattern!r} of `trainable` is for none of the parameters "
                f"{', '.join(names)}{did_you_mean(pattern, names)}"
            )
    return [any(fnmatchcase(name, pattern) for pattern in patterns) for name in names]


def _names(tree: Any) -> list[str]:
    return [keystr(path, simple=True, separator="/") for path, _ in tree_leaves_with_path(tree)]
