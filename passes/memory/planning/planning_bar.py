"""A bar on a terminal, for whoever waits for a plan that keeps a budget."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from relaxjax.ir.tables import shown_bytes

from .plan import Plan
from .plans_by_count import Figure

# A search that takes so many seconds, or fewer, shows nothing.
_UNSEEN = 2.0


@contextmanager
def planning_bar(figure: Figure, name: str) -> Iterator[Callable[[Plan], int]]:
    """The figure of plans, each of which counts in a bar: a search takes as long as it compiles.

    It is shown on a terminal where tqdm is installed, and gone when the search is done.
    """
    if not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        yield figure
        return
    from tqdm.auto import tqdm

    least = sys.maxsize

    def counted(plan: Plan) -> int:
        nonlocal least
        found = figure(plan)
        least = min(least, found)
        bar.set_postfix({"least": shown_bytes(least)}, refresh=False)
        bar.update()
        return found

    described = f"planning the memory of {name}"
    with tqdm(desc=described, unit="plan", delay=_UNSEEN, mininterval=0, leave=False) as bar:
        yield counted
