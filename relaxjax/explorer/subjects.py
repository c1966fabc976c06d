"""What can be explored, and how a program of it is made while its passes are watched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from relaxjax.autodiff import value_and_grad
from relaxjax.autodiff.train_step import TrainStep
from relaxjax.autodiff.value_and_grad import ValueAndGrad
from relaxjax.ir.derivatives import ADJOINT
from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.walk import type_symbols
from relaxjax.ir.wording import counted
from relaxjax.lowering import Executable
from relaxjax.passes import (
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    PassContext,
    Rematerialize,
    SimplifyGradient,
)
from relaxjax.passes.infrastructure.instruments import PassHistory
from relaxjax.passes.memory.planning.budget import Budget
from relaxjax.passes.memory.program.step import MemoryPlanError
from relaxjax.passes.memory.report.memory_report import MemoryReport, memory
from relaxjax.script import ArchiveError, from_source, load_archive
from relaxjax.trainable.names import ADJOINT as LOSS_ADJOINT
from relaxjax.trainable.names import BACKBONE
from relaxjax.training import Trainer
from relaxjax.training.devices.communication import CommunicationReport
from relaxjax.training.saving import checkpoint

from .inputs import Inputs, by_name, inputs_of, inputs_of_trainer
from .stages import Moment, moments_of

_PLANNER = "Rematerialize"


@dataclass(frozen=True)
class Wish:
    """How a program is to be made, as `explore` explains it."""

    function: str | None = None
    budget: Budget | None = None
    policy: str | None = None
    data: Any = None


@dataclass(frozen=True)
class Found:
    """What is shown of a subject: its moments, the function to look at, and its memory.

    `inputs` are the numbers to run that function with, made where they are asked for.
    """

    title: str
    moments: Sequence[Moment]
    function: str | None
    report: MemoryReport | None = None
    notes: tuple[str, ...] = ()
    inputs: Callable[[Function], Inputs] | None = None
    communication: CommunicationReport | None = None


def found_in(subject: Any, args: Sequence[Any], wish: Wish) -> Found:
    """What there is to see of anything that can be explored."""
    if not isinstance(subject, ValueAndGrad) and not _is_loss(subject) and args:
        raise TypeError(
            f"`explore` takes arguments of a loss written in JAX, but {_described(subject)} takes "
            "none: leave them out"
        )
    found = _sorted(subject, args, wish)
    return found if found.inputs is not None else replace(found, inputs=_named(wish))


def _named(wish: Wish) -> Callable[[Function], Inputs]:
    """What a function is run with: the data of the wish, by the names of its parameters."""
    data = () if wish.data is None else wish.data
    return lambda function: inputs_of(function, by_name(function, data))


def _sorted(subject: Any, args: Sequence[Any], wish: Wish) -> Found:
    match subject:
        case str() | PathLike():
            return _of_module(_read(Path(subject)), wish, Path(subject).name)
        case Function():
            return _of_module(IRModule.from_expr(subject), wish, subject.global_symbol or "main")
        case IRModule():
            return _of_module(subject, wish, wish.function or "module")
        case Trainer():
            return _of_trainer(subject, wish)
        case Executable():
            return _as_it_stands(subject.mod, wish, "executable")
        case ValueAndGrad():
            return _of_loss(subject, args, wish)
        case TrainStep():
            return _of_step(subject, args, wish)
    if _is_loss(subject):
        step = value_and_grad(subject, memory_budget=wish.budget, memory_policy=wish.policy)
        return _of_loss(step, args, wish)
    raise TypeError(
        "`explore` takes a module, a function in Relax, a trainer, an executable, the name of a "
        f"file, or a loss written in JAX with its arguments, found {_described(subject)}"
    )


def _of_trainer(trainer: Trainer, wish: Wish) -> Found:
    """A trainer: its adjoint is run with its parameters, and what its devices exchange is told."""
    found = _as_it_stands(trainer.mod, wish, "trainer")
    if trainer.placement.mesh is not None:
        found = _with_exchanges(trainer, found, wish)
    if found.function != LOSS_ADJOINT:
        return found
    return replace(found, inputs=lambda _: inputs_of_trainer(trainer, wish.data))


def _with_exchanges(trainer: Trainer, found: Found, wish: Wish) -> Found:
    batch = () if wish.data is None else next(trainer.pairs([wish.data]))
    try:
        return replace(found, communication=trainer.communication(*batch))
    except (RuntimeError, ValueError) as error:  # no parameters yet, or sizes that only data says
        note = f"what the devices exchange is not known: {error}"
        return replace(found, notes=(*found.notes, note))


def _is_loss(subject: Any) -> bool:
    ours = (IRModule, Function, Trainer, Executable, ValueAndGrad, str, PathLike, type)
    return callable(subject) and not isinstance(subject, ours)


def _described(subject: Any) -> str:
    return f"an object of type {type(subject).__name__}"


def _read(path: Path) -> IRModule:
    """The module in a file: a script, an archive, or what a trainer saved."""
    if path.suffix == ".safetensors":
        try:
            return load_archive(path)[0]
        except ArchiveError:
            return checkpoint.module(path)
    read = from_source(path.read_text(encoding="utf-8-sig"), file=str(path))
    return IRModule.from_expr(read) if isinstance(read, Function) else read


def watched(given: IRModule | None, run: Callable[[], IRModule]) -> list[Moment]:
    """The moments of what runs; the first is what is given, or what the first pass is given."""
    history = PassHistory()
    with PassContext(instruments=[history]):
        made = run()
    records = history.records
    outermost = next((record for record in records if record.depth == 0), None)
    start = given if given is not None else made if outermost is None else outermost.before
    return moments_of(start, records)


def _of_loss(step: ValueAndGrad, args: Sequence[Any], wish: Wish) -> Found:
    """A loss written in JAX: its options say how memory is planned."""
    moments = watched(None, lambda: step.module(*args))
    name = f"loss{ADJOINT}"
    if wish.data is not None:
        raise TypeError("a loss written in JAX is run with its own arguments: leave out `data`")
    found = _with_memory(
        step.__name__, moments, name, Wish(None, step.memory_budget, step.memory_policy)
    )
    return replace(found, inputs=lambda function: inputs_of(function, step.inputs(*args)))


def _of_step(step: TrainStep, args: Sequence[Any], wish: Wish) -> Found:
    """The program of a training step for a state and a batch, which is not run."""
    if len(args) != 2:
        raise TypeError(
            "a training step is explored with a state and a batch, as `explore(step, "
            f"init(params), batch)`, found {counted(len(args), 'argument')}"
        )
    return _as_it_stands(step.module(*args), wish, getattr(step, "__name__", "train_step"))


def _as_it_stands(mod: IRModule, wish: Wish, title: str) -> Found:
    """A module that is compiled: no pass runs."""
    name = wish.function or _shown_function(mod)
    moments = [Moment("given", mod)]
    if name is None or not name.endswith(ADJOINT):
        return Found(title, moments, name)
    return _with_memory(title, moments, name, wish)


def _of_module(mod: IRModule, wish: Wish, title: str) -> Found:
    """A module as it is lowered, after the adjoint of its loss is written unless there is one."""
    name = wish.function or _shown_function(mod)
    if name is None or not isinstance(mod[name], Function):
        return Found(title, [Moment("given", mod)], name)
    if not name.endswith(ADJOINT):
        reason = _no_loss(name, mod[name])
        if reason is not None:
            return Found(title, watched(mod, lambda: _lowered(mod)), name, None, (reason,))
        moments = watched(mod, lambda: _with_adjoint(mod, name, wish))
        return _with_memory(title, moments, f"{name}{ADJOINT}", wish)
    return _with_memory(
        title, watched(mod, lambda: _planned(_lowered(mod), name, wish)), name, wish
    )


def _with_memory(title: str, moments: Sequence[Moment], name: str, wish: Wish) -> Found:
    report, notes = _report(moments, name, wish.budget, wish.policy)
    return Found(title, moments, name, report, notes)


def _shown_function(mod: IRModule) -> str | None:
    """The function to look at: an adjoint, else what it would be of, else the first."""
    functions = mod.relax_functions()
    adjoints = [name for name in functions if name.endswith(ADJOINT)]
    wanted = [LOSS_ADJOINT, *adjoints, "main", "loss", BACKBONE, *functions]
    return next((name for name in wanted if name in functions), None)


def _no_loss(name: str, function: Function) -> str | None:
    """Why a function is not differentiated; None for a loss."""
    body = function.body.body
    first = body.fields[0] if isinstance(body, Tuple) and body.fields else body
    if known_ndim(first) == 0:
        return None
    return (
        f"{name} gives {first.ty}, and only a scalar is differentiated: there is no backward part"
    )


def _with_adjoint(mod: IRModule, name: str, wish: Wish) -> IRModule:
    mod = _lowered(SimplifyGradient()(Gradient(name)(mod)))
    return _planned(mod, f"{name}{ADJOINT}", wish)


def _planned(mod: IRModule, name: str, wish: Wish) -> IRModule:
    """The module with its memory planned, if that is wished for and can be."""
    if _open_sizes(mod[name]) or (wish.budget is None and wish.policy is None):
        return mod
    return Rematerialize(name, wish.budget, wish.policy)(mod)


def _lowered(mod: IRModule) -> IRModule:
    for one in (LegalizeOps(), EliminateCommonSubexpr(), CanonicalizeBindings()):
        mod = one(mod)
    return mod


def _open_sizes(function: Function) -> list[str]:
    symbols = (symbol.name for param in function.params for symbol in type_symbols(param.ty))
    return sorted(set(symbols))


def _report(
    moments: Sequence[Moment], name: str, budget: Budget | None, policy: str | None
) -> tuple[MemoryReport | None, tuple[str, ...]]:
    """The memory of the program before it was planned, or why that is not known."""
    mod = next(m.mod for m in reversed(moments) if m.name != _PLANNER)
    symbols = _open_sizes(mod[name])
    if symbols:
        listed = ", ".join(symbols)
        return None, (f"memory is planned for one size of arguments, and {listed} is not known",)
    try:
        return memory(mod, name, budget=budget, policy=policy), ()
    except MemoryPlanError as error:
        return None, (f"the memory of {name} is not planned: {error}",)
