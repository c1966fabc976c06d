"""One epoch of mini-batches."""

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.wording import a_kind

Array = np.ndarray[Any, np.dtype[Any]]


def batches(
    images: Array,
    labels: Array,
    size: int,
    *,
    seed: int | None = None,
    epoch: int = 0,
    drop_last: bool = True,
    rows: slice | None = None,
) -> Iterator[tuple[Array, Array]]:
    """The examples in batches of `size`, in an order that `seed` and `epoch` alone decide.

    Without a seed the order is the given one. With `drop_last` a smaller last batch is left out,
    so that every batch has one shape and a compiled step serves them all.

    With `rows`, such as `trainer.rows_of_process(size)`, only these of each batch are taken: of
    arrays that stay in their files, by `np.load(..., mmap_mode="r")`, no other rows are read.
    """
    check_flags(drop_last=drop_last)
    for name, given in (("images", images), ("labels", labels)):
        if not hasattr(given, "shape"):
            raise TypeError(
                f"`{name}` must be an array, but it is {a_kind(given)}: make one of it by "
                "np.asarray(...)"
            )
    if len(images) != len(labels):
        raise ValueError(f"there are {len(images)} images, but {len(labels)} labels: pair them up")
    try:
        size = operator.index(size)
    except TypeError:
        raise TypeError(f"`size` must be a number of examples, but it is {size!r}") from None
    if size < 1:
        raise ValueError(f"a batch must have at least 1 example, but `size` is {size}")
    if drop_last and len(images) < size:
        raise ValueError(
            f"{len(images)} examples do not fill a single batch of {size}: "
            "make `size` smaller, or keep the rest by drop_last=False"
        )
    _check_seed("epoch", epoch)
    if seed is not None:
        _check_seed("seed", seed)
    part = _part(rows, size, drop_last)
    order = np.arange(len(images))
    if seed is not None:
        np.random.default_rng((seed, epoch)).shuffle(order)
    end = len(order) - len(order) % size if drop_last else len(order)
    starts = range(0, end, size)
    return (
        (images[chosen], labels[chosen]) for chosen in (order[i : i + size][part] for i in starts)
    )


def _check_seed(name: str, number: Any) -> None:
    try:
        is_seed = operator.index(number) >= 0
    except TypeError:
        is_seed = False
    if not is_seed:
        raise ValueError(f"`{name}` must be an integer of at least 0, but it is {number!r}")


def _part(rows: slice | None, size: int, drop_last: bool) -> slice:
    """The rows to take of each batch, all unless some are asked for."""
    if rows is None:
        return slice(None)
    first, last, step = rows.indices(size)
    if not first < last or step != 1 or (rows.stop or 0) > size:
        raise ValueError(
            f"`rows` must be a part of each batch of {size}, such as "
            f"trainer.rows_of_process({size}), but it is {rows!r}"
        )
    if not drop_last:
        raise ValueError("with `rows`, a smaller last batch has no such part: drop_last=True")
    return rows
