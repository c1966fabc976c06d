"""The moments of a compilation: the program as it was given, and after each pass."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain, groupby

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import variable_names
from relaxjax.ir.rewriting import Rewrite
from relaxjax.passes.infrastructure.base import FACTORIES
from relaxjax.passes.infrastructure.instruments import PassRecord

from .document import MODULE, Hunk, Line, Rewritten, Stage
from .printed import Table, bindings_of, ranges

_FEW = 4000  # lines that two texts may differ in to be compared line by line


@dataclass(frozen=True, slots=True)
class Moment:
    """A program, the pass that made it, and what rules of that rewrote."""

    name: str
    mod: IRModule
    milliseconds: float | None = None
    depth: int = 0
    rewrites: tuple[Rewrite, ...] = ()


def moments_of(given: IRModule, records: Sequence[PassRecord]) -> list[Moment]:
    """What passes made of a module, one after the other.

    A pass that runs others is shown by these, and by itself where it did something of its own.
    """
    return [Moment("given", given), *_opened(given, list(_nested(records)))]


@dataclass(slots=True)
class _Run:
    """A pass that ran, and the passes that ran inside it."""

    record: PassRecord
    inner: "list[_Run]"


def _nested(records: Sequence[PassRecord]) -> list[_Run]:
    """Records come in the order in which passes ended: what is inside a pass stands before it."""
    waiting: dict[int, list[_Run]] = {}
    for record in records:
        inner = waiting.pop(record.depth + 1, [])
        waiting.setdefault(record.depth, []).append(_Run(record, inner))
    return waiting.get(0, [])


def _opened(before: IRModule, runs: Sequence[_Run]) -> Iterator[Moment]:
    for run in runs:
        record = run.record
        inner = run.inner if _works_on_all(record, run.inner) else []
        done = record.before
        for moment in _opened(record.before, inner):
            yield moment
            done = moment.mod
        if not inner or record.after is not done:
            spent = record.milliseconds - sum(one.record.milliseconds for one in inner)
            yield Moment(
                record.info.name, record.after, max(spent, 0.0), record.depth, record.rewrites
            )


def _works_on_all(record: PassRecord, inner: Sequence[_Run]) -> bool:
    """Whether passes inside another change its module, and no part of it that it takes out."""
    whole = {var.name for var in record.before.functions}
    return all(whole <= {var.name for var in run.record.before.functions} for run in inner)


def stages_of(moments: Sequence[Moment], table: Table) -> tuple[Stage, ...]:
    """The moments as changes of the one before."""
    stages: list[Stage] = []
    before: dict[str, list[int]] = {}
    last: IRModule | None = None
    for moment in moments:
        after = table.of(moment.mod)
        rewritten = tuple(_rewritten(moment.rewrites, [moment.mod, last or moment.mod]))
        stages.append(_stage(moment, before, after, list(table.numbers), rewritten))
        before, last = after, moment.mod
    return tuple(stages)


def _rewritten(rewrites: Sequence[Rewrite], mods: Sequence[IRModule]) -> Iterator[Rewritten]:
    """Rewrites as they are shown: a variable is of the function in which a module has it."""
    if not rewrites:
        return
    functions = chain.from_iterable(mod.relax_functions().items() for mod in mods)
    homes: dict[Var, tuple[str, str]] = {}
    for name, function in functions:
        shown = variable_names(function)
        for binding in bindings_of(function):
            homes.setdefault(binding.var, (name, shown.get(binding.var, binding.var.name)))
    for rule, var, before, after in rewrites:
        function_name, var_name = homes.get(var, (None, var.name))
        yield Rewritten(rule, function_name, var_name, str(before), str(after))


def _stage(
    moment: Moment,
    before: Mapping[str, list[int]],
    after: Mapping[str, list[int]],
    lines: Sequence[Line],
    rewritten: tuple[Rewritten, ...],
) -> Stage:
    own = [lines[n] for name, numbers in after.items() if name != MODULE for n in numbers]
    return Stage(
        moment.name,
        _about(moment.name),
        None if moment.milliseconds is None else round(moment.milliseconds, 3),
        moment.depth,
        tuple(name for name in after if name != MODULE),
        {
            name: tuple(hunks(before.get(name, []), numbers))
            for name, numbers in after.items()
            if numbers != before.get(name)
        },
        tuple(name for name in before if name not in after),
        sum(line.var is not None for line in own),
        sum(line.flops or 0 for line in own),
        sum(line.bytes or 0 for line in own),
        rewritten,
    )


def _about(name: str) -> str:
    """The first sentence of what a pass says of itself."""
    made = FACTORIES.get(name)
    doc = getattr(made, "__doc__", None) or ""
    return " ".join(doc.strip().split("\n\n")[0].split())


def hunks(before: Sequence[int], after: Sequence[int]) -> Iterator[Hunk]:
    """How a list of numbers is made of another."""
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    if not old or not new or len(old) + len(new) > _FEW * 2:
        if old or new:
            yield Hunk(first, len(old), ranges(new))
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            yield Hunk(first + a, b - a, ranges(new[c:d]))


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many numbers are the same at the start of both."""
    pairs = groupby(zip(one, other, strict=False), key=lambda pair: pair[0] == pair[1])
    same, stretch = next(pairs, (False, iter(())))
    return sum(1 for _ in stretch) if same else 0
