"""Python's collector of garbage, out of the way while programs are traced and passes run."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without the collector, which would walk all nodes there are again and again.

    It takes a sixth of the time of the passes over a large model, and finds next to nothing:
    nodes form no circles, so that what nobody refers to is freed at once. JAX hooks into each
    collection, small ones too.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
