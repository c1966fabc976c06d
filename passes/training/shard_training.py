"""A training on many devices: which of its arrays are split among them, stated by the module."""

from collections.abc import Sequence
from dataclasses import replace

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import BACKBONE_LOSS
from relaxjax.trainable.sharding import (
    ArraySplit,
    Distribution,
    MeshLike,
    Split,
    axes_of,
    device_numbers,
    unlike_rows,
)
from relaxjax.trainable.sharding_rules import (
    DATA,
    ShardingLike,
    distribution,
    place_of,
    placed_distribution,
)
from relaxjax.trainable.storage import Storage, params_of

from .update import Update


@pass_factory(opt_level=0)
def ShardTraining(
    mod: IRModule, mesh: MeshLike | None = None, sharding: ShardingLike = DATA, captured: int = 0
) -> IRModule:
    """State on which devices the training is, and which of its arrays they share.

    `mesh` has the sizes of its axes by name, or is a jax.sharding.Mesh. By "data", the samples of a
    batch are spread over all devices, each of which has all parameters. By "fsdp", parameters,
    states of the model and states of the optimizer are split over all of them, too. A mapping from
    patterns for names of parameters to specs splits those: samples are spread over the axis `data`
    then, or over the axes that split no parameter.

    Without a mesh, the types of the arguments say it, as passes such as TensorParallel write them.

    Of the inputs the first `captured` belong to no batch, and are whole.

    The attributes `mesh`, `batch_axes` and `shardings` say so. No function changes: results are
    those on one device, up to the order of sums. A Trainer places its arrays by them, and XLA puts
    in what the devices exchange.
    """
    arguments = Arguments.of(mod, BACKBONE_LOSS)
    own, storage = params_of(mod, arguments.params)
    arrays = {"params": own, "states": arguments.states}
    batch = {"inputs": arguments.inputs[captured:], "targets": arguments.targets}
    if mesh is None:
        found = placed_distribution(arrays, batch)
    elif is_placed(mod):
        raise ValueError(
            "the types of the model say already where its arrays lie: leave out `mesh`, or the "
            "passes that placed them"
        )
    else:
        found = distribution(sharding, axes_of(mesh), arrays, batch, device_numbers(mesh))
    splits = found.group("params")
    check_rows(own, [splits.get(var.name, ()) for var in own], storage)
    return mod.with_attrs(found.attrs())


def is_placed(mod: IRModule) -> bool:
    """Whether a type of an argument of the loss says where that lies."""
    return any(map(place_of, mod[BACKBONE_LOSS].params))


def check_rows(own: Sequence[Var], splits: Sequence[Split], storage: Storage) -> None:
    """Raise where parameters that are rows of one stack are split otherwise."""
    for first, other in unlike_rows(splits, storage):
        raise ValueError(
            f"`{own[first].name}` and `{own[other].name}` belong to equal layers that are rolled "
            "into one loop, but `sharding` splits them otherwise: give them one pattern, or leave "
            "the layers apart by roll_blocks=False"
        )


def with_state_splits(mod: IRModule, params: Sequence[Var], update: Update) -> IRModule:
    """The module whose optimizer's states are split as the parameters that they are of."""
    found = Distribution.of(mod)
    if found is None:
        return mod
    splits = found.group("params")
    of_states = [
        ArraySplit("optimizer", str(number), splits[params[owner].name])
        for number, owner in enumerate(update.owners)
        if owner is not None and params[owner].name in splits
    ]
    return mod.with_attrs(replace(found, splits=(*found.splits, *of_states)).attrs())
