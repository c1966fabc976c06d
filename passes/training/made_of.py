"""What a training is made of, by which its checkpoints are told from those of another one."""

from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import structural_hash
from relaxjax.lowering.traits import reachable
from relaxjax.ops.packed import with_told_names
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import BACKBONE, BACKBONE_LOSS, MADE_OF, OPTIMIZER

from .append_optimizer import whole_update
from .asked_once import Optimizer
from .loss_scale import LossScale
from .shard_training import is_placed


def with_digests(
    mod: IRModule, optimizer: Optimizer, loss_scale: LossScale | None, master_weights: bool
) -> IRModule:
    """The module with digests of its functions as they are now, and of the optimizer's.

    These are for the user's own parameters: later passes may store them in other ways, such as in
    stacks, so that functions cannot be compared any more. A program whose types say where arrays
    lie is another one on another mesh, and has none.
    """
    if is_placed(mod):
        return mod
    params = Arguments.of(mod, BACKBONE_LOSS).params
    update = whole_update(optimizer, params, loss_scale, master_weights)
    found = {name: _digest(mod, name) for name in (BACKBONE, BACKBONE_LOSS) if name in mod}
    found[OPTIMIZER] = f"{structural_hash(update.function):016x}"
    return mod.with_attr(MADE_OF, found)


def _digest(mod: IRModule, name: str) -> str:
    called = with_told_names(IRModule(dict(sorted(reachable(mod, name)))))
    return f"{structural_hash(called):016x}"
