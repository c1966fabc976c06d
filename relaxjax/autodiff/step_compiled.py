"""The program of a training step as JAX runs it: by itself, or inside of what JAX traces."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import auto_axes

from relaxjax.frontends import JaxProgram
from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.lowering.traits import in_own_dtypes
from relaxjax.passes.infrastructure.kept_executables import KeptExecutable
from relaxjax.trainable.gathering import with_gathered_params
from relaxjax.trainable.names import OPTIM_STATE, TRAIN_STEP

from .sharding import check_whole, explicit_mesh, sharding_on
from .step_module import Counts
from .step_placing import StepPlaces
from .step_trees import Arrays, StateArrays, copied

_HAS_BEGUN = np.bool(True)  # an optimizer of optax began with the values of the parameters


def compiled(
    module: IRModule,
    known_as: str,
    program: JaxProgram,
    counts: Counts,
    places: StepPlaces | None = None,
) -> tuple[Any, Any]:
    """The step that takes the memory of its state, and the one for what JAX traces.

    The first is loaded from disk, if an earlier process has compiled what is `known_as` this.
    """
    mesh = None if places is None else places.mesh
    gathered = with_gathered_params(module, mesh)
    step = in_own_dtypes(to_jax(gathered, TRAIN_STEP), gathered, TRAIN_STEP)
    last = len(program.avals) - counts.states
    others = (*program.all_avals[1:last], *program.all_avals[len(program.avals) :])
    opt_count = len(module.attrs[OPTIM_STATE])

    def run(state: StateArrays, batch: Arrays, captured: Arrays) -> Any:
        has_begun = (_HAS_BEGUN,) * (opt_count - len(state.opt_state))
        own = state.params, state.states, (*state.opt_state, *has_begun)
        types = program.avals[0], *jax.tree.map(jax.typeof, own), others
        inputs = *captured, *batch
        sharded = _on_explicit_axes(step, types, map(jax.typeof, inputs))
        loss, params, states, opt, beside = sharded(*own, *inputs)
        first = len(state.model_state)
        model, key = states[:first], states[first:]
        new = StateArrays(params, model, opt[: len(state.opt_state)], key, state.step + 1)
        results = new, (loss, beside)
        config: Any = jax.config
        if config.jax_disable_jit:  # operator by operator, one array may be several results
            results = jax.tree.map(copied, results)
        return results

    inside = jax.custom_jvp(run)
    inside.defjvp(_no_derivative)
    where: dict[str, Any] = {} if places is None else {"out_shardings": places.given}
    own: Any = jax.jit(run, donate_argnums=0, **where)
    if known_as and places is None:
        own = KeptExecutable(own, lambda: module.without_attr(OPTIM_STATE), known_as)
    return own, jax.jit(inside, **where)


def compiled_for(own: Any, arguments: tuple[Any, ...]) -> Any:
    """The executable of a step for such arguments, whose results are those of `own`."""
    if isinstance(own, KeptExecutable):
        return own.executable(arguments)
    return own.lower(*arguments).compile()


def check_unmapped(arrays: Iterable[Any]) -> None:
    """Refuse arrays of which each device along a mapped axis has its own: the update is for all."""
    check_whole(arrays)
    varying = {axis for array in arrays for axis in jax.typeof(array).manual_axis_type.varying}
    if varying:
        raise ValueError(
            f"a training step cannot be taken inside jax.shard_map, where arrays vary over "
            f"{sorted(varying)}: give the step sharded arrays outside of it, or take "
            "`relaxjax.value_and_grad` inside"
        )


def _on_explicit_axes(step: Any, results: Any, inputs: Iterable[Any]) -> Any:
    """A step whose results have the shardings of the types `results`.

    Where the axes of a mesh are explicit, XLA chooses the shardings inside of the program.
    """
    mesh = explicit_mesh([*jax.tree.leaves(results), *inputs])
    if mesh is None:
        return step
    shardings = jax.tree.map(lambda aval: sharding_on(mesh, aval), results)
    return auto_axes(step, out_sharding=shardings)


def _no_derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    raise TypeError(
        "a training step has no derivative: take `relaxjax.value_and_grad` of the loss, and update "
        "the parameters by optax, to differentiate through both"
    )
