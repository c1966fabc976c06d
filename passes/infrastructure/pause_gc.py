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
        _let_grow_old()
        gc.enable()


def _let_grow_old() -> None:
    """Move all objects to the oldest generation, as if collections had found them alive.

    Else the next small collection would walk all that was made meanwhile, at once. What is garbage
    among it goes with the next full collection. What somebody has frozen stays frozen.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
