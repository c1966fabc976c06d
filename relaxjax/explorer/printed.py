"""Programs as tables of lines: what is printed, and what is known of the binding on each line."""

import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from relaxjax.ir.expr import Call, Expr, ExternFunc, Var
from relaxjax.ir.function import Binding, Function, If, SeqExpr
from relaxjax.ir.module import BaseFunc, IRModule
from relaxjax.ir.printer import print_lines, variable_names
from relaxjax.ir.span import Span
from relaxjax.ir.walk import post_order
from relaxjax.ops.cost import cost_of

from .document import MODULE, Line, Place, Source

_INDENT = "    "  # of functions in a module
_HEAD = 2  # lines of a module before its first function


@dataclass(slots=True)
class Places:
    """The places that lines refer to, each once, and the files that they lie in."""

    found: dict[Span, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    def number(self, span: Span | None) -> int | None:
        """The number of a place; None where its text cannot be had."""
        if span is None or not linecache.getlines(span.file):
            return None
        key = Span(span.file, span.line, span.column)
        self.files.setdefault(span.file, len(self.files))
        return self.found.setdefault(key, len(self.found))

    def places(self) -> tuple[Place, ...]:
        return tuple(Place(self.files[s.file], s.line, s.column) for s in self.found)

    def sources(self) -> tuple[Source, ...]:
        return tuple(
            Source(_shown(file), tuple(line.rstrip("\n") for line in linecache.getlines(file)))
            for file in self.files
        )


@dataclass(slots=True)
class Table:
    """The distinct lines of all stages; a function that stays the same is printed once."""

    places: Places = field(default_factory=Places)
    numbers: dict[Line, int] = field(default_factory=dict)
    printed: dict[int, tuple[BaseFunc, list[int]]] = field(default_factory=dict)

    def of(self, mod: IRModule) -> dict[str, list[int]]:
        """The functions of a module as numbers of lines, its attributes first."""
        head = print_lines(IRModule({}, mod.attrs, mod.global_infos))[0]
        found = {MODULE: [self._number(Line(text)) for text in head if text.strip() != "pass"]}
        for var, function in mod.functions.items():
            found[var.name] = self._function(mod, var.name, function)
        return found

    def _function(self, mod: IRModule, name: str, function: BaseFunc) -> list[int]:
        known = self.printed.get(id(function))
        if known is None:  # the function is kept with it: no other gets its `id`
            numbers = [self._number(line) for line in self._lines(mod, name, function)]
            known = self.printed[id(function)] = function, numbers
        return known[1]

    def _number(self, line: Line) -> int:
        return self.numbers.setdefault(line, len(self.numbers))

    def _lines(self, mod: IRModule, name: str, function: BaseFunc) -> Iterator[Line]:
        lines, line_of = print_lines(IRModule({name: function}))
        texts = [text.removeprefix(_INDENT) for text in lines[_HEAD:]]
        if isinstance(function, ExternFunc):
            yield from map(Line, texts)
            return
        costs = line_costs(function, mod)
        names = variable_names(function)
        begins = {line_of[id(b)] - _HEAD: b for b in bindings_of(function) if id(b) in line_of}
        for at, text in enumerate(texts):
            binding = begins.get(at)
            if binding is None:
                yield Line(text)
                continue
            cost = costs.get(id(binding))
            yield Line(
                text,
                names.get(binding.var, binding.var.name),
                self.places.number(binding.span),
                binding.derived_from,
                None if cost is None else round(cost.flops),
                None if cost is None else round(cost.bytes),
            )


def bindings_of(function: Function) -> Iterator[Binding]:
    """All bindings of a function, those of its closures and branches too."""
    for expr in post_order(function):
        bindings = getattr(expr, "bindings", None)
        if bindings is not None:
            yield from bindings()


def ranges(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as stretches of such as follow each other: the first of each, and how many."""
    found = []
    for _, stretch in groupby(enumerate(numbers), key=lambda item: item[1] - item[0]):
        group = [number for _, number in stretch]
        found.append((group[0], len(group)))
    return tuple(found)


def _shown(file: str) -> str:
    """A file as people call it: from the folder in which they work, else by its name."""
    file = Span(file, 1).shown_file
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return Path(file).name or file


@dataclass(slots=True)
class LineCost:
    """The FLOPs and the bytes of a binding; they need not be whole while they are divided."""

    flops: float = 0
    bytes: float = 0


def line_costs(function: Function, mod: IRModule) -> dict[int, LineCost]:
    """The cost of each binding by its `id`, where it is known and no symbolic number.

    A call of a closure, such as a loop, is divided among the bindings of its body, each in the
    share that it has of one step: the sum over all bindings is the cost of the function.
    """
    costing = _Costing(mod)
    costing.sequence(function.body, 1, 1)
    return costing.found


@dataclass(slots=True)
class _Costing:
    mod: IRModule
    closures: dict[Var, Function] = field(default_factory=dict)
    found: dict[int, LineCost] = field(default_factory=dict)

    def sequence(self, seq: SeqExpr, flops: float, bytes_: float) -> None:
        """Add what a sequence costs that runs so often."""
        for binding in seq.bindings():
            self._binding(binding, flops, bytes_)

    def _binding(self, binding: Binding, flops: float, bytes_: float) -> None:
        match binding.value:
            case Function() as closure:
                self.closures[binding.var] = closure
            case If() as choice:
                self.sequence(choice.true_branch, flops, bytes_)
                self.sequence(choice.false_branch, flops, bytes_)
            case SeqExpr() as seq:
                self.sequence(seq, flops, bytes_)
            case Call() as call:
                self._call(binding, call, flops, bytes_)

    def _call(self, binding: Binding, call: Call, flops: float, bytes_: float) -> None:
        cost = cost_of(call, self.mod, self.closures)
        if cost is None or not (isinstance(cost.flops, int) and isinstance(cost.bytes, int)):
            return
        whole = LineCost(cost.flops * flops, cost.bytes * bytes_)
        bodies = list(_bodies(call, self.closures))
        inner = [_step(body, self.mod, self.closures) for body in bodies]
        of_step = LineCost(sum(one.flops for one in inner), sum(one.bytes for one in inner))
        if not of_step.flops and not of_step.bytes:
            known = self.found.setdefault(id(binding), LineCost())
            known.flops += whole.flops
            known.bytes += whole.bytes
            return
        for body in bodies:
            self.sequence(
                body.body,
                whole.flops / of_step.flops if of_step.flops else 0,
                whole.bytes / of_step.bytes if of_step.bytes else 0,
            )


def _bodies(call: Call, closures: Mapping[Var, Function]) -> list[Function]:
    """The closures that a call runs."""
    given: list[Expr] = [call.op, *call.args]
    found = [closures.get(one) if isinstance(one, Var) else one for one in given]
    return [one for one in found if isinstance(one, Function)]


def _step(body: Function, mod: IRModule, closures: Mapping[Var, Function]) -> LineCost:
    """What one run of a closure costs."""
    costing = _Costing(mod, dict(closures))
    costing.sequence(body.body, 1, 1)
    return LineCost(
        sum(cost.flops for cost in costing.found.values()),
        sum(cost.bytes for cost in costing.found.values()),
    )
