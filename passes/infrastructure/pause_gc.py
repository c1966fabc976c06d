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

    Where many were made meanwhile, the collector walks them once behind it. By itself it would
    twice: as what is new, and soon again as what has survived that.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > gc.get_threshold()[0] > 0:
            gc.collect(1)
        gc.enable()
