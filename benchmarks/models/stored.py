"""A model as a trainer holds it: equal layers a loop over stacks, kernels as a step reads them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from whole_model import WholeModel

from relaxjax.ir.layout import inverse
from relaxjax.ir.module import IRModule
from relaxjax.passes import ChannelsLast
from relaxjax.passes.structure.expand_tuple_arguments import with_expanded_tuples
from relaxjax.passes.structure.inline import inlined
from relaxjax.passes.training.rolled_training import RollOption, with_rolled_blocks
from relaxjax.passes.training.stacked_params import Stacking
from relaxjax.passes.training.stored_kernels import Moves, with_stored_kernels

from .prepared import fixed


@dataclass(frozen=True)
class Stored(WholeModel):
    """Its parameters are one array after the other: its own, those moved, and stacks."""

    moves: Moves
    stacking: Stacking
    tree: Any

    def apart(self, arrays: Any) -> Any:
        """Arrays like the parameters, as those of the model they are of."""
        rows = [
            arrays[array] if row is None else arrays[array][row]
            for array, row in self.stacking.places
        ]
        own = [
            jnp.transpose(row, inverse(self.moves[n])) if n in self.moves else row
            for n, row in enumerate(rows)
        ]
        return jax.tree.unflatten(self.tree, own)


def stored(model: WholeModel, option: RollOption = "auto") -> WholeModel:
    """What SetupTrainer(roll_blocks=option) makes of a model; the same where it stores no other."""
    leaves, tree = jax.tree.flatten(model.params)
    whole = fixed(model)
    whole = inlined(whole, [name for name in whole.relax_functions() if name != "main"])
    flat = ChannelsLast(kernel_layout="HWIO")(
        IRModule({"main": with_expanded_tuples(whole["main"])})
    )
    mod, moves = with_stored_kernels(flat, ["main"], 0, len(leaves))
    mod, stacking = with_rolled_blocks(mod, ["main"], 0, len(leaves), option)
    if not stacking.groups and not moves:
        return model
    moved = [np.transpose(a, moves[n]) if n in moves else a for n, a in enumerate(leaves)]
    params = tuple(
        np.stack([moved[n] for n in numbers]) if numbers in stacking.groups else moved[numbers[0]]
        for numbers in stacking.arrays
    )
    return Stored(mod, model.plain, params, model.inputs, moves, stacking, tree)
