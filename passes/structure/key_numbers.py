"""The numbers of random keys as variables, so that layers which draw may be steps of one loop."""

from collections.abc import Mapping

import numpy as np

from relaxjax.ir.expr import Call, Constant, Expr, PrimExpr, Var
from relaxjax.ir.function import Binding, SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import map_bindings, substitute

Numbers = Mapping[Var, int]

_DTYPE = "uint32"  # that of the number which is folded into a key


def with_number_variables(seq: SeqExpr) -> tuple[SeqExpr, Numbers]:
    """A body whose keys are made with variables in the place of numbers, and what these are.

    Nothing binds them: `with_numbers` puts the numbers back.
    """
    variables: dict[int, Var] = {}

    def change(binding: Binding) -> Binding:
        number = _folded_in(binding.value)
        if number is None or not isinstance(binding.value, Call):
            return binding
        var = variables.setdefault(number, Var(f"number{number}", TensorType((), _DTYPE)))
        value = replace(binding.value, args=(binding.value.args[0], var))
        return replace(binding, value=value)

    changed = map_bindings(seq, change)
    return changed, {var: number for number, var in variables.items()}


def with_numbers(seq: SeqExpr, numbers: Numbers) -> SeqExpr:
    """The body with each of the variables as the number that it stands for."""
    return substitute(seq, {var: PrimExpr(number) for var, number in numbers.items()})


def column_of(variables: tuple[Var, ...], numbers: Numbers) -> Expr | None:
    """The numbers that variables stand for in one constant, None where they are no such."""
    if not all(var in numbers for var in variables):
        return None
    return Constant(np.array([numbers[var] for var in variables], _DTYPE))


def _folded_in(value: Expr) -> int | None:
    """The number that a call makes a key of, if it is one that the program spells."""
    if not isinstance(value, Call) or value.op is not get_op("relax.random.fold_in"):
        return None
    number = value.args[1]
    if not isinstance(number, PrimExpr) or not isinstance(number.value, int):
        return None
    return number.value
