"""What `relaxjax train` makes of a script, a loss and an optimizer given by name."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relaxjax import losses
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Tuple
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.types import TensorType, dtype_name
from relaxjax.ir.wording import counted, quoted
from relaxjax.lowering import VirtualMachine, build
from relaxjax.optim import SGD, from_optax
from relaxjax.passes import BindSymbolicVars, SetupTrainer, ToMixedPrecision
from relaxjax.trainable.names import BACKBONE
from relaxjax.training import Trainer

from .devices import mesh_of
from .failure import InputError
from .own import own_losses

LOSSES: Mapping[str, Callable[[], Any]] = {
    "cross_entropy": losses.CrossEntropyLoss,
    "categorical_cross_entropy": losses.CategoricalCrossEntropyLoss,
    "nll": losses.NLLLoss,
    "bce": losses.BCELoss,
    "bce_with_logits": losses.BCEWithLogitsLoss,
    "mse": losses.MSELoss,
    "l1": losses.L1Loss,
    "huber": losses.HuberLoss,
    "smooth_l1": losses.SmoothL1Loss,
    "kl_div": losses.KLDivLoss,
    "hinge": losses.HingeLoss,
    "cosine": losses.CosineLoss,
}
CLASSIFICATION = ("cross_entropy", "categorical_cross_entropy", "nll")

# Where optax has them.
OPTIMIZERS = {
    "sgd": "sgd",
    "momentum": "sgd",
    "adam": "adam",
    "adamw": "adamw",
    "adagrad": "adagrad",
    "adafactor": "adafactor",
    "lamb": "lamb",
    "lion": "lion",
    "muon": "contrib.muon",
    "nadam": "nadam",
    "nadamw": "nadamw",
    "radam": "radam",
    "rmsprop": "rmsprop",
}
DECAY_OF_THEIR_OWN = ("adamw", "lamb", "lion", "muon", "nadamw")
SCHEDULES = ("constant", "cosine", "linear")


def with_backbone(mod: IRModule, inputs: int, states: int) -> IRModule:
    """The module with its model as `backbone`, and with the numbers of parameters and states."""
    if BACKBONE not in mod:
        public = [name for name, f in mod.relax_functions().items() if f.global_symbol]
        if len(public) != 1:
            listed = quoted(public) or "none"
            raise InputError(
                f"the model must be a function called `{BACKBONE}`, or the only public one; the "
                f"script has {listed}"
            )
        renamed = mod[public[0]].with_attr("global_symbol", BACKBONE)
        mod = mod.without_functions(public[0]).with_function(BACKBONE, renamed)
    if "param_num" in mod.attrs and "state_num" in mod.attrs:
        return mod
    given = len(mod[BACKBONE].params)
    if inputs + states >= given:
        raise InputError(
            f"`{BACKBONE}` takes {counted(given, 'argument')}: "
            f"with {inputs} inputs and {states} states no "
            "parameter is left to train"
        )
    return mod.with_attrs({"param_num": given - inputs - states, "state_num": states})


def with_loss(mod: IRModule, loss: str, name: str | None) -> IRModule:
    """The module with the adjoint of a model's loss; targets are such as the loss takes."""
    if name is not None:
        model = mod[name].with_attr("global_symbol", BACKBONE)
        mod = mod.without_functions(name).with_function(BACKBONE, model)
    mod = with_backbone(mod, 1, 0)
    types = [scores_type(mod), target_type(mod, loss)]
    return SetupTrainer(LOSSES[loss](), SGD(0.1), types, legalize=False)(mod)


def target_type(mod: IRModule, loss: str) -> TensorType:
    """The type of the targets that a loss takes: numbers of classes, or as the model's scores."""
    scores = scores_type(mod)
    if loss not in CLASSIFICATION or loss == "categorical_cross_entropy":
        return scores
    dims = scores.dims or ()
    return TensorType((*dims[:1], *dims[2:]), "int32")


def in_half_precision(mod: IRModule, dtype: str | None) -> IRModule:
    """The module with what gains by it computed in half precision, if a dtype for that is given."""
    return mod if dtype is None else ToMixedPrecision(dtype=dtype)(mod)


def input_types(mod: IRModule) -> list[TensorType]:
    """The types of the model's inputs."""
    backbone = mod[BACKBONE]
    params, states = mod.attrs["param_num"], mod.attrs["state_num"]
    count = len(backbone.params) - params - states
    types = [param.ty for param in backbone.params[: max(0, count)]]
    found = [ty for ty in types if isinstance(ty, TensorType)]
    if len(types) != 1 or len(found) != 1:
        raise InputError(
            f"`relaxjax train` trains models of one input, a tensor, but `{BACKBONE}` takes "
            f"{len(types)}: of its {len(backbone.params)} arguments, `param_num` counts {params} "
            f"and `state_num` {states}. Correct these in I.module_attrs, say by --states how many "
            "are states, or train it from Python"
        )
    return found


def of_planned_sizes(
    mod: IRModule, policy: str | None, batch: int, example: Sequence[int]
) -> IRModule:
    """The module for batches of this size alone, where a policy plans memory, which is for one.

    `example` is the shape of one example; it says what else the model's input leaves open.
    """
    if policy in (None, "none"):
        return mod
    (wanted,) = input_types(mod)
    pairs = zip(wanted.dims or (), (batch, *example), strict=False)
    sizes = {dim.name: size for dim, size in pairs if isinstance(dim, SymbolicVar)}
    return BindSymbolicVars(sizes)(mod) if sizes else mod


def make_trainer(mod: IRModule, args: argparse.Namespace, y: Any, steps: int) -> Trainer:
    """The trainer of a model for targets like `y`, in a training of so many steps."""
    scores = scores_type(mod)
    targets = TensorType((*(scores.dims or ())[:1], *y.shape[1:]), dtype_name(y.dtype))
    setup = SetupTrainer(
        {**LOSSES, **own_losses()}[args.loss](),
        optimizer(args, steps),
        [scores, targets],
        loss_scale=args.loss_scale,
        memory_policy=args.policy,
        mesh=mesh_of(args),
        sharding=args.sharding,
    )
    train_mod = setup(mod)
    trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
    trainer.xavier_uniform_init_params(args.seed)
    trainer.seed(args.seed)
    return trainer


def optimizer(args: argparse.Namespace, steps: int) -> Any:
    """The optimizer of the command line, its schedule and what is around it, of optax."""
    import optax

    options: dict[str, Any] = {}
    if args.optim == "momentum":
        options["momentum"] = 0.9
    has_own_decay = args.optim in DECAY_OF_THEIR_OWN
    if args.weight_decay is not None and has_own_decay:
        options["weight_decay"] = args.weight_decay
    made: Any = optax
    for part in OPTIMIZERS[args.optim].split("."):
        made = getattr(made, part)
    updates = max(1, steps // args.accumulate)  # steps left over at the end make none
    chain = [made(_schedule(args, updates), **options)]
    if args.weight_decay is not None and not has_own_decay:
        chain.insert(0, optax.add_decayed_weights(args.weight_decay))
    if args.clip is not None:
        chain.insert(0, optax.clip_by_global_norm(args.clip))
    tx: Any = optax.chain(*chain) if len(chain) > 1 else chain[0]
    if args.accumulate > 1:
        tx = optax.MultiSteps(tx, args.accumulate)
    return from_optax(tx, args.optim)


def count_of(trainer: Trainer) -> int:
    """How many numbers are trained."""
    return sum(int(np.prod(array.shape)) for array in trainer.export_params().values())


@dataclass(frozen=True, eq=False)
class Known:
    """An argument that must be one of these names, or one of those that files of --load hold."""

    kind: str
    names: Mapping[str, Any]
    own: Callable[[], Mapping[str, Any]] = dict

    def __call__(self, text: str) -> str:
        known = [*self.own(), *self.names]
        if text not in known:
            raise argparse.ArgumentTypeError(
                f"there is no {self.kind} `{text}`: there are {', '.join(known)}"
                f"{did_you_mean(text, known)}"
            )
        return text


def _schedule(args: argparse.Namespace, updates: int) -> Any:
    import optax

    warmup = min(args.warmup, updates)
    rest = max(1, updates - warmup)
    schedules: dict[str, Any] = {
        "constant": lambda: optax.constant_schedule(args.lr),
        "cosine": lambda: optax.cosine_decay_schedule(args.lr, rest),
        "linear": lambda: optax.linear_schedule(args.lr, 0.0, rest),
    }
    if args.schedule == "constant" and not warmup:
        return args.lr
    later = schedules[args.schedule]()
    if not warmup:
        return later
    return optax.join_schedules([optax.linear_schedule(0.0, args.lr, warmup), later], [warmup])


def scores_type(mod: IRModule) -> TensorType:
    """The type of the model's first output."""
    result = mod[BACKBONE].body.body
    first = result.fields[0] if isinstance(result, Tuple) else result
    if not isinstance(first.ty, TensorType):
        raise InputError(f"the model's first output must be a tensor, but it is of type {first.ty}")
    return first.ty
