"""A model of many equal layers as a trainer holds it: a loop over stacks of their parameters."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from whole_model import WholeModel

from relaxjax.ir.module import IRModule
from relaxjax.passes.structure.expand_tuple_arguments import with_expanded_tuples
from relaxjax.passes.training.rolled_training import RollOption, with_rolled_blocks
from relaxjax.passes.training.stacked_params import Stacking

from .prepared import fixed


@dataclass(frozen=True)
class Rolled(WholeModel):
    """Its parameters are one array after the other: of the model's own, or stacks of them."""

    stacking: Stacking
    tree: Any

    def apart(self, arrays: Any) -> Any:
        """Arrays like the parameters, as those of the model they are of."""
        rows = [
            arrays[array] if row is None else arrays[array][row]
            for array, row in self.stacking.places
        ]
        return jax.tree.unflatten(self.tree, rows)


def rolled(model: WholeModel, option: RollOption = "auto") -> WholeModel:
    """What SetupTrainer(roll_blocks=option) makes of a model; the same where no layer is rolled."""
    leaves, tree = jax.tree.flatten(model.params)
    main = with_expanded_tuples(fixed(model)["main"])
    flat = IRModule({"main": main})
    mod, stacking = with_rolled_blocks(flat, ["main"], 0, len(leaves), option)
    if not stacking.groups:
        return model
    params = tuple(
        np.stack([leaves[n] for n in numbers]) if numbers in stacking.groups else leaves[numbers[0]]
        for numbers in stacking.arrays
    )
    return Rolled(mod, model.plain, params, model.inputs, stacking, tree)
