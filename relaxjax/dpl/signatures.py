"""What a pattern of an operator's calls asks for, beside what such calls have."""

from collections.abc import Collection, Iterable

from relaxjax.ir.op import argument_count, attribute_names, get_op
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import quoted


def check_count(operators: Collection[str], count: int, more: bool) -> None:
    """Raise where no call of some operators has so many arguments, or `more` where it may."""
    known = [(name, *argument_count(get_op(name))) for name in sorted(operators)]
    if not known or any(
        (most is None or count <= most) and (more or count >= least) for _, least, most in known
    ):
        return
    name, least, most = known[0]
    if most is None:
        expected = f"at least {least}"
    else:
        expected = f"{least}" if least == most else f"{least} to {most}"
    mend = "; `varg_default_wildcard=True` stands for those left out" if count < least else ""
    raise TypeError(
        f"no call fits the pattern: it has {count} {_arguments(count)}, and a call of {name} "
        f"{expected}{mend}"
    )


def check_attributes(operators: Collection[str], attrs: Iterable[str]) -> None:
    """Raise where no call of some operators has an attribute."""
    known = [(name, attribute_names(get_op(name))) for name in sorted(operators)]
    for attr in attrs if known else ():
        if all(names is not None and attr not in names for _, names in known):
            name, names = known[0]
            hint = did_you_mean(attr, names or ()) or f"; it has {_listed(names or ())}"
            raise ValueError(f"no call fits the pattern: {name} has no attribute `{attr}`{hint}")


def _arguments(count: int) -> str:
    return "argument" if count == 1 else "arguments"


def _listed(names: Collection[str]) -> str:
    return quoted(names) or "none"
