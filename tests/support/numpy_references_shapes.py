"""What the operators that make, arrange and move tensors compute, in numpy."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from relaxjax.ir.expr import np_dtype


def _same(x: Any, *_: Any) -> Any:
    """What an operator gives that only says something of a value."""
    return x


def _filled(value: float) -> Callable[..., Any]:
    return lambda shape, dtype: np.full(shape, value, np_dtype(dtype))


def _filled_like(value: float) -> Callable[..., Any]:
    return lambda x, dtype=None: np.full(x.shape, value, np_dtype(dtype or "float64"))


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    return np.arange(start, end, step) if end is not None else np.arange(start)


def hamming_window(size: int, periodic: bool, alpha: float, beta: float, dtype: str) -> Any:
    """A window of one place is 1."""
    whole = size if periodic else size - 1
    turns = np.arange(size) / max(whole, 1)
    return np.ones(1) if size == 1 else alpha - beta * np.cos(2 * np.pi * turns)


def reshape(x: Any, shape: Any) -> Any:
    return x.reshape([x.shape[i] if d == 0 and x.size else d for i, d in enumerate(shape)])


def squeeze(x: Any, axis: Any = None) -> Any:
    """An axis that is longer than 1 stays."""
    axes = range(x.ndim) if axis is None else [a % x.ndim for a in np.atleast_1d(axis)]
    return x.reshape([n for a, n in enumerate(x.shape) if a not in axes or n != 1])


def collapse_sum_to(x: Any, shape: Any) -> Any:
    extra = x.ndim - len(shape)
    axes = [a for a in range(x.ndim) if a < extra or shape[a - extra] != x.shape[a]]
    return x.sum(tuple(axes)).reshape(shape)


def split(x: Any, places: Any, axis: int = 0) -> Any:
    """In pieces of one length, the last maybe shorter, or cut at places; one is no tuple."""
    length = x.shape[axis]
    if isinstance(places, int):
        size = -(-length // places)
        places = [size * i for i in range(1, places)]
    cuts = [0, *places, length]
    pieces = [
        np.take(x, np.arange(min(start, length), min(stop, length)), axis)
        for start, stop in pairwise(cuts)
    ]
    return tuple(pieces) if len(pieces) > 1 else pieces[0]


def reverse_sequence(x: Any, lengths: Any, seq_axis: int = 1, batch_axis: int = 0) -> Any:
    y = x.copy()
    whole, done = (np.moveaxis(t, (batch_axis, seq_axis), (0, 1)) for t in (x, y))
    for b, length in enumerate(lengths):
        done[b, :length] = whole[b, :length][::-1]
    return y


def _axes_of(text: str) -> tuple[list[str], dict[str, int]]:
    """The axes of a layout such as NCW4c, and how long the blocks are that it cuts axes into."""
    found = re.findall(r"(\d*)([A-Za-z])", text)
    return [letter for _, letter in found], {b.upper(): int(size) for size, b in found if size}


def _carrier(text: str, shape: Any) -> tuple[Callable[..., Any], list[int]]:
    """Where a change of layout brings an element, and the shape of the result."""
    (source, cut), (target, blocks) = map(_axes_of, text.replace(" ", "").split("->"))

    def number(letter: str, at: Any) -> Any:
        outer = at[source.index(letter)]
        return outer * cut[letter] + at[source.index(letter.lower())] if letter in cut else outer

    def length(letter: str) -> int:
        return int(shape[source.index(letter)]) * cut.get(letter, 1)

    def carry(*at: int) -> Any:
        return [
            number(c, at) // blocks.get(c, 1)
            if c.isupper()
            else number(c.upper(), at) % blocks[c.upper()]
            for c in target
        ]

    return carry, [
        -(-length(c) // blocks.get(c, 1)) if c.isupper() else blocks[c.upper()] for c in target
    ]


def layout_transform(x: Any, layout: Any, pad_value: float = 0) -> Any:
    """Each element carried to its place, one after another."""
    carry, shape = _carrier(layout, x.shape) if isinstance(layout, str) else (layout, None)
    moved = {tuple(carry(*at)): x[at] for at in np.ndindex(x.shape)}
    result = np.full(
        shape or [max(places) + 1 for places in zip(*moved, strict=True)], pad_value, x.dtype
    )
    for at, value in moved.items():
        result[at] = value
    return result


def meshgrid(tensors: Any, indexing: str = "ij") -> Any:
    return tuple(np.meshgrid(*tensors, indexing="xy" if indexing == "xy" else "ij"))


SHAPES: dict[str, Callable[..., Any]] = {
    "relax.zeros": _filled(0),
    "relax.ones": _filled(1),
    "relax.zeros_like": _filled_like(0),
    "relax.ones_like": _filled_like(1),
    "relax.full": lambda shape, value, dtype=None: np.full(
        shape, value, np_dtype(dtype) if dtype else None
    ),
    "relax.full_like": lambda x, value, dtype=None: np.full(
        x.shape, value, np_dtype(dtype) if dtype else x.dtype
    ),
    "relax.eye": lambda n, m=None, k=0, dtype="float32": np.eye(n, m, k, dtype),
    "relax.eye_like": lambda x, k=0, dtype=None: np.eye(x.shape[0], x.shape[1], k),
    "relax.arange": arange,
    "relax.hamming_window": hamming_window,
    "relax.tril": np.tril,
    "relax.triu": np.triu,
    "relax.reshape": reshape,
    "relax.flatten": np.ravel,
    "relax.expand_dims": lambda x, axis: np.expand_dims(
        x, tuple(axis) if isinstance(axis, list) else axis
    ),
    "relax.squeeze": squeeze,
    "relax.broadcast_to": np.broadcast_to,
    "relax.collapse_sum_to": collapse_sum_to,
    "relax.collapse_sum_like": lambda x, target: collapse_sum_to(x, target.shape),
    "relax.permute_dims": np.transpose,
    "relax.layout_transform": layout_transform,
    "relax.flip": np.flip,
    "relax.reverse_sequence": reverse_sequence,
    "relax.concat": lambda tensors, axis=0: np.concatenate(tensors, axis or 0),
    "relax.split": split,
    "relax.stack": np.stack,
    "relax.tile": np.tile,
    "relax.repeat": np.repeat,
    "relax.meshgrid": meshgrid,
    "relax.shape_of": np.shape,
    "relax.shape_to_tensor": lambda shape: np.array(shape, "int64"),
    "relax.tensor_to_shape": tuple,
    "relax.size": np.size,
    "relax.inspect.tensor_ndim": np.ndim,
    "relax.inspect.tensor_shape_i": lambda x, axis: x.shape[axis],
    "relax.inspect.tensor_stride_i": lambda x, axis: int(np.prod(x.shape[axis + 1 :])),
    "relax.inspect.tensor_byte_offset": lambda x: 0,
    "relax.inspect.tensor_elem_offset": lambda x: 0,
    "relax.inspect.tensor_dtype_code": lambda x: "iuf".index(x.dtype.kind),
    "relax.inspect.tensor_dtype_bits": lambda x: 8 * x.itemsize,
    "relax.inspect.tensor_dtype_lanes": lambda x: 1,
    "relax.null_value": lambda: None,
    "relax.print": lambda *_, **__: (),
    "relax.assert_op": lambda *_, **__: (),
    "relax.compiler_begin": _same,
    "relax.compiler_end": _same,
    "relax.builtin.stop_lift_params": _same,
    "relax.hint_on_device": _same,
    "relax.to_vdevice": _same,
    "relax.dist.annotate_sharding": _same,
    "relax.dist.redistribute": _same,
    "relax.grad.no_grad": _same,
    "relax.grad.closed_over": _same,
    "relax.grad.deepest_rule": _same,
    "relax.grad.start_checkpoint": _same,
    "relax.grad.end_checkpoint": _same,
    "relax.grad.delay": _same,
    "relax.grad.once": _same,
    "relax.memory.to_host": _same,
    "relax.memory.to_device": _same,
}
