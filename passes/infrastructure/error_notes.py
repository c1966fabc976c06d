"""What is added to an exception on its way out of a pass: the function, and the pass."""

from collections.abc import Iterator
from contextlib import contextmanager

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.span import Span, add_location


@contextmanager
def in_function(name: str, function: Function) -> Iterator[None]:
    """Say of any exception raised inside which function of the module was being worked on."""
    try:
        yield
    except Exception as error:
        add_location(error, function.span)
        _note_function(error, name)
        raise


@contextmanager
def in_pass(name: str, mod: IRModule) -> Iterator[None]:
    """Say of any exception raised inside which pass it comes from, and which function if known."""
    try:
        yield
    except Exception as error:
        owner = _owner(mod, getattr(error, "relax_span", None))
        if owner is not None:
            _note_function(error, owner)
        error.add_note(f"in the pass `{name}`")
        raise


def _note_function(error: Exception, name: str) -> None:
    if not getattr(error, "relax_function", False):
        error.relax_function = name  # type: ignore[attr-defined]  # marks the note as given
        error.add_note(f"in the function `{name}`")


def _owner(mod: IRModule, span: Span | None) -> str | None:
    """The function in whose source text a location lies."""
    if span is None:
        return None
    for name, function in mod.relax_functions().items():
        around = function.span
        if around is None or around.end_line is None or around.file != span.file:
            continue
        if around.line <= span.line <= around.end_line:
            return name
    return None
