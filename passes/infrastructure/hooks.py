"""Instruments: objects that a pass context calls before and after each pass.

An instrument has any of these methods, and needs no base class:

    enter_pass_ctx(self)                       the context is entered
    exit_pass_ctx(self)                        the context is left
    should_run(self, mod, info) -> bool        False vetoes the pass
    run_before_pass(self, mod, info)           `mod` is what the pass is given
    run_after_pass(self, mod, info)            `mod` is what the pass made
    run_failed_pass(self, mod, info, error)    the pass, or an instrument around it, raised
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import quoted

HOOKS = (
    "enter_pass_ctx",
    "exit_pass_ctx",
    "should_run",
    "run_before_pass",
    "run_after_pass",
    "run_failed_pass",
)

C = TypeVar("C", bound=type)


@overload
def pass_instrument(cls: C) -> C: ...
@overload
def pass_instrument(cls: None = None) -> Callable[[C], C]: ...
def pass_instrument(cls: Any = None) -> Any:
    """Declare a class as an instrument; misspelt or missing hooks are errors at once."""
    if cls is None:
        return pass_instrument
    if not isinstance(cls, type):
        raise TypeError(f"`pass_instrument` decorates a class, found {cls!r}")
    for name in vars(cls):
        if name not in HOOKS and name.startswith(("run_", "enter_", "exit_", "should_")):
            hint = did_you_mean(name, list(HOOKS))
            if hint:
                raise TypeError(f"an instrument has no hook `{name}`{hint}")
    if not any(hasattr(cls, hook) for hook in HOOKS):
        raise TypeError(f"the instrument `{cls.__name__}` needs one of {quoted(HOOKS)}")
    return cls


def checked_instruments(instruments: object) -> tuple[Any, ...]:
    """The instruments of a context, each of them with a hook at least."""
    if instruments is None:
        return ()
    if not isinstance(instruments, Iterable):
        raise TypeError(f"`instruments` takes a list of instruments, found {instruments!r}")
    checked = tuple(instruments)
    for instrument in checked:
        if isinstance(instrument, type):
            name = instrument.__name__
            raise TypeError(f"the instrument `{name}` is a class: write `{name}(...)`")
        if not any(hasattr(instrument, hook) for hook in HOOKS):
            raise TypeError(f"{instrument!r} is no instrument: it has none of {quoted(HOOKS)}")
    return checked


def call_hook(instrument: Any, hook: str, *args: Any) -> Any:
    """Call a hook where the instrument has it; its errors name it."""
    method = getattr(instrument, hook, None)
    if method is None:
        return None
    try:
        return method(*args)
    except Exception as error:
        error.add_note(f"in `{hook}` of the instrument `{type(instrument).__name__}`")
        raise


def enter_all(instruments: Sequence[Any]) -> None:
    """Enter every instrument; where one raises, those entered before it are left again."""
    for index, instrument in enumerate(instruments):
        try:
            call_hook(instrument, "enter_pass_ctx")
        except BaseException:
            exit_all(instruments[:index])
            raise


def exit_all(instruments: Sequence[Any]) -> None:
    """Leave every instrument, whatever one of them raises; the first error is raised at the end."""
    errors: list[Exception] = []
    for instrument in instruments:
        try:
            call_hook(instrument, "exit_pass_ctx")
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def allows(instrument: Any, *args: Any) -> bool:
    """What `should_run` of an instrument says, True where it has none."""
    if not hasattr(instrument, "should_run"):
        return True
    answer = call_hook(instrument, "should_run", *args)
    if not isinstance(answer, bool):
        name = type(instrument).__name__
        raise TypeError(
            f"`should_run` of the instrument `{name}` must return True or False, found {answer!r}"
        )
    return answer
