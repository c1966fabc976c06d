"""From a backbone, a loss and an optimizer to a module that can be trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from relaxjax.frontends import OwnRules
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TupleType, Type
from relaxjax.lowering.target import Target, formulating_for
from relaxjax.ops.lax import Found, whole_function
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.kept_results import kept_or_made
from relaxjax.passes.infrastructure.kinds import Pass
from relaxjax.passes.memory.loops.update_in_loops import UpdateInLoops
from relaxjax.passes.memory.planning.budget import Budget
from relaxjax.passes.operators.fuse_product_loss import FuseProductLoss
from relaxjax.passes.operators.legalize_ops import LegalizeOps
from relaxjax.passes.operators.multiply_rows_once import MultiplyRowsOnce
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings
from relaxjax.passes.simplification.eliminate_common_subexpr import EliminateCommonSubexpr
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import (
    ADJOINT,
    BACKBONE,
    BACKBONE_LOSS,
    EVALUATE,
    OPTIM_STATE,
    OPTIMIZER,
    TRAIN_STEP,
)
from relaxjax.trainable.sharding import MeshLike, axes_of
from relaxjax.trainable.sharding_rules import DATA, ShardingLike, check_sharding

from .append_adjoint import AppendAdjoint
from .append_evaluation import AppendEvaluation
from .append_loss import AppendLoss
from .append_optimizer import AppendOptimizer, check_optimizer, is_by_number, told_of
from .asked_once import AskedOnce, Optimizer
from .check_trains import CheckTrains
from .decompose_ops import DecomposeOpsForInference
from .describe_loss import described
from .fast_forms import fast_forms
from .fuse_train_step import FuseTrainStep
from .loss_channels_last import LossChannelsLast
from .loss_scale import LossScale, check_loss_scale
from .made_of import with_digests
from .plan_step_memory import PlanStepMemory
from .prepare_backbone import PrepareBackbone
from .shard_training import ShardTraining, is_placed
from .simplify_adjoint import SimplifyAdjoint
from .stack_layers import RollOption, StackLayers, check_roll_option
from .store_kernels import StoreKernels
from .update_rows import UpdateRows
from .use_training_forms import UseTrainingForms

Spread: TypeAlias = tuple[MeshLike, ShardingLike]

_ADDED = (BACKBONE_LOSS, ADJOINT, OPTIMIZER, TRAIN_STEP, EVALUATE)


class Loss(Protocol):
    """What SetupTrainer asks of a loss: a Relax function for arguments of given types."""

    @property
    def num_backbone_outputs(self) -> int: ...

    def __call__(self, *args: Type | Var) -> Function: ...


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
    mesh: MeshLike | None = None,
    sharding: ShardingLike | None = None,
    devices: int | None = None,
) -> IRModule:
    """Turn a module with a `backbone` into one that can be trained.

    The backbone takes inputs, parameters and model states, as many as `param_num` and `state_num`
    say. The pass adds `backbone_loss`, `backbone_loss_adjoint`, `optimizer`, `train_step` for all
    of these at once, and `evaluate`.

    It runs other passes, whose pages say more: PrepareBackbone, AppendLoss,
    DecomposeOpsForInference, UseTrainingForms, DescribeLoss, CheckTrains, AppendAdjoint,
    AppendOptimizer, UpdateRows, FuseTrainStep and AppendEvaluation. `channels_last` adds
    LossChannelsLast and StoreKernels, `roll_blocks` StackLayers, `mesh` ShardTraining. `loss_scale`
    is for AppendAdjoint, `master_weights` for AppendOptimizer. `legalize` adds MultiplyRowsOnce,
    FuseProductLoss, SimplifyAdjoint, LegalizeOps, SumInLoops, SumsAsProducts, NarrowProducts,
    ReduceBySlices, StoreLevels, StoreDraws, StoreResults, DelayWindows, JoinByChoice,
    PlanStepMemory, for which `memory_budget` and `memory_policy` are, and UpdateInLoops.

    The attribute `made_of` holds digests of the model, the loss and the optimizer as they are
    given, by which a training that is resumed knows whether it is the one that was begun.

    The module is made for the platform of `target`, by default JAX's default device. Its attribute
    `platform` says which that is, and `build` takes the module there.

    With a `mesh`, or so many `devices`, the training is on all of them, by ShardTraining: `mesh` is
    a jax.sharding.Mesh or such as {"data": 4, "model": 2}, and `sharding` "data", which is the
    default, "fsdp", or a mapping from patterns for names of parameters to specs. A model whose
    types say where its parameters lie is on their mesh.
    """
    check_loss(loss)
    check_optimizer(optimizer)
    check_loss_scale(loss_scale)
    check_roll_option(roll_blocks)
    outputs = loss.num_backbone_outputs
    options = StepOptions(
        optimizer=optimizer,
        legalize=legalize or memory_budget is not None or memory_policy is not None,
        loss_scale=loss_scale,
        master_weights=master_weights,
        memory_budget=memory_budget,
        memory_policy=memory_policy,
        roll_blocks=roll_blocks,
        channels_last=channels_last,
        spread=spread_over(mesh, sharding, devices),
    )
    with formulating_for(mod, target):
        mod = PrepareBackbone(keep_tuple=_takes_tuple(loss_args))(mod)
        mod, function = with_rules_of_loss(mod, loss, loss_args, _ADDED)
        for one in (
            AppendLoss(BACKBONE, function, outputs, BACKBONE_LOSS),
            DecomposeOpsForInference(BACKBONE),
            UseTrainingForms(),
            described(loss, function, loss_args),
            CheckTrains(),
        ):
            mod = one(mod)
        evaluation = AppendEvaluation(function, outputs)
        evaluated = function.script(), outputs
        return with_step_passes(mod, options, [evaluation], evaluated)[0]


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """How a training step is made of a loss, as SetupTrainer's options say.

    `spread` and `captured` are what ShardTraining takes. With `keeps_params`, the step takes
    parameters as the loss does, neither stacked nor with their axes moved. With `gives_outputs` it
    gives what the loss function returns beside the loss.
    """

    optimizer: Optimizer
    legalize: bool = True
    loss_scale: LossScale | None = None
    master_weights: bool = True
    memory_budget: Budget | None = None
    memory_policy: str | None = None
    roll_blocks: RollOption = "auto"
    channels_last: bool = True
    spread: Spread | None = None
    captured: int = 0
    keeps_params: bool = False
    gives_outputs: bool = False


def with_step_passes(
    mod: IRModule,
    options: StepOptions,
    evaluation: Sequence[Pass] = (),
    evaluated: Any = None,
    before: Sequence[Pass] = (),
) -> tuple[IRModule, str]:
    """The module after the passes `before` and `step_passes`, and what it is known by on disk.

    `evaluated` tells what `evaluation` goes by.
    """

    def made() -> IRModule:
        result = mod
        for one in before:
            result = one(result)
        once = replace(options, optimizer=AskedOnce.of(options.optimizer))
        if not options.keeps_params:  # such a step has no Trainer, and no checkpoints
            result = with_digests(
                result, once.optimizer, options.loss_scale, options.master_weights
            )
        for one in step_passes(result, once, evaluation):
            result = one(result)
        return result

    def goes_by() -> Any:
        params = Arguments.of(mod, BACKBONE_LOSS).params
        optimizer = told_of(options.optimizer, params, options.master_weights)
        others = {
            f.name: getattr(options, f.name) for f in fields(options) if f.name != "optimizer"
        }
        is_one_device = options.spread is None and not is_placed(mod)
        return (optimizer, others, evaluated) if is_one_device and optimizer is not None else None

    return kept_or_made(mod, goes_by, made, zeros=OPTIM_STATE)


def step_passes(
    mod: IRModule, options: StepOptions, evaluation: Sequence[Pass] = ()
) -> Sequence[Pass]:
    """The passes from a module with `backbone_loss` in its training form to one with a step.

    Wherever the loss comes from, the module states its numbers of inputs, parameters and model
    states. Parameters are stored in another way only for an optimizer that treats each number by
    itself.
    """
    optimizer = AskedOnce.of(options.optimizer)
    options = replace(options, optimizer=optimizer)
    params = Arguments.of(mod, BACKBONE_LOSS).params
    images: list[Pass] = []
    by_number = not options.keeps_params and is_by_number(optimizer, params, options.master_weights)
    if options.channels_last and options.legalize:
        images = [LossChannelsLast()]
        if by_number:
            images = [LossChannelsLast("HWIO"), StoreKernels()]
    layers: list[Pass] = []
    is_alone = optimizer.is_elementwise or by_number
    rolls = options.roll_blocks is True or (options.roll_blocks and is_alone)
    if rolls and not options.keeps_params:
        layers = [StackLayers(options.roll_blocks)]
    spread: list[Pass] = []
    if options.spread is not None or is_placed(mod):
        mesh, sharding = options.spread or (None, DATA)
        spread = [ShardTraining(mesh, sharding, options.captured)]
    products: list[Pass] = []
    if options.legalize:
        tables = [var.name for var in params] if optimizer.is_lazy else []
        products = [MultiplyRowsOnce(tables), FuseProductLoss()]
    return (
        *products,
        *images,
        *layers,
        *spread,
        AppendAdjoint(options.loss_scale),
        AppendOptimizer(optimizer, options.master_weights),
        UpdateRows(optimizer.is_lazy),
        FuseTrainStep(options.gives_outputs),
        *evaluation,
        *(_lowered(options) if options.legalize else ()),
    )


def _lowered(options: StepOptions) -> list[Pass]:
    """The passes that make a step of the primitives of JAX, and plan its memory."""
    return [
        SimplifyAdjoint(),
        LegalizeOps(),
        EliminateCommonSubexpr(),
        CanonicalizeBindings(),
        *fast_forms(ADJOINT),
        PlanStepMemory(options.memory_budget, options.memory_policy),
        UpdateInLoops(),
    ]


def spread_over(
    mesh: MeshLike | None, sharding: ShardingLike | None, devices: int | None
) -> Spread | None:
    """The mesh of a training on several devices, and its sharding; None for one device."""
    if devices is not None:
        if mesh is not None:
            raise ValueError(
                "give `mesh` or `devices`, which is short for a mesh of one axis, but not both"
            )
        _check_count(devices)
        mesh = {DATA: int(devices)}
    if mesh is None and sharding is not None:
        raise ValueError(
            f"`sharding` says how a training is on several devices, {sharding!r}, but not on "
            'which: give `mesh`, such as {"data": 4}, or `devices`, such as 4'
        )
    if mesh is None:
        return None
    rule = DATA if sharding is None else sharding
    axes_of(mesh)
    check_sharding(rule)
    return mesh, rule


def _check_count(devices: Any) -> None:
    is_integer = isinstance(devices, int | np.integer) and not isinstance(devices, bool)
    if not is_integer or devices < 1:
        raise ValueError(f"`devices` must be an integer of at least 1, but it is {devices!r}")


def check_loss(loss: Any) -> None:
    """Raise where a class is given for one of its objects."""
    if isinstance(loss, type) or not hasattr(loss, "num_backbone_outputs"):
        raise TypeError(
            "SetupTrainer: `loss` must be a loss such as MSELoss(), or from_jax(function), but it "
            f"is {loss!r}"
        )


def _takes_tuple(loss_args: Sequence[Type | Var]) -> bool:
    """Whether a loss takes a tuple that the backbone returns by one variable as it is."""
    first = next(iter(loss_args), None)
    return isinstance(first.ty if isinstance(first, Var) else first, TupleType)


def with_rules_of_loss(
    mod: IRModule,
    loss: Callable[..., Function],
    loss_args: Sequence[Type | Var],
    reserved: Sequence[str],
) -> tuple[IRModule, Function]:
    """The function of a loss, and the module with the functions that have rules in it.

    Only losses written in JAX have such; none of them gets a name that is `reserved`.
    """
    keeping = getattr(loss, "with_own_rule", None)
    if keeping is None:
        return mod, loss(*loss_args)
    rules = OwnRules([*mod, *reserved])

    def own_rule(
        eqn: Any, args: list[Expr], found: Found, wanted: Sequence[bool]
    ) -> tuple[Call, Sequence[bool]] | None:
        whole = whole_function(eqn, args, found, wanted)
        return rules(eqn, args, found, wanted) if whole is None else whole

    function: Function = keeping(own_rule)(*loss_args)
    return mod.with_functions(rules.module.relax_functions()), function
