"""Which form computes attention on a GPU or TPU: cuDNN's, blocks of scores, or all of them at once.

By blocks the memory grows as the length and not as its square. They are for so many scores that
all of them would hardly be there at once: on an H200 they took up to three times as long, when a
block had up to 1024 queries and keys however few the heads were.

cuDNN's is much the fastest in half precision. JAX lowers it on a machine with such a GPU alone,
and whether cuDNN has a program for some sizes it says when it is to make it. So long sequences are
tried once for each size, forward and backward, and what fails is computed by our own form.
RELAXJAX_CUDNN_ATTENTION=off leaves it out. By =on it is taken untried, on machines with several
GPUs too, where JAX refuses to split sequences over them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from relaxjax.ops.platform import default_device, platform_name
from relaxjax.ops.traced import differentiated_as

from . import attending
from .attending import scale_of
from .long_attention import Limits, LongAttention

VARIABLE = "RELAXJAX_CUDNN_ATTENTION"
_WORDS = ("on", "off", "")

# Scores of a head. Fewer are small all at once, and to ask cuDNN is to compile for each size.
_WORTH_TRYING = 2**18

_WRITTEN_OUT: ContextVar[bool] = ContextVar("written_out", default=False)

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


def takes_cudnn(wanted: Wanted, capability: Capability) -> bool:
    """Whether cuDNN's attention on a GPU of this capability means the same."""
    lengths = (wanted.queries, wanted.keys, wanted.width, wanted.depth)
    if capability < (8, 0) or wanted.biased:
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


class Gpu(NamedTuple):
    """The GPU that programs are made for, if its cuDNN may compute attention."""

    capability: Capability
    is_tried: bool  # before cuDNN's form is taken


def gpu_here() -> Gpu | None:
    """The GPU whose cuDNN may compute attention; None where there is none, or it is left out."""
    asked = os.environ.get(VARIABLE, "").strip().lower()
    if asked not in _WORDS:
        raise ValueError(
            f"{VARIABLE} is {asked!r}: it must be `on` or `off`; where it is not set, cuDNN "
            "computes the attention that it is found to have a program for"
        )
    device = default_device()
    if is_written_out() or asked == "off" or platform_name(device) != "cuda":
        return None
    if asked != "on" and jax.device_count() > 1:
        return None
    return Gpu(tuple(map(int, device.compute_capability.split("."))), is_tried=asked != "on")


@contextmanager
def written_out() -> Iterator[None]:
    """Inside, cuDNN's form is left out: neither an artifact nor the IR can hold its calls."""
    token = _WRITTEN_OUT.set(True)
    try:
        yield
    finally:
        _WRITTEN_OUT.reset(token)


def is_written_out() -> bool:
    """Whether a program is made for an artifact or the IR: only the CPU has forms of its own."""
    return _WRITTEN_OUT.get()


def attention(query: Any, key: Any, value: Any, bias: Any, **attrs: Any) -> Any:
    """softmax(scale * query @ key^T + bias) @ value, for each batch and head."""
    if not _is_by_cudnn(query, key, value, bias, **attrs):
        return ACCELERATED.attention(query, key, value, bias, **attrs)
    plain = partial(attending.attention, bias=None, **attrs, chunked=False)
    return differentiated_as(plain, by_cudnn(query, **attrs))(query, key, value)


def attention_backward(
    output_grad: Any, query: Any, key: Any, value: Any, bias: Any, **attrs: Any
) -> tuple[Any, ...]:
    """The adjoints of query, key, value, and of the bias if it is one of floats."""
    if not _is_by_cudnn(query, key, value, bias, **attrs):
        return ACCELERATED.attention_backward(output_grad, query, key, value, bias, **attrs)
    plain = partial(attending.attention_backward, bias=None, **attrs, chunked=False)
    adjoints = _pulled_back(by_cudnn(query, **attrs))
    return tuple(differentiated_as(plain, adjoints)(output_grad, query, key, value))


def _is_by_cudnn(query: Any, key: Any, value: Any, bias: Any, **attrs: Any) -> bool:
    gpu, wanted = gpu_here(), wanted_of(query, key, value, bias, **attrs)
    if gpu is None or not takes_cudnn(wanted, gpu.capability):
        return False
    if not gpu.is_tried:
        return True
    worth_it = wanted.queries * wanted.keys >= _WORTH_TRYING
    return worth_it and has_program(wanted, query.shape[2], key.shape[2])


@cache
def has_program(wanted: Wanted, heads: Any, of_keys: Any) -> bool:
    """Whether cuDNN's form compiles here, forward and backward, for a batch of one."""
    if not isinstance(heads, int) or not isinstance(of_keys, int):
        return False
    shapes = (wanted.queries, heads), (wanted.keys, of_keys)
    query, key = (
        jax.ShapeDtypeStruct((1, *shape, wanted.width), jnp.dtype(wanted.dtype)) for shape in shapes
    )
    form = by_cudnn(query, None, wanted.causal_mask, wanted.window_size)

    def both(g: Any, *arrays: Any) -> Any:
        return form(*arrays), _pulled_back(form)(g, *arrays)

    try:
        jax.jit(both).lower(query, query, key, key).compile()
    except Exception:  # of JAX, XLA or cuDNN: whatever they object to, our own form computes
        return False
    return True


def _pulled_back(form: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The adjoints of what a form is given, by that of its result."""

    def adjoints(g: Any, *arrays: Any) -> tuple[Any, ...]:
        _, pullback = jax.vjp(form, *arrays)
        return tuple(pullback(g))

    return adjoints


def wanted_of(
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


def by_cudnn(
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
