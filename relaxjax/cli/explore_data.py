"""The batch that `relaxjax explore` runs a step on: the first examples of what `train` takes."""

from collections.abc import Sequence

from relaxjax.ir.expr import Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.trainable.arguments import Arguments
from relaxjax.trainable.names import ADJOINT

from .failure import InputError
from .train_data import Array, check_classes, read_examples
from .train_setup import CLASSIFICATION, scores_type

BATCH = 32  # examples, where the model takes any number


def first_batch(mod: IRModule, name: str, scores_classes: bool) -> tuple[Array, Array]:
    """Inputs and targets of the data of a name, as many as the model takes."""
    wanted = _input_type(Arguments.of(mod, ADJOINT).inputs)
    examples = read_examples(name, wanted)
    if scores_classes:
        check_classes(name, examples, scores_type(mod))
    dims = wanted.dims or (None,)
    count = dims[0] if isinstance(dims[0], int) else min(BATCH, len(examples.x))
    if len(examples.x) < count:
        raise InputError(
            f"`{name}` holds {len(examples.x)} examples, but the model takes {count} at once: give "
            "more, or leave the size open in the model"
        )
    return examples.x[:count], examples.y[:count]


def named_batch(mod: IRModule, name: str, loss: str | None) -> dict[str, Array]:
    """The batch by the names of the parameters of the adjoint."""
    if ADJOINT not in mod:
        raise InputError(
            f"--data {name}: examples are for a model and its loss: give --loss, such as "
            "--loss cross_entropy; or leave the name out, for random numbers"
        )
    arguments = Arguments.of(mod, ADJOINT)
    x, y = first_batch(mod, name, loss in CLASSIFICATION)
    return {arguments.inputs[0].name: x, arguments.targets[0].name: y}


def _input_type(inputs: Sequence[Var]) -> TensorType:
    types = [var.ty for var in inputs]
    if len(types) == 1 and isinstance(types[0], TensorType):
        return types[0]
    raise InputError(
        f"--data is for models of one input, a tensor, but this one takes {len(types)}: run it "
        "from Python, by relaxjax.explore(module, numbers=True, data={...})"
    )
