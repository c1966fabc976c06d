"""What RaiseOps makes of a program and what it leaves, by line of the user's code."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from relaxjax.ir.module import IRModule
from relaxjax.ir.op import operator_name
from relaxjax.ir.span import Span
from relaxjax.ir.walk import nested_bindings
from relaxjax.passes.infrastructure.sequential import Sequential
from relaxjax.passes.simplification.eliminate_common_subexpr import EliminateCommonSubexpr
from relaxjax.passes.simplification.fold_constant import FoldConstant

from .raise_ops import RaiseOps

# Calls of `lax.*` that take time, or that tell of a norm, a softmax or an activation. The others
# are what these are made of: sums, factors, and what lays a tensor along another.
_TELLING = (
    *("dot_general", "conv_general_dilated", "gather", "scatter_add", "sort", "top_k"),
    *("reduce_max", "reduce_window_max", "reduce_window_sum", "rsqrt", "sqrt", "exp", "log"),
    *("erf", "erfc", "tanh", "logistic"),
)


@dataclass(frozen=True)
class RaisedLine:
    """A line of the user's: operators of `relax.*` that its calls became, and those left."""

    span: Span | None
    raised: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True)
class RaisingReport:
    """The lines of a program with calls of which RaiseOps made operators, or left telling ones."""

    lines: tuple[RaisedLine, ...]

    def __str__(self) -> str:
        head = ("line", "raised", "left")
        rows = [(_place(line.span), _text(line.raised), _text(line.left)) for line in self.lines]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        padded = (
            "  ".join(map(str.ljust, row, widths)).rstrip()
            for row in (head, ["-" * width for width in widths], *rows)
        )
        return "\n".join(padded)

    @property
    def left(self) -> tuple[RaisedLine, ...]:
        """The lines of which something telling is left."""
        return tuple(line for line in self.lines if line.left)


def raising_report(mod: IRModule) -> RaisingReport:
    """Apply RaiseOps, after what it wants done before, and tell what was raised and what was not.

    Of the calls of `lax.*` that are left, those are listed that take time, or that are part of a
    norm, a softmax or an activation. Lines are in the order of the program.
    """
    ready = Sequential([FoldConstant(), EliminateCommonSubexpr(), RaiseOps()])
    by_line: dict[tuple[str, int] | None, tuple[Span | None, list[str], list[str]]] = {}
    for span, name in _calls(ready(mod)):
        line = None if span is None else (span.file, span.line)
        _, raised, left = by_line.setdefault(line, (span, [], []))
        if name.startswith("relax."):
            raised.append(name)
        elif name.removeprefix("lax.") in _TELLING:
            left.append(name)
    lines = (
        RaisedLine(span, tuple(raised), tuple(left)) for span, raised, left in by_line.values()
    )
    return RaisingReport(tuple(line for line in lines if line.raised or line.left))


def _calls(mod: IRModule) -> Iterator[tuple[Span | None, str]]:
    """The operators that are called, with the line, branches and bodies of loops included."""
    for function in mod.relax_functions().values():
        for binding in nested_bindings(function):
            name = operator_name(getattr(binding, "value", None))
            if name is not None:
                yield binding.span, name


def _place(span: Span | None) -> str:
    return "(no line)" if span is None else f"{span.file}:{span.line}"


def _text(names: tuple[str, ...]) -> str:
    counted = Counter(name.removeprefix("relax.") for name in names)
    return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counted.items())
