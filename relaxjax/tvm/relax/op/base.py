"""What TVM registers for operators."""

from typing import Any, NoReturn


def register_gradient(op_name: str, *rule: Any, **options: Any) -> NoReturn:
    """An error: here the rule of an operator is a pass's option, and no state of the process."""
    short = op_name.removeprefix("relax.")
    raise NotImplementedError(
        "register_gradient: no rule is registered for all programs. Before Gradient, apply "
        f'`CustomGradient("{short}", gradient=rule)` of relaxjax.passes to the module, where '
        "`rule` takes the operator's arguments and the adjoint of its result, and gives the "
        "adjoint of each argument"
    )
