"""A loss written in JAX as a module that can be trained."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from relaxjax.autodiff.step_frozen import frozen_of
from relaxjax.autodiff.step_loss import LossArguments, program_of
from relaxjax.autodiff.step_module import Counts, with_step
from relaxjax.autodiff.step_optimizer import optimizer_of
from relaxjax.autodiff.step_parts import check_divides
from relaxjax.autodiff.step_placing import spread_by_name
from relaxjax.autodiff.step_trees import (
    check_dtypes,
    check_key,
    check_numbers,
    check_there,
    copied,
    copied_params,
)
from relaxjax.frontends import JaxProgram
from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.renew import renew
from relaxjax.ir.tuples import fields_or_self
from relaxjax.lowering.target import Target, formulating_for
from relaxjax.passes import BindParams
from relaxjax.passes.infrastructure.pause_gc import collector_paused
from relaxjax.passes.training.loss_scale import check_loss_scale
from relaxjax.passes.training.setup_trainer import StepOptions
from relaxjax.passes.training.stack_layers import check_roll_option
from relaxjax.trainable.names import BACKBONE_LOSS, EVALUATE

from .batches.evaluation import Evaluation
from .batches.nested import Nested, as_jax_takes_it

_TO_THE_USER = 5  # frames from a warning to the call of Trainer.from_jax


@dataclass(frozen=True)
class JaxTraining:
    """A module with a training step, how its arrays are nested outside, and their first values."""

    module: IRModule
    known_as: str  # on disk
    nested: Nested
    params: tuple[Any, ...]
    states: tuple[Any, ...]


def training_of(
    loss: Callable[..., Any],
    given: LossArguments,
    has_aux: bool,
    forward: Callable[..., Any] | None,
    evaluation: Callable[..., Any] | None,
    parts: int,
    options: StepOptions,
    target: Target | None,
) -> JaxTraining:
    """The training of a loss for arguments like those that are given."""
    if not callable(loss):
        raise TypeError(f"the loss must be a function of arrays, found {loss!r}")
    if forward is not None and not callable(forward):
        raise TypeError(f"`forward` must be a function of parameters and inputs, found {forward!r}")
    check_roll_option(options.roll_blocks)
    check_loss_scale(options.loss_scale)
    optimizer = optimizer_of(options.optimizer).for_params(given.nestings.moving)
    with formulating_for(IRModule(), target), collector_paused():
        program, aux = program_of(loss, given, has_aux, parts)
        _warn_of_prints(program)
        own = _with_constants(program)
        spread = spread_by_name(options.spread, own, given)
        stored = replace(_stored(options, given, optimizer), spread=spread)
        module, known_as = with_step(own, given.counts, stored)
    beside = tuple(program.avals[1 : len(program.avals) - len(given.states)])
    nested = Nested(
        nestings=given.nestings,
        batch=tuple(jax.typeof(array) for array in given.inputs),
        aux=aux if has_aux else None,
        beside=beside,
        forward=forward,
        evaluation=Evaluation.of(evaluation, given),
    )
    evaluated = _with_evaluation(module, own, given.counts)
    return JaxTraining(evaluated, known_as, nested, given.params, given.states)


def arguments_of(
    example_batch: Any, params: Any, model_state: Any, key: Any, trainable: Any, parts: int
) -> LossArguments:
    """What a loss takes, of an example of a batch and first values, which are left alone."""
    trees = {"params": params, "model_state": model_state, "key": key, "batch": example_batch}
    for name, tree in trees.items():
        check_there(name, tree)
    check_numbers(params=params, model_state=model_state, key=key)
    check_dtypes(batch=example_batch)
    check_key(key)
    batch = jax.tree.map(_example, example_batch)
    check_divides(batch, key, parts)
    own, states = copied_params(params), jax.tree.map(copied, model_state)
    frozen = frozen_of(own, trainable)
    # As a key by its dtype, it moves on where a step is left out, and `seed` finds it.
    takes_key_data = key is not None and not jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    own_key = jax.random.wrap_key_data(jnp.asarray(key)) if takes_key_data else copied(key)
    given = LossArguments.of(batch, own, states, own_key, frozen)
    if takes_key_data:
        given = replace(given, nestings=replace(given.nestings, takes_key_data=True))
    if any(isinstance(array, Tracer) for array in given.arrays):
        raise TypeError(
            "a trainer keeps its parameters from call to call, so Trainer.from_jax cannot be "
            "called inside of what JAX traces, such as jax.jit: call it outside, or take "
            "relaxjax.train_step, whose state is an argument"
        )
    return given


def _stored(options: StepOptions, given: LossArguments, optimizer: Any) -> StepOptions:
    """The options for the optimizer as a step takes it.

    A loop over layers has their parameters in a stack. Those that are not trained are in none, and
    would be copied there in each step.
    """
    is_auto = options.roll_blocks == "auto"
    rolls = False if is_auto and given.nestings.frozen else options.roll_blocks
    return replace(options, optimizer=optimizer, roll_blocks=rolls)


def _example(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jnp.zeros(leaf.shape, leaf.dtype)
    is_array = isinstance(leaf, int | float | complex) or hasattr(leaf, "__array__")
    return as_jax_takes_it(leaf) if is_array else leaf


def _warn_of_prints(program: JaxProgram) -> None:
    if program.reports:
        warnings.warn(
            "the loss prints, by jax.debug.print or the like, which the steps of a trainer leave "
            "out: give the values beside the loss by has_aux, or take relaxjax.train_step, which "
            "prints them",
            stacklevel=_TO_THE_USER,
        )


def _with_constants(program: JaxProgram) -> JaxProgram:
    """The program with what the loss captured as constants, as a file holds it."""
    if any(isinstance(array, Tracer) for array in program.captured):
        raise TypeError(
            "the loss uses an array from around it that JAX is tracing, which no later step can "
            "have: give it as part of the batch, the parameters or the model state"
        )
    function: Function = program.module[BACKBONE_LOSS]
    constants = dict(zip(function.params, program.captured, strict=False))
    bound = BindParams(BACKBONE_LOSS, constants)(program.module)
    return replace(program, module=bound, captured=())


def _with_evaluation(mod: IRModule, program: JaxProgram, counts: Counts) -> IRModule:
    """The module with `evaluate`, the loss and what is beside it, without the new states."""
    function: Function = mod[BACKBONE_LOSS]
    result, count = function.body.body, len(program.avals) - counts.states
    fields = fields_or_self(result)
    body = SeqExpr(function.body.blocks, Tuple(fields[:count]))
    attrs = {**function.attrs, "global_symbol": EVALUATE}
    evaluate, _ = renew(make_function(function.params, body, pure=function.pure, attrs=attrs))
    return mod.with_function(EVALUATE, evaluate)
