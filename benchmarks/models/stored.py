"""A model as a trainer holds it: equal layers a loop over stacks, kernels as a step reads them."""

from dataclasses import dataclass
from typing import Any

import jax
from whole_model import WholeModel

from relaxjax.ir.module import IRModule
from relaxjax.passes import ChannelsLast
from relaxjax.passes.structure.expand_tuple_arguments import with_expanded_tuples
from relaxjax.passes.structure.inline import inlined
from relaxjax.passes.training.stack_layers import RollOption, with_stacked_layers
from relaxjax.passes.training.store_kernels import moves_of, with_moves
from relaxjax.trainable.storage import Storage

from .prepared import fixed


@dataclass(frozen=True)
class Stored(WholeModel):
    """Its parameters are one array after the other: its own, those moved, and stacks."""

    storage: Storage
    tree: Any

    def apart(self, arrays: Any) -> Any:
        """Arrays like the parameters, as those of the model they are of."""
        return jax.tree.unflatten(self.tree, self.storage.outside(arrays))


def stored(model: WholeModel, option: RollOption = "auto") -> WholeModel:
    """What SetupTrainer(roll_blocks=option) makes of a model; the same where it stores no other."""
    leaves, tree = jax.tree.flatten(model.params)
    whole = fixed(model)
    whole = inlined(whole, [name for name in whole.relax_functions() if name != "main"])
    flat = ChannelsLast(kernel_layout="HWIO")(
        IRModule({"main": with_expanded_tuples(whole["main"])})
    )
    moves = moves_of(flat["main"], flat["main"].params[: len(leaves)])
    moved = flat.with_function("main", with_moves(flat["main"], 0, moves)) if moves else flat
    mod, stacks = with_stacked_layers(moved, ["main"], 0, len(leaves), option)
    storage = Storage.apart(len(leaves)).moved(moves).stacked(stacks.stacks)
    if storage.is_apart:
        return model
    params = storage.inside(leaves)
    return Stored(mod, model.plain, params, model.inputs, storage, tree)
