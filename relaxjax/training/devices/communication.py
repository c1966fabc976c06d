"""What the devices of a training tell each other in a step: the exchanges that XLA put in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jax.sharding import Mesh

from relaxjax.ir.expr import Call, GlobalVar, Tuple
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import variable_names
from relaxjax.ir.span import Span, short_place
from relaxjax.ir.tables import aligned, html_lines, html_table, shown_bytes
from relaxjax.ir.walk import used_vars
from relaxjax.lowering.collectives import Collective, axes_of_groups, collectives_of
from relaxjax.lowering.scopes import bindings_by_scope, scopes_in
from relaxjax.trainable.names import ADJOINT, OPTIMIZER, TRAIN_STEP

FORWARD, BACKWARD, UPDATE, NOT_KNOWN = "forward", "backward", "update", "not known"
_TITLES = ("exchange", "bytes a step", "times", "axes", "part", "value", "line", "overlapped")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One kind of exchange for one value of the program.

    `bytes` are those that each device gives or takes in a step, whichever are more. `times` is how
    often a step makes it, None in a loop of unknown length, where `bytes` are of one time. `axes`
    of the mesh, `value`, `span`, the line of the user, and `is_overlapped` are None where XLA does
    not tell.
    """

    kind: str
    bytes: int
    times: int | None
    axes: tuple[str, ...] | None
    part: str  # "forward", "backward", "update" or "not known"
    value: str | None
    span: Span | None
    is_overlapped: bool | None  # whether there is work between its start and its end


@dataclass(frozen=True, eq=False)
class CommunicationReport:
    """The exchanges of a training step between devices, the largest first.

    `print(report)` shows them as a table, and so does a notebook.
    """

    sizes: Mapping[str, int]  # of the axes of the mesh, none on one device
    exchanges: tuple[Exchange, ...]

    @property
    def bytes(self) -> int:
        """What each device gives or takes in a step, all together."""
        return sum(one.bytes for one in self.exchanges)

    @property
    def by_kind(self) -> dict[str, int]:
        """The bytes of each kind of exchange."""
        found: Counter[str] = Counter()
        for one in self.exchanges:
            found[one.kind] += one.bytes
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "mesh": dict(self.sizes),
            "bytes": self.bytes,
            "by_kind": self.by_kind,
            "exchanges": [
                {
                    "kind": one.kind,
                    "bytes": one.bytes,
                    "times": one.times,
                    "axes": None if one.axes is None else list(one.axes),
                    "part": one.part,
                    "value": one.value,
                    "file": None if one.span is None else one.span.file,
                    "line": None if one.span is None else one.span.line,
                    "overlapped": one.is_overlapped,
                }
                for one in self.exchanges
            ],
        }

    def __str__(self) -> str:
        if not self.exchanges:
            return self._head
        return "\n".join([self._head, "", *aligned([_TITLES, *map(_row, self.exchanges)])])

    def __repr__(self) -> str:
        return f"<CommunicationReport: {self._head}>"

    def _repr_html_(self) -> str:
        table = html_table([_TITLES, *map(_row, self.exchanges)]) if self.exchanges else ""
        return f"<div>{html_lines([self._head])}{table}</div>"

    @property
    def _head(self) -> str:
        if not self.sizes:
            return "the training is on one device, which tells nobody anything"
        mesh = " x ".join(f"{name} {size}" for name, size in self.sizes.items())
        kinds = ", ".join(f"{shown_bytes(count)} by {kind}" for kind, count in self.by_kind.items())
        return (
            f"{shown_bytes(self.bytes)} a step and device on a mesh of {mesh}"
            f"{': ' if kinds else ''}{kinds}"
        )


def report_of(mod: IRModule, mesh: Mesh | None, compiled: str) -> CommunicationReport:
    """The report of a compiled training step of a module, by its text."""
    if mesh is None:
        return CommunicationReport({}, ())
    places = _Places(mod)
    joined: dict[Any, Exchange] = {}
    for found in collectives_of(compiled):
        one = _exchange(found, mesh, places)
        key = one.kind, one.axes, one.part, one.value, one.is_overlapped, one.times is None
        before = joined.get(key)
        joined[key] = one if before is None else _together(before, one)
    ordered = sorted(joined.values(), key=lambda one: -one.bytes)
    return CommunicationReport(dict(mesh.shape), tuple(ordered))


def _exchange(found: Collective, mesh: Mesh, places: "_Places") -> Exchange:
    value, binding, part = places.of(found.place)
    return Exchange(
        kind=found.kind,
        bytes=found.bytes * (found.times or 1),
        times=found.times,
        axes=axes_of_groups(mesh.shape, found.groups),
        part=part,
        value=value,
        span=None if binding is None else binding.span or binding.value.span,
        is_overlapped=found.is_overlapped,
    )


def _together(one: Exchange, other: Exchange) -> Exchange:
    times = None if one.times is None or other.times is None else one.times + other.times
    return replace(one, bytes=one.bytes + other.bytes, times=times)


class _Places:
    """The bindings of a module by the names under which they are compiled, and their parts."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._bindings = bindings_by_scope(mod)

    def of(self, path: str) -> tuple[str | None, Binding | None, str]:
        """The innermost binding of a place in a compiled program, and the part it belongs to."""
        scopes = scopes_in(path, self._bindings)
        if all(scope.startswith(f"{TRAIN_STEP}.") for scope in scopes):  # XLA sent several together
            return None, None, self._part(scopes)
        own = [scope for scope in scopes if self._bindings[scope].span is not None]
        value = (own or scopes)[-1]
        return value.rpartition(".")[2], self._bindings[value], self._part(scopes)

    def _part(self, scopes: Sequence[str]) -> str:
        for scope in scopes:
            function = scope.partition(".")[0]
            if function == ADJOINT and scope in self._forward | self._backward:
                return FORWARD if scope in self._forward else BACKWARD
        return UPDATE if any(map(self._is_of_update, scopes)) else NOT_KNOWN

    def _is_of_update(self, scope: str) -> bool:
        value = self._bindings[scope].value
        called = value.op if isinstance(value, Call) else None
        is_call = isinstance(called, GlobalVar) and called.name == OPTIMIZER
        return is_call or scope.startswith(f"{OPTIMIZER}.")

    @cached_property
    def _parts(self) -> tuple[set[str], set[str]]:
        """The adjoint's own bindings: up to the last of what the loss returns, and those after."""
        adjoint: Function = self._mod[ADJOINT]
        names, bindings = variable_names(adjoint), list(adjoint.body.bindings())
        result = adjoint.body.body
        fields = result.fields[:-1] if isinstance(result, Tuple) else (result,)
        results = {var for one in fields for var in used_vars(one)}
        last = max((at for at, one in enumerate(bindings) if one.var in results), default=-1)
        scopes = [f"{ADJOINT}.{names.get(one.var, one.var.name)}" for one in bindings]
        return set(scopes[: last + 1]), set(scopes[last + 1 :])

    @property
    def _forward(self) -> set[str]:
        return self._parts[0]

    @property
    def _backward(self) -> set[str]:
        return self._parts[1]


def _row(one: Exchange) -> tuple[str, ...]:
    overlapped = {None: NOT_KNOWN, True: "yes", False: "no"}[one.is_overlapped]
    return (
        one.kind,
        shown_bytes(one.bytes) + (" or more" if one.times is None else ""),
        NOT_KNOWN if one.times is None else str(one.times),
        NOT_KNOWN if one.axes is None else ", ".join(one.axes),
        one.part,
        one.value or NOT_KNOWN,
        short_place(one.span),
        overlapped,
    )
