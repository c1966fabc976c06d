"""The table of passes by name, and the names that contexts may speak of."""

from typing import TYPE_CHECKING

from relaxjax.ir.registry import did_you_mean

if TYPE_CHECKING:
    from .base import PassFactory

FACTORIES: "dict[str, PassFactory[...]]" = {}

# Users' passes are in no table, yet a context may disable them: so each leaves its name here when
# it is declared, whether or not one is ever made.
_declared: set[str] = set()


def get_pass(name: str) -> "PassFactory[...]":
    """The declared pass called `name`; an unknown name is an error that suggests near misses."""
    if name in FACTORIES:
        return FACTORIES[name]
    raise KeyError(f"there is no pass `{name}`{did_you_mean(name, list(FACTORIES))}")


def remember(name: str) -> None:
    """Note that a pass of this name is declared."""
    _declared.add(name)


def check_known(argument: str, names: tuple[str, ...]) -> None:
    """Raise an error for a name that no pass bears."""
    known = sorted(_declared)
    for name in names:
        if name not in known:
            raise ValueError(
                f"`{argument}` names `{name}`, but there is no such pass{did_you_mean(name, known)}"
            )
