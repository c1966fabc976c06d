"""Attention by cuDNN in many sizes: which it has programs for, and how right these are."""

from collections.abc import Callable
from functools import partial
from itertools import cycle, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from device_checks import apart

from relaxjax.ops.nn import attending
from relaxjax.ops.nn.accelerated_attention import (
    by_cudnn,
    gpu_here,
    has_program,
    takes_cudnn,
    wanted_of,
)

LENGTHS = [(1, 1), (1, 64), (7, 7), (65, 33), (127, 127), (128, 128), (200, 333), (1000, 1000)]
HEADS = [(4, 4), (8, 2), (6, 1)]
WIDTHS = [8, 16, 40, 64, 80, 128, 192, 256]
SCOPES: list[tuple[str | None, int | None]] = [
    (None, None),
    ("TopLeft", None),
    ("BottomRight", None),
    ("TopLeft", 1),
    ("TopLeft", 100),
]
DTYPES = ["bfloat16", "float16"]
# Adjoints are sums of products of numbers that are rounded to half precision, softmax included.
ROUNDINGS = 8
OF_THE_LARGEST = 8  # Where a query sees one key, adjoints are zero but for roundings of the others.


def _drawn() -> dict[str, tuple[Any, ...]]:
    """All lengths in all scopes, by turns of the rest; each name tells what it is."""
    rest = zip(cycle(HEADS), cycle(WIDTHS), cycle([*DTYPES, *DTYPES, DTYPES[0]]), strict=False)
    cases = {}
    for (lengths, scope), (heads, width, dtype) in zip(
        product(LENGTHS, SCOPES), rest, strict=False
    ):
        words = [f"{lengths[0]} of {lengths[1]}", f"heads {heads[0]} of {heads[1]}", f"x {width}"]
        words += [dtype, *(str(part) for part in scope if part is not None)]
        cases[", ".join(words)] = lengths, heads, width, dtype, scope
    return cases


CASES = _drawn()


def attention_row(name: str, quick: bool) -> dict[str, Any]:
    """Whether cuDNN has a program, and how far what it gives lies from attention in float32."""
    gpu = gpu_here()
    if gpu is None:
        raise AssertionError("there is no GPU of NVIDIA's here, or more than one")
    (queries, keys), (heads, shared), width, dtype, (mask, window) = CASES[name]
    attrs = {"scale": 0.3 if heads == 6 else None, "causal_mask": mask, "window_size": window}
    random = np.random.default_rng(0)
    shapes = [(2, queries, heads, width)] * 2 + [(2, keys, shared, width)] * 2
    g, *arrays = [jnp.asarray(random.normal(size=shape), dtype) for shape in shapes]
    query, key, value = arrays
    wanted = wanted_of(query, key, value, None, mask, window)
    if not takes_cudnn(wanted, gpu.capability) or not has_program(wanted, heads, shared):
        return {"by_cudnn": False}
    run = with_adjoints(by_cudnn(query, **attrs))
    once, again = jax.device_get((run(g, *arrays), run(g, *arrays)))
    with jax.default_matmul_precision("highest"):
        plain = partial(attending.attention, bias=None, **attrs, chunked=False)
        exact = with_adjoints(plain)(*(x.astype("float32") for x in (g, *arrays)))
    exact = jax.device_get(exact)
    least = max(float(np.abs(x).max()) for x in jax.tree.leaves(exact)) / OF_THE_LARGEST
    far = apart(once, jax.tree.map(lambda x: x.astype(dtype), exact), least)
    if not far <= ROUNDINGS:
        raise AssertionError(f"attention is {far:.1f} roundings apart")
    same = all(map(np.array_equal, jax.tree.leaves(once), jax.tree.leaves(again)))
    return {"by_cudnn": True, "apart": far, "same_again": same}


def with_adjoints(attention: Callable[..., Any]) -> Callable[..., Any]:
    def run(g: Any, *arrays: Any) -> Any:
        result, pullback = jax.vjp(attention, *arrays)
        return result, pullback(g)

    return jax.jit(run)
