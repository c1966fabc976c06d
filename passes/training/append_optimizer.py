"""The update of the parameters of a trainable module, and the state that it starts with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relaxjax.ir.expr import Constant, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.walk import post_order
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.described import IndescribableError, description
from relaxjax.passes.infrastructure.kept_results import are_zeros, is_ours, zeros
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import (
    BACKBONE_LOSS,
    LOSS_SCALE,
    OPTIM_STATE,
    OPTIM_STATE_NAMES,
    OPTIMIZER,
)
from relaxjax.trainable.storage import Place, Storage, params_of, with_stored_states

from .asked_once import AskedOnce, Optimizer
from .by_number import StoredUpdate, UpdateByNumber, run_at, runs_of
from .loss_scale import LossScale, unscaled_type, with_loss_scale
from .master_weights import (
    masters,
    needs_masters,
    owners_of_masters,
    states_of_masters,
    with_master_weights,
)
from .shard_training import with_state_splits
from .stacked_update import update_of_stacks
from .update import Update, tensor_type

_MOST_STATES = 2**22  # bytes, of states that do not begin as zeros


@pass_factory(opt_level=0)
def AppendOptimizer(mod: IRModule, optimizer: Optimizer, master_weights: bool = True) -> IRModule:
    """Add `optimizer`, a function that updates the parameters by their gradients.

    Its first state is the attribute `optim_state`. For an optimizer of optax, `optim_state_names`
    lists what its states are, by which a Trainer refuses checkpoints of another. Parameters of half
    precision are updated by float32 masters, which are part of the state, unless `master_weights`
    is False. The gradients of a scaled loss are divided by its scale first, and a step whose
    gradients are not finite changes nothing.

    Parameters that are stored as stacks or with their axes moved are updated so, if the optimizer
    treats each number separately: `stored_optim_states` says where its states are then. Any other
    gets the parameters one by one.

    Where parameters are split among devices, as ShardTraining states, so are the states that are of
    them, number for number.
    """
    check_optimizer(optimizer)
    once = AskedOnce.of(optimizer)
    arrays = Arguments.of(mod, BACKBONE_LOSS).params
    own, storage = params_of(mod, arrays)
    scale: LossScale | None = mod.attrs.get(LOSS_SCALE)
    update = whole_update(once, own, scale, master_weights)
    names = update.names
    mod = with_state_splits(mod, own, update)
    by_number = None if storage.is_apart else _for_arrays(once, own, storage, master_weights)
    if by_number is not None and runs_of(update.state, own, update.owners) is not None:
        stored = whole_update(by_number, arrays, scale, master_weights)
        places = _storage_of_states(update, own, stored.state, arrays, storage)
        mod, update = with_stored_states(mod, places), stored
    elif not storage.is_apart:
        update = update_of_stacks(update, own, storage)
    state = tuple(map(_constant, update.state))
    mod = mod.with_function(OPTIMIZER, update.function.with_attr("global_symbol", OPTIMIZER))
    mod = mod.with_attr(OPTIM_STATE, state)
    return mod.with_attr(OPTIM_STATE_NAMES, names) if names else mod


def _constant(state: Any) -> Constant:
    array = np.asarray(state)
    return zeros(array.shape, array.dtype) if are_zeros(array) else Constant(array)


def check_optimizer(optimizer: Any) -> None:
    """Raise where a class is given for one of its objects, or what optax has for what we have."""
    asked = ("is_elementwise", "init")
    if isinstance(optimizer, type) or not all(hasattr(optimizer, name) for name in asked):
        raise TypeError(
            "SetupTrainer: `optimizer` must be an optimizer such as SGD(0.1), or "
            f"from_optax(optax.adam(0.1)), but it is {optimizer!r}; one of your own is a "
            "relaxjax.optim.Optimizer"
        )


def told_of(optimizer: Optimizer, params: Sequence[Var], master_weights: bool) -> Any:
    """All that AppendOptimizer goes by of an optimizer, as values; None where these are too many.

    An optimizer whose parts are known is told by them, any other by what it writes for these
    parameters: if it is elementwise, it writes the same for stacks of them.
    """
    try:
        return description(optimizer)
    except IndescribableError:
        return _written_by(optimizer, params, master_weights)


def _written_by(optimizer: Optimizer, params: Sequence[Var], master_weights: bool) -> Any:
    """The update that an optimizer writes, and its first state, as values."""
    update = whole_update(optimizer, params, None, master_weights)
    states = [np.asarray(state) for state in update.state]
    size = sum(state.nbytes for state in states if state.any())
    if size > _MOST_STATES or not is_ours(post_order(update.function)):
        return None
    first = [(s.shape, str(s.dtype), s.tobytes() if s.any() else b"") for s in states]
    kinds = optimizer.is_elementwise, getattr(optimizer, "is_lazy", False)
    return update.function.script(), first, update.names, update.owners, kinds


def is_by_number(optimizer: Optimizer, params: Sequence[Var], master_weights: bool) -> bool:
    """Whether an optimizer treats each number separately, states that it begins with included.

    It says so itself, or its function proves it.
    """
    has_masters = master_weights and needs_masters(params)
    wide = masters(params) if has_masters else params
    ready = AskedOnce.of(optimizer).init(wide)
    first = states_of_masters(params) if has_masters else ()
    owners = owners_of_masters(params) if has_masters else ()
    if runs_of((*first, *ready.state), params, (*owners, *ready.state_owners)) is None:
        return False
    return optimizer.is_elementwise or ready.by_number is not None


def _for_arrays(
    optimizer: AskedOnce, own: Sequence[Var], storage: Storage, master_weights: bool
) -> Optimizer | None:
    """The optimizer of the arrays in which parameters are stored, if it treats numbers alone."""
    if optimizer.is_elementwise:
        return optimizer
    wide = masters(own) if master_weights and needs_masters(own) else own
    update = optimizer.init(wide).by_number
    return None if update is None else _OfArrays(update, storage)


@dataclass(frozen=True)
class _OfArrays:
    """An optimizer of stored arrays, by an update that was proven to go number by number."""

    update: UpdateByNumber
    storage: Storage
    is_elementwise: bool = True

    def init(self, params: Sequence[Var]) -> StoredUpdate:
        return self.update.stored(params, self.storage)


def whole_update(
    optimizer: Optimizer, params: Sequence[Var], loss_scale: LossScale | None, master_weights: bool
) -> Update:
    """The optimizer's function and first state, with what half precision asks for around it."""
    has_masters = master_weights and needs_masters(params)
    ready = AskedOnce.of(optimizer).init(masters(params) if has_masters else params)
    owners = tuple(ready.state_owners) or (None,) * len(ready.state)
    update = Update(ready.get_function(), ready.state, tuple(ready.state_names), owners)
    types = [tensor_type(param) for param in params]
    if has_masters:
        unscaled = types if loss_scale is None else list(map(unscaled_type, types))
        update = with_master_weights(update, params, unscaled)
    return update if loss_scale is None else with_loss_scale(update, types, loss_scale)


def _storage_of_states(
    update: Update,
    params: Sequence[Var],
    stored: Sequence[Any],
    arrays: Sequence[Var],
    storage: Storage,
) -> Storage:
    """Where each of an optimizer's states is: a run of one for each parameter is stored like these.

    `update` has the states for the parameters, and `stored` are those for the arrays.
    """
    own, owners = update.state, update.owners
    places: list[Place] = []
    start = 0
    while len(places) < len(own):
        here = own[len(places) :]
        order = run_at(here, params, owners[len(places) :])
        if order and run_at(stored[start:], arrays):
            of_params = [storage.places[number] for number in order]
            places += [Place(start + p.array, p.row, p.order) for p in of_params]
            start += len(arrays)
        elif start < len(stored) and np.shape(here[0]) == np.shape(stored[start]) == ():
            places.append(Place(start))
            start += 1
        else:
            break
    if len(places) < len(own) or start < len(stored):
        raise ValueError(
            "SetupTrainer: the optimizer says `is_elementwise`, but its states for stacked or "
            "rearranged parameters are not stacked or rearranged like them: set "
            "`is_elementwise` to False"
        )
    return Storage(tuple(places))
