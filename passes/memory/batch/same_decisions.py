"""What is computed before a loop over parts, and in it again, decides alike in both places."""

from collections.abc import Collection, Sequence

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Binding
from relaxjax.ir.op import operator_name
from relaxjax.ir.walk import free_vars
from relaxjax.ops.decisions import decisions

from .kinds import WHOLE, MixedError
from .reading import LOOPS, Reading, without_delay


def check_same_decisions(
    reading: Reading, bindings: Sequence[Binding], given: Collection[Var]
) -> None:
    """Raise a MixedError for a decision that may be another one in the loop than before it.

    Floats that are computed in both places may be rounded otherwise. So none decides both times,
    and none is compared with what is known of all samples. Loops are not looked into.
    """
    decided = decisions(bindings, given)
    known_of_all: set[Var] = set()
    for binding in bindings:
        var = binding.var
        if var in reading.early and operator_name(binding.value) in LOOPS:
            raise MixedError(binding)
        read = free_vars(without_delay(binding.value))
        if any(one in known_of_all or one in reading.known for one in read):
            known_of_all.add(var)
        is_in_loop = var in reading.inside and reading.kind(var) is not WHOLE
        if var in decided and is_in_loop and var in (reading.early | known_of_all):
            raise MixedError(binding)
