"""From a backbone, a loss and an optimizer to a module that can be trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from relaxjax.ir.builder import make_function
from relaxjax.ir.check import well_formed
from relaxjax.ir.expr import Constant, Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.layout import Order
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import Type
from relaxjax.ir.walk import used_vars
from relaxjax.lowering.target import Target, formulating_for
from relaxjax.passes.differentiation.activity import active_vars, in_full
from relaxjax.passes.differentiation.dead_ends import dead_ends
from relaxjax.passes.differentiation.gradient import Gradient
from relaxjax.passes.differentiation.inlining import inline_closures
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.memory.budget import Budget

from .append_loss import AppendLoss
from .decompose_ops import DecomposeOpsForInference, for_training
from .evaluation import EVALUATE, with_evaluation
from .fuse_train_step import ADJOINT, TRAIN_STEP, FuseTrainStep
from .image_layout import with_channels_last
from .loss_rules import with_rules_of_loss
from .loss_scale import LOSS_SCALE, LossScale, check_loss_scale, unscaled_type, with_loss_scale
from .master_weights import masters, needs_masters, with_master_weights
from .random_keys import with_unused_key
from .rolled_training import RollOption, check_roll_option, update_of_stacks, with_rolled_blocks
from .simple_adjoint import legalised, with_simple_adjoint
from .step_memory import with_fast_step, with_step_memory
from .stored_arrays import STORED_OPTIM_STATES, STORED_PARAMS, Stored, are_by_param
from .stored_kernels import with_stored_kernels
from .trainer_facts import facts_of
from .training_copies import with_training_copies
from .update import Update, tensor_type
from .written_outputs import outputs_written

BACKBONE = "backbone"
BACKBONE_LOSS = "backbone_loss"
OPTIMIZER = "optimizer"
OPTIM_STATE_NAMES = "optim_state_names"  # the attribute by which a checkpoint knows its optimizer
_ADDED = (BACKBONE_LOSS, ADJOINT, OPTIMIZER, TRAIN_STEP, EVALUATE)


class Loss(Protocol):
    """What SetupTrainer asks of a loss: a Relax function for arguments of given types."""

    @property
    def num_backbone_outputs(self) -> int: ...

    def __call__(self, *args: Type | Var) -> Function: ...


class Optimizer(Protocol):
    """What SetupTrainer asks of an optimizer: its update as a function, and its first state."""

    @property
    def state(self) -> Any: ...

    def init(self, params: Sequence[Var]) -> "Optimizer": ...

    def get_function(self) -> Function: ...


@pass_factory(opt_level=0)
def SetupTrainer(
    mod: IRModule,
    loss: Loss,
    optimizer: Optimizer,
    loss_args: Sequence[Type | Var],
    legalize: bool = True,
    loss_scale: LossScale | None = None,
    master_weights: bool = True,
    memory_budget: Budget | None = None,
    memory_policy: str | None = None,
    roll_blocks: RollOption = "auto",
    channels_last: bool = True,
    target: Target | None = None,
) -> IRModule:
    """Turn a module with a `backbone` into one that can be trained.

    The module states its numbers of parameters and model states as the attributes `param_num` and
    `state_num`; the backbone takes inputs, parameters and states, in this order, and returns its
    outputs and then its new states. Added are `backbone_loss`, `backbone_loss_adjoint`,
    `optimizer`, `train_step` for all of these at once, and `evaluate` for the loss and the outputs
    of the backbone as it predicts; and the attributes `input_num` and `optim_state`. If the
    backbone has operators that draw random numbers in training, such as dropout, a random key
    becomes its last state. With `legalize`, the adjoint is first made smaller by SimplifyGradient,
    and all is spelt out by LegalizeOps.

    With `loss_scale`, a number or "dynamic", the adjoint takes the scale of the loss as a further
    parameter, and the optimizer takes it out of the gradients again; a step whose gradients are not
    finite changes nothing. Parameters of half precision are updated by float32 masters, which are
    part of the optimizer's state, unless `master_weights` is False.

    With `memory_budget` or `memory_policy`, the adjoint computes values of the forward program
    again rather than keep them, as Rematerialize explains. The budget is for what a training step
    needs beside its arguments and results: a number of bytes, "8GiB", or a share of what keeping
    everything takes. The module is legalised then. With neither, what is legalised for a CPU is
    planned by "free" where a step is predicted to need 256 MiB or more, and at most half of that by
    the plan: there it is faster, too, because to get memory takes a step longer than to compute
    such values. `memory_policy="none"` keeps everything. In any case, large gradients of tables
    come one after the other, if the optimizer takes each by itself, so that each is gone before the
    next is there.

    With `roll_blocks`, layers of equal structure become one loop, as RollBlocks explains, and their
    parameters are stored as stacks, which the functions take. "auto" does so where the loop was
    measured to be as fast: for four layers or more, of 72 operations or more together, and an
    optimizer that treats each number by itself, so that it can update stacks.

    What is legalised for a CPU computes convolutions with their channels last where that pays, as
    ChannelsLast explains; inputs and results are as they were, and so are parameters, but for the
    kernels, which the functions take as (H, W, I, O) if the optimizer treats each number by itself.
    `channels_last=False` leaves layouts to the program.

    All that is for one platform is for that of `target`, JAX's default device unless it is given.
    Where something is, the attribute `platform` says for which: `build` takes the module there.

    Where parameters are stored in such a way, the attribute `stored_params` lists the name, the
    array, the row, or -1, and the order of the axes of each, and `stored_optim_states` all but the
    name of each state of the optimizer. A Trainer has all of them as the backbone does. Where
    targets are class ids, `class_ids` lists the name, the number of classes and the id to ignore of
    each, and whether the loss is a mean over the others, of which there must be one; where inputs
    pick rows by `R.take`, `row_ids` lists their names and the numbers of rows: a Trainer refuses
    what they must not be. `compares_classes` says that the targets are of classes, by which a
    Trainer measures accuracy unless it is told. `loss_weights` is the name of the target that
    weighs the mean of the loss, as the argument `weights` of a loss does, and `loss_takes` says of
    what a loss is, such as probabilities: a Trainer looks whether the model gives these. For an
    optimizer of optax, `optim_state_names` lists what its states are, by which a Trainer refuses
    checkpoints of another.
    """
    with formulating_for(mod, target):
        return _trainable(
            *(mod, loss, optimizer, loss_args, legalize, loss_scale, master_weights),
            *(memory_budget, memory_policy, roll_blocks, channels_last),
        )


def _trainable(
    mod: IRModule,
    loss: Loss,
    optimizer: Optimizer,
    loss_args: Sequence[Type | Var],
    legalize: bool,
    loss_scale: LossScale | None,
    master_weights: bool,
    memory_budget: Budget | None,
    memory_policy: str | None,
    roll_blocks: RollOption,
    channels_last: bool,
) -> IRModule:
    _check_kinds(loss, optimizer)
    check_loss_scale(loss_scale)
    check_roll_option(roll_blocks)
    mod, counts = _counted(mod, loss_args)
    mod, function = with_rules_of_loss(mod, loss, loss_args, _ADDED)
    outputs = loss.num_backbone_outputs
    mod = _with_loss(mod, function, outputs, counts)
    facts = facts_of(mod[BACKBONE_LOSS], loss, len(loss_args))
    has_budget = memory_budget is not None or memory_policy is not None
    params = mod[BACKBONE_LOSS].params[counts.inputs : counts.inputs + counts.params]
    _check_trains(mod[BACKBONE_LOSS], params)
    update = _update(optimizer, params, loss_scale, master_weights)
    facts[OPTIM_STATE_NAMES] = update.names
    is_elementwise = getattr(optimizer, "is_elementwise", False)
    is_by_number = is_elementwise and are_by_param(update.state, params)
    option = False if roll_blocks == "auto" and not is_elementwise else roll_blocks
    last = channels_last and (legalize or has_budget)
    mod, stored = _with_storage(mod, counts, option, last, is_by_number)
    arrays = stored.arrays
    mod = Gradient(BACKBONE_LOSS, arrays, 0, cotangent=loss_scale is not None, lazy=True)(mod)
    if not stored.is_apart:
        mod = mod.with_attrs({"param_num": len(arrays), STORED_PARAMS: stored.of_params()})
        own = update
        if is_by_number:
            update = _update(optimizer, arrays, loss_scale, master_weights)
            mod = mod.with_attr(STORED_OPTIM_STATES, stored.of_states(own.state, update.state))
        else:
            update = update_of_stacks(own, params, stored.stacking)
    state = tuple(Constant(np.asarray(array)) for array in update.state)
    mod = mod.with_function(OPTIMIZER, update.function.with_attr("global_symbol", OPTIMIZER))
    mod = mod.with_attrs({"input_num": counts.inputs, "optim_state": state})
    mod = mod.with_attrs({name: found for name, found in facts.items() if found})
    mod = FuseTrainStep()(mod.with_attr(LOSS_SCALE, loss_scale) if loss_scale is not None else mod)
    mod = with_evaluation(mod, BACKBONE, function, outputs)
    if has_budget:
        return with_step_memory(with_simple_adjoint(mod), memory_budget, memory_policy)
    return with_fast_step(legalised(with_simple_adjoint(mod))) if legalize else mod


def _check_kinds(loss: Any, optimizer: Any) -> None:
    """Raise where a class is given for one of its objects, or what optax has for what we have."""
    if isinstance(loss, type) or not hasattr(loss, "num_backbone_outputs"):
        raise TypeError(
            "SetupTrainer: `loss` must be a loss such as MSELoss(), or from_jax(function), but it "
            f"is {loss!r}"
        )
    if isinstance(optimizer, type) or not hasattr(optimizer, "get_function"):
        raise TypeError(
            "SetupTrainer: `optimizer` must be an optimizer such as SGD(0.1), or "
            f"from_optax(optax.adam(0.1)), but it is {optimizer!r}"
        )


def _check_trains(function: Function, params: Sequence[Var]) -> None:
    """Raise where all gradients would be zero, as those of the number of right answers are."""
    body = inline_closures(function).body
    targets = set(used_vars(body.body))
    bindings = tuple(body.bindings())
    if params and not active_vars(bindings, targets, in_full(params), {}) & targets:
        ends = list(dead_ends(bindings, targets, params))
        raise ValueError(
            "SetupTrainer: the loss has no derivative by any of the parameters, so that nothing "
            + "\n".join(
                ["would be trained, since no gradient comes back through", *ends]
                if ends
                else ["would be trained: it is not computed from them"]
            )
        )


def _with_storage(
    mod: IRModule, counts: "_Counts", option: RollOption, channels_last: bool, may_move: bool
) -> tuple[IRModule, Stored]:
    """The module with its parameters as a step has them, and how that is."""
    first, names, moves = counts.inputs, (BACKBONE_LOSS, BACKBONE), dict[int, Order]()
    params = mod[BACKBONE_LOSS].params[first : first + counts.params]
    if channels_last:
        mod = with_channels_last(mod, *names, "HWIO" if may_move else "default")
        if may_move:
            mod, moves = with_stored_kernels(mod, names, first, counts.params)
    mod, stacking = with_rolled_blocks(mod, names, first, counts.params, option)
    arrays = mod[BACKBONE_LOSS].params[first : first + len(stacking.arrays)]
    return mod, Stored(params, moves, stacking, arrays)


def _update(
    optimizer: Optimizer,
    params: Sequence[Var],
    loss_scale: LossScale | None,
    master_weights: bool,
) -> Update:
    """The optimizer's function and first state, with what half precision asks for around it."""
    has_masters = master_weights and needs_masters(params)
    ready = optimizer.init(masters(params) if has_masters else params)
    names = tuple(getattr(ready, "state_names", ()))
    update = Update(ready.get_function(), tuple(ready.state), names)
    types = [tensor_type(param) for param in params]
    if has_masters:
        unscaled = types if loss_scale is None else list(map(unscaled_type, types))
        update = with_master_weights(update, params, unscaled)
    return update if loss_scale is None else with_loss_scale(update, types, loss_scale)


def _with_loss(mod: IRModule, loss: Function, outputs: int, counts: "_Counts") -> IRModule:
    """The module with the loss of its backbone in training, and the backbone as it predicts."""
    mod = AppendLoss(BACKBONE, loss, outputs, BACKBONE_LOSS)(mod)
    mod = DecomposeOpsForInference(BACKBONE)(mod)
    return _with_random_key(for_training(*with_training_copies(mod, BACKBONE_LOSS)), mod, counts)


def _with_random_key(mutated: IRModule, mod: IRModule, counts: "_Counts") -> IRModule:
    """The mutated module with the random key of its loss, if there is one, as the last state."""
    loss = mutated[BACKBONE_LOSS]
    if len(loss.params) == len(mod[BACKBONE_LOSS].params):
        return mutated
    place = counts.inputs + counts.params + counts.states
    *params, key = loss.params
    params.insert(place, key)
    loss = make_function(params, loss.body, pure=loss.pure, attrs=loss.attrs)
    backbone = with_unused_key(mutated[BACKBONE])
    mutated = mutated.with_functions({BACKBONE: backbone, BACKBONE_LOSS: loss})
    return mutated.with_attr("state_num", counts.states + 1)


@dataclass(frozen=True)
class _Counts:
    inputs: int
    params: int
    states: int


def _counted(mod: IRModule, loss_args: Sequence[Type | Var]) -> tuple[IRModule, _Counts]:
    """The module with the outputs of its backbone written out, and what can be counted then."""
    mod = outputs_written(mod, BACKBONE, next(iter(loss_args), None))
    return mod, _counts(mod)


def _counts(mod: IRModule) -> _Counts:
    """How many inputs and parameters the backbone has; a module must say so."""
    well_formed(mod)
    if BACKBONE not in mod:
        there = ", ".join(f"`{name}`" for name in mod.relax_functions())
        raise ValueError(
            f"SetupTrainer: the module has no function `{BACKBONE}`, but {there or 'none'}. Name "
            'the model so: IRModule({"backbone": model.with_attr("global_symbol", "backbone")})'
        )
    params, states = _count(mod, "param_num"), _count(mod, "state_num")
    backbone = mod[BACKBONE]
    given = len(backbone.params)
    if given < params + states:
        raise ValueError(
            f"SetupTrainer: `{BACKBONE}` has {given} parameters, fewer than `param_num` + "
            f"`state_num` = {params} + {states}"
        )
    if states:
        result = backbone.body.body
        outputs = len(result.fields) if isinstance(result, Tuple) else 1
        if outputs <= states:
            raise ValueError(
                f"SetupTrainer: with `state_num` = {states}, `{BACKBONE}` must return a tuple of "
                f"its outputs and then its {states} new states, but it returns {outputs} value(s)"
            )
        assert isinstance(result, Tuple)
        for state, new in zip(backbone.params[-states:], result.fields[-states:], strict=True):
            if fits(new.ty, state.ty) is Fit.NEVER:
                raise ValueError(
                    f"SetupTrainer: the state `{state.name}` is of type {state.ty}, but "
                    f"`{BACKBONE}` returns `{new}` in its place, which is of type {new.ty}"
                )
    return _Counts(given - params - states, params, states)


def _count(mod: IRModule, name: str) -> int:
    count = mod.attrs.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(
            f"SetupTrainer: the module must state `{name}` as an attribute: write "
            f'I.module_attrs({{"{name}": …}}); found {count!r}'
        )
    return count
