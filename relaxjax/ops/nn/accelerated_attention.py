"""Which form computes attention on a GPU or TPU: cuDNN's, blocks of scores, or all of them at once.

By blocks the memory grows as the length and not as its square. They are for so many scores that
all of them would hardly be there at once: on an H200 they took up to three times as long, when a
block had up to 1024 queries and keys however few the heads were.

cuDNN's is only for whoever asks for it by RELAXJAX_CUDNN_ATTENTION=on. JAX lowers it on a machine
with a GPU alone. It was tried in three cases on an H200, where it was right and much the fastest.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax

from relaxjax.ops.platform import default_device
from relaxjax.ops.traced import differentiated_as

from . import attending
from .attending import scale_of
from .long_attention import Limits, LongAttention

VARIABLE = "RELAXJAX_CUDNN_ATTENTION"
_ON = ("1", "on", "yes", "true")

ACCELERATED = LongAttention(
    Limits(of_a_head=2**22, of_all=2**28, fewest=512, at_a_time=2**25, largest=4096), chunked=False
)

Capability = tuple[int, ...]


class Wanted(NamedTuple):
    """What attention is computed of, as far as a form is chosen by it."""

    dtype: str
    queries: Any
    keys: Any
    width: Any  # of queries and keys
    depth: Any  # of values
    causal_mask: str | None
    window_size: int | None
    biased: bool


def takes_cudnn(wanted: Wanted, capability: Capability | None) -> bool:
    """Whether cuDNN's attention on a GPU of this capability means the same; None is no such GPU."""
    lengths = (wanted.queries, wanted.keys, wanted.width, wanted.depth)
    if capability is None or capability < (8, 0) or wanted.biased:
        return False
    if wanted.dtype not in ("bfloat16", "float16"):
        return False
    if not all(isinstance(length, int) and length > 0 for length in lengths):
        return False
    widest = 128 if capability < (9, 0) else 256
    if wanted.width != wanted.depth or wanted.width % 8 or wanted.width > widest:
        return False
    if wanted.causal_mask is None:
        return wanted.window_size is None  # it looks ahead as far as it likes
    # It aligns masks at the first of both. By a window, a query behind the last key sees none.
    aligned = wanted.causal_mask == "TopLeft" and wanted.window_size is None
    return aligned or wanted.queries == wanted.keys


def capability_here() -> Capability | None:
    """That of the GPU that programs are made for; None where cuDNN is not asked for, or no GPU."""
    if os.environ.get(VARIABLE, "").strip().lower() not in _ON:
        return None
    found = getattr(default_device(), "compute_capability", None)
    return None if found is None else tuple(map(int, str(found).split(".")))


def attention(query: Any, key: Any, value: Any, bias: Any, **attrs: Any) -> Any:
    """softmax(scale * query @ key^T + bias) @ value, for each batch and head."""
    if not takes_cudnn(_wanted(query, key, value, bias, **attrs), capability_here()):
        return ACCELERATED.attention(query, key, value, bias, **attrs)
    plain = partial(attending.attention, bias=None, **attrs, chunked=False)
    return differentiated_as(plain, _by_cudnn(query, **attrs))(query, key, value)


def attention_backward(
    output_grad: Any, query: Any, key: Any, value: Any, bias: Any, **attrs: Any
) -> tuple[Any, ...]:
    """The adjoints of query, key, value, and of the bias if it is one of floats."""
    if not takes_cudnn(_wanted(query, key, value, bias, **attrs), capability_here()):
        return ACCELERATED.attention_backward(output_grad, query, key, value, bias, **attrs)
    plain = partial(attending.attention_backward, bias=None, **attrs, chunked=False)
    form = _by_cudnn(query, **attrs)

    def adjoints(g: Any, *arrays: Any) -> tuple[Any, ...]:
        _, pullback = jax.vjp(form, *arrays)
        return tuple(pullback(g))

    return tuple(differentiated_as(plain, adjoints)(output_grad, query, key, value))


def _wanted(
    query: Any, key: Any, value: Any, bias: Any, causal_mask: Any, window_size: Any, **_: Any
) -> Wanted:
    return Wanted(
        dtype=str(query.dtype),
        queries=query.shape[1],
        keys=key.shape[1],
        width=query.shape[3],
        depth=value.shape[3],
        causal_mask=causal_mask,
        window_size=window_size,
        biased=bias is not None,
    )


def _by_cudnn(
    query: Any, scale: float | None, causal_mask: str | None, window_size: int | None
) -> Callable[..., Any]:
    """JAX's attention by cuDNN: a window there is how many keys before its own a query sees."""
    return partial(
        jax.nn.dot_product_attention,
        scale=scale_of(query, scale),
        is_causal=causal_mask is not None,
        local_window_size=None if window_size is None else (window_size - 1, 0),
        implementation="cudnn",
    )
