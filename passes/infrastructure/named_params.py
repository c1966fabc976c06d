"""Parameters that the options of a pass name: a name that means nothing is an error."""

from collections.abc import Callable, Iterable, Sequence

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import quoted


def check_params(
    option: str,
    names: Sequence[str],
    mod: IRModule,
    fitting: Callable[[Function], Iterable[Var]] | None = None,
    kind: str = "parameter",
    becomes: Callable[[str], Sequence[str]] = lambda name: (),
) -> None:
    """Raise where no function of a module has a parameter that an option names.

    Only those count that are `fitting`, if that is given; `kind` says what these are. Where there
    is all that one `becomes`, the pass has been there already.
    """
    if not names:
        return
    functions = mod.relax_functions().values()
    there = _names(lambda function: function.params, functions)
    named = [f for f in functions if any(param.name in names for param in f.params)]
    found = there if fitting is None else _names(fitting, named)
    for name in names:
        if (later := becomes(name)) and there.issuperset(later):
            continue
        if name not in there:
            hint = f"{did_you_mean(name, there)}; there are {quoted(sorted(there)) or 'none'}"
            raise ValueError(
                f"`{option}` names `{name}`, but no function has such a parameter{hint}"
            )
        if fitting is not None and name not in found:
            others = quoted(sorted(_names(fitting, functions))) or "none"
            raise ValueError(f"`{option}` names `{name}`, which is no {kind}; there are {others}")


def _names(of: Callable[[Function], Iterable[Var]], functions: Iterable[Function]) -> set[str]:
    return {var.name for function in functions for var in of(function)}
