"""Passes by their names: those declared here, and those that other packages bring.

A package names its passes as entry points of the group `relaxjax.passes`, each a module that
declares some, or one that is declared:

    [project.entry-points."relaxjax.passes"]
    mine = "my_package.my_passes"

They are imported where a name is asked for that is none of those declared, or all names are.
"""

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import a_kind

from .base import FACTORIES, PassFactory

GROUP = "relaxjax.passes"


def get_pass(name: str) -> PassFactory[...]:
    """The declared pass called `name`; an unknown name is an error that suggests near misses."""
    if name not in FACTORIES:
        import_packaged()
    if name in FACTORIES:
        return FACTORIES[name]
    raise KeyError(f"there is no pass `{name}`{did_you_mean(name, list(FACTORIES))}")


@cache
def import_packaged() -> None:
    """Import what other packages bring, once; one that is broken is warned of and left out."""
    for point in entry_points(group=GROUP):
        problem = _problem(point)
        if problem is not None:
            package = "" if point.dist is None else f" of the package `{point.dist.name}`"
            warnings.warn(
                f"the passes `{point.name}`{package} are left out: `{point.value}` {problem}",
                stacklevel=3,
            )


def _problem(point: EntryPoint) -> str | None:
    """What is wrong with an entry point, which is imported by this; None where nothing is."""
    try:
        found = point.load()
    except Exception as error:  # whatever a module of somebody else may raise
        return f"cannot be imported: {type(error).__name__}: {error}"
    if isinstance(found, ModuleType | PassFactory):
        return None
    return f"is {a_kind(found)}: name a module, or a pass that is declared by `pass_factory`"
