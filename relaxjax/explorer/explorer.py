"""`explore`: a program, its passes and its memory, as one document and as a page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from typing import Any

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import variable_names
from relaxjax.ir.whole_file import write_whole
from relaxjax.lowering import to_jax
from relaxjax.lowering.profile import profiled
from relaxjax.lowering.scopes import bindings_by_scope, scopes_in
from relaxjax.lowering.trial import wide_enough_for
from relaxjax.passes.infrastructure.pause_gc import collector_paused
from relaxjax.passes.memory.planning.budget import Budget
from relaxjax.passes.memory.planning.remembered import plans_remembered
from relaxjax.training.devices.communication import CommunicationReport

from .document import Communication, Document, Exchange, Kernel, Profile
from .inputs import Inputs
from .page import page
from .plans import memory_of
from .printed import Places, Table
from .stages import stages_of
from .step_numbers import numbers_of
from .subjects import Found, Wish, found_in


def profile_of(mod: IRModule, name: str, inputs: Inputs) -> Profile:
    """Compile a function of a module, run it, and tell what its kernels take."""
    names, bindings = variable_names(mod[name]), bindings_by_scope(mod)
    with wide_enough_for(inputs.arrays):
        found = profiled(to_jax(mod, name), *inputs.arrays)
    own = {
        scope: names.get(binding.var, binding.var.name)
        for scope, binding in bindings.items()
        if scope.startswith(f"{name}.")
    }
    kernels = tuple(
        Kernel(one.name, round(one.milliseconds, 6), one.times, _computed(one.places, own))
        for one in found.kernels
    )
    return Profile(found.device, inputs.origin, found.runs, found.milliseconds, kernels)


def _computed(places: Sequence[str], own: Mapping[str, str]) -> tuple[str, ...]:
    """The bindings that places lie in; not those around others, such as a loop's."""
    paths = [scopes_in(place, own) for place in places]
    around = {scope for path in paths for scope in path[:-1]}
    inner = dict.fromkeys(path[-1] for path in paths if path)
    return tuple(own[scope] for scope in inner if scope not in around)


_HEIGHT = 720  # pixels of a notebook


@dataclass(frozen=True, eq=False)
class Explorer:
    """What `explore` found: a page in a notebook, or a file that opens in any browser.

        relaxjax.explore(loss, params, batch).save("report.html")

    `document` holds all that the page shows, as plain dataclasses.
    """

    document: Document

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page: one file that asks for no other, and for no network."""
        write_whole(path, self.html().encode())

    def html(self) -> str:
        """The page as text."""
        return page(self.document)

    def to_json(self) -> dict[str, Any]:
        """The document as JSON has it; `schema` says which form it is in."""
        return json.loads(json.dumps(self.document.to_json()))  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html())}" width="100%" height="{_HEIGHT}" '
            f'title="{escape(self.document.title)} in the explorer" style="border:0"></iframe>'
        )

    def __repr__(self) -> str:
        found = self.document
        shown = "no function" if found.function is None else found.function
        return f"<Explorer of {shown}: {len(found.stages)} stages, {len(found.lines)} lines>"


def explore(
    subject: Any,
    *args: Any,
    function: str | None = None,
    budget: Budget | None = None,
    policy: str | None = None,
    title: str | None = None,
    profile: bool = False,
    numbers: bool = False,
    data: Any = None,
) -> Explorer:
    """Look at a program, what its passes did, what it costs and what memory it takes.

        relaxjax.explore(module)
        relaxjax.explore(loss, params, batch).save("report.html")
        relaxjax.explore(trainer).to_json()["memory"]

    Args:
        subject: a module, a function in Relax, a trainer, an executable, a loss written in JAX, a
            `value_and_grad` or the step of a `train_step` of one, or the name of a file with a
            module in it.
        args: the arguments of a loss written in JAX; of a step, its state and a batch.
        function: the function of a module to differentiate, or an adjoint that is there already.
        budget: the bytes that the adjoint may take, as `Rematerialize` has it.
        policy: what of it is computed again, instead of a budget; all is kept unless one is given.
        title: what the page is called.
        profile: whether to run the function, and tell how long the kernels of its program take.
        numbers: whether to run one step of it binding by binding, and tell the range, the norm and
            the histogram of each value and gradient.
        data: what it is run with. Of a trainer, a batch as `fit` takes it; of all else arrays by
            the names of parameters, or for the first ones. What is not given is random; a loss in
            JAX is run with its arguments.
    """
    check_flags(profile=profile, numbers=numbers)
    with collector_paused(), plans_remembered():
        found = found_in(subject, args, Wish(function, budget, policy, data))
        document = _document(found, title or found.title)
    return Explorer(_run(document, found, profile, numbers) if profile or numbers else document)


def _run(document: Document, found: Found, profile: bool, numbers: bool) -> Document:
    """The document, and what is seen where the function is run."""
    mod, name = found.moments[-1].mod, found.function
    function = None if name is None else mod[name]
    if name is None or not isinstance(function, Function) or found.inputs is None:
        note = "there is no function that could be run"
        return replace(document, notes=(*document.notes, note))
    inputs = found.inputs(function)
    return replace(
        document,
        profile=profile_of(mod, name, inputs) if profile else None,
        numbers=numbers_of(mod, name, inputs) if numbers else None,
    )


def _document(found: Found, title: str) -> Document:
    table = Table()
    stages = stages_of(found.moments, table)
    memory = None if found.report is None else memory_of(found.report, table.places)
    told = found.communication
    communication = None if told is None else _communication_of(told, table.places)
    return Document(
        title,
        table.places.sources(),
        table.places.places(),
        tuple(table.numbers),
        stages,
        found.function,
        memory,
        found.notes,
        communication=communication,
    )


def _communication_of(report: CommunicationReport, places: Places) -> Communication:
    """The exchanges of a report, with their places in the sources."""
    exchanges = tuple(
        Exchange(
            one.kind,
            one.bytes,
            one.times,
            one.axes,
            one.part,
            one.value,
            places.number(one.span),
            one.is_overlapped,
        )
        for one in report.exchanges
    )
    return Communication(dict(report.sizes), exchanges)
