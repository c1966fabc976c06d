"""What the functions of a trainable module take, by what it stands for."""

from dataclasses import dataclass

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule

from .names import ADJOINT, INPUT_NUM, LOSS_SCALE, PARAM_NUM, STATE_NUM

MEND = "apply SetupTrainer(loss, optimizer, loss_args) to the model first"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of a function: inputs, the parameters that are trained, model states, targets.

    The adjoint of a scaled loss takes the scale after them.
    """

    inputs: tuple[Var, ...]
    params: tuple[Var, ...]
    states: tuple[Var, ...]
    targets: tuple[Var, ...]
    scale: Var | None = None

    @staticmethod
    def of(mod: IRModule, name: str) -> "Arguments":
        """Those of a function of the module, which states their numbers."""
        given = list(required_function(mod, name).params)
        is_scaled = name == ADJOINT and mod.attrs.get(LOSS_SCALE) is not None
        scale = given.pop() if is_scaled else None
        first = count_of(mod, INPUT_NUM)
        states = first + count_of(mod, PARAM_NUM)
        targets = states + count_of(mod, STATE_NUM)
        return Arguments(
            inputs=tuple(given[:first]),
            params=tuple(given[first:states]),
            states=tuple(given[states:targets]),
            targets=tuple(given[targets:]),
            scale=scale,
        )


def required_function(mod: IRModule, name: str) -> Function:
    """A function of a trainable module, by its name."""
    found = mod.relax_functions().get(name)
    if found is None:
        raise ValueError(f"the module has no function `{name}`: {MEND}")
    return found


def count_of(mod: IRModule, name: str) -> int:
    """A number of arguments that the module states."""
    count = mod.attrs.get(name)
    if isinstance(count, int):
        return count
    raise ValueError(f"the module's attribute `{name}` is {count!r} and no integer: {MEND}")
