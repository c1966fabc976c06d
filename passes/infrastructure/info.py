"""What is known of a pass before it runs."""

from dataclasses import dataclass

from relaxjax.ir.registry import did_you_mean

# Users' passes are in no table, yet a context may disable them: so each leaves its name here when
# it is declared, whether or not one is ever made.
_declared: set[str] = set()


@dataclass(frozen=True, slots=True)
class PassInfo:
    """A pass's name, the optimization level from which it runs, and the passes it requires."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()
    traceable: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.opt_level, bool) or not isinstance(self.opt_level, int):
            raise TypeError(
                f"the opt level of the pass `{self.name}` must be an int, found {self.opt_level!r}"
            )
        object.__setattr__(self, "required", pass_names("required", self.required))
        _declared.add(self.name)


def pass_names(argument: str, names: object) -> tuple[str, ...]:
    """Several names of passes as a tuple; a single string would be read letter by letter."""
    if names is None:
        return ()
    if isinstance(names, list | tuple | set | frozenset) and all(
        isinstance(name, str) for name in names
    ):
        return tuple(names)
    raise TypeError(f'`{argument}` takes a list of names such as ["Normalize"], found {names!r}')


def known_passes(argument: str, names: object) -> frozenset[str]:
    """Names of passes, all of which there are."""
    found = pass_names(argument, names)
    check_known(argument, found)
    return frozenset(found)


def check_known(argument: str, names: tuple[str, ...]) -> None:
    """Raise an error for a name that no pass bears."""
    for name in names:
        if name not in _declared:
            hint = did_you_mean(name, sorted(_declared))
            raise ValueError(f"`{argument}` names `{name}`, but there is no such pass{hint}")
