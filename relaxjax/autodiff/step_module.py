"""The module of a training step of a loss written in JAX."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relaxjax.frontends import JaxProgram
from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.passes import FoldConstant, RaiseOps
from relaxjax.passes.training.setup_trainer import StepOptions, with_step_passes
from relaxjax.trainable.names import BACKBONE_LOSS, INPUT_NUM, PARAM_NUM, STATE_NUM

from .shared_values import share_values


@dataclass(frozen=True)
class Counts:
    """How many arrays a loss takes: of the batch, the parameters, and what else changes."""

    inputs: int
    params: int
    states: int


def with_step(program: JaxProgram, counts: Counts, options: StepOptions) -> tuple[IRModule, str]:
    """The module with `train_step`, of the program of a loss called `backbone_loss`.

    Beside it stands what it is known by on disk.

    The program takes the arrays of the batch, the parameters and the states, and gives the loss,
    whatever it gives beside it, and the new states. The step gives what is beside it, too, and
    behind that what the loss prints.
    """
    mod = _with_states_last(program, counts.states)
    mod = mod.with_attrs(
        {
            INPUT_NUM: len(program.captured) + counts.inputs,
            PARAM_NUM: counts.params,
            STATE_NUM: counts.states,
        }
    )
    before = FoldConstant(), share_values(), RaiseOps()
    return with_step_passes(mod, options, before=before)


def results_of(
    program: JaxProgram, loss: Any, others: Sequence[Any], states: Sequence[Any]
) -> list[Any]:
    """The results of the program, of what its step gives; what the loss prints is printed."""
    beside = len(program.avals) - 1 - len(states)
    return program.reported([loss, *others[:beside], *states, *others[beside:]])


def _with_states_last(program: JaxProgram, states: int) -> IRModule:
    """The module whose loss gives what it prints before its new states, and not behind them."""
    mod = program.module
    function: Function = mod[BACKBONE_LOSS]
    result = function.body.body
    if not program.reports or not states or not isinstance(result, Tuple):
        return mod
    first, last = len(program.avals) - states, len(program.avals)
    fields = result.fields
    moved = Tuple((*fields[:first], *fields[last:], *fields[first:last]))
    body = SeqExpr(function.body.blocks, moved)
    changed = make_function(function.params, body, pure=function.pure, attrs=function.attrs)
    return mod.with_function(BACKBONE_LOSS, changed)
