"""Where the state and the batches of a training step lie on a mesh of devices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jax.sharding import Mesh, NamedSharding

from relaxjax.frontends import JaxProgram
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.passes.training.setup_trainer import Spread
from relaxjax.trainable.names import BACKBONE_LOSS
from relaxjax.trainable.sharding import Distribution, shardings_of_step

from .placing import Placing, by_name, check_placeable, placed, unique, var_of
from .step_loss import LossArguments
from .step_optimizer import StepOptimizer
from .step_trees import StateArrays


@dataclass(frozen=True)
class StepPlaces:
    """The shardings of what the program of a step takes and gives; None where XLA places it."""

    mesh: Mesh
    taken: tuple[Any, ...]
    given: tuple[Any, ...]

    @staticmethod
    def of(mod: IRModule, mesh: Mesh, like: StateArrays, captured: int) -> "StepPlaces":
        """Those that a module states, on its mesh, for a state of as many arrays as one like it."""
        spread = Distribution.of(mod)
        assert spread is not None
        (params, states, opt, *inputs), (whole, *_) = shardings_of_step(mod, spread, mesh)
        model, opt = states[: len(like.model_state)], opt[: len(like.opt_state)]
        state = StateArrays(params, model, opt, states[len(model) :], whole)
        taken = state, tuple(inputs[captured:]), tuple(inputs[:captured])
        return StepPlaces(mesh, taken, (state, (whole, None)))


def spread_by_name(
    spread: Spread | None, program: JaxProgram, given: LossArguments
) -> Spread | None:
    """What ShardTraining takes, with patterns as the names of those parameters they are for."""
    if spread is None:
        return None
    function: Function = program.module[BACKBONE_LOSS]
    ways, first = given.ways, len(program.captured) + len(given.inputs)
    names = [param.name for param in function.params[first : first + len(ways)]]
    return spread[0], by_name(spread[1], names, ways)


@dataclass(frozen=True)
class FirstPlaces:
    """Where the first state of a training lies, before there is a step."""

    loss: Callable[..., Any]
    placing: Placing
    optimizer: StepOptimizer

    def of_params(self, params: Any, model_state: Any, key: Any) -> tuple[Any, Any, Any]:
        """Parameters, model state and random key where they belong."""
        given = LossArguments.of((), params, model_state, key)
        check_placeable(given.arrays)
        of_params, of_states = self._shardings(given)
        return given.nestings.nested(
            placed(given.params, of_params), placed(given.states, of_states)
        )

    def of_optimizer(self, params: Any, state: Any) -> Any:
        """The optimizer's state, of which what is of a parameter is split as that is."""
        given = LossArguments.of((), params, None, None)
        of_params, _ = self._shardings(given)
        named = [var_of(f"p{n}", array) for n, array in enumerate(given.params)]
        bound = self.optimizer.for_params(given.nestings.moving).init(named)
        arrays = self.optimizer.flat(state, len(bound.state))
        where = [
            self.placing.whole if owner is None else of_params[owner]
            for owner in bound.state_owners[: len(arrays)]
        ]
        return self.optimizer.nested(placed(arrays, where), state)

    def _shardings(
        self, given: LossArguments
    ) -> tuple[tuple[NamedSharding, ...], tuple[NamedSharding, ...]]:
        names = unique(given.names(self.loss))[: len(given.params)]
        params, states, _ = self.placing.shardings(names, given.ways, given.params, given.states)
        return tuple(params), tuple(states)
