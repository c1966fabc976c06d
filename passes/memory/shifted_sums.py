"""Sums of one tensor, shifted: to compute one again is to read that tensor as often."""

from collections.abc import Iterable

from relaxjax.ir.expr import Var

from .step import Step

# Up to so many shifts, a sum costs about as much to compute again as to read: those of a 3x3
# kernel, which XLA computes inside of what reads them.
_FEW_SHIFTS = 16


def dear_sums(steps: Iterable[Step]) -> frozenset[Var]:
    """The values that add up many slices of a tensor, each times something.

    A convolution by a kernel for each channel is such a sum, written out: products, their sum, and
    the quotient by which it is stored.
    """
    found: dict[Var, tuple[Var, int]] = {}
    for step in steps:
        name = "" if step.op is None else step.op.name
        known = [found[var] for var in step.inputs if var in found]
        match name, known:
            case "lax.slice", _:
                found[step.var] = step.inputs[0], 1
            case "lax.mul", [(shifted, 1)]:
                found[step.var] = shifted, 1
            case "lax.add", [(left, before), (right, more)] if left is right:
                found[step.var] = left, before + more
            case "lax.div", [(shifted, count)]:
                found[step.var] = shifted, count
    return frozenset(var for var, (_, count) in found.items() if count > _FEW_SHIFTS)
