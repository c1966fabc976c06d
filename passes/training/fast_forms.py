"""What becomes of a legalised program before its memory is planned."""

from relaxjax.passes.infrastructure.kinds import Pass
from relaxjax.passes.memory.delay_windows import DelayWindows
from relaxjax.passes.memory.store_draws import StoreDraws
from relaxjax.passes.memory.store_levels import StoreLevels
from relaxjax.passes.memory.store_results import StoreResults
from relaxjax.passes.operators.join_by_choice import JoinByChoice
from relaxjax.passes.operators.narrow_products import NarrowProducts
from relaxjax.passes.operators.reduce_by_slices import ReduceBySlices
from relaxjax.passes.raising.sums_as_products import SumsAsProducts
from relaxjax.passes.simplification.sum_in_loops import SumInLoops


def fast_forms(adjoint: str) -> tuple[Pass, ...]:
    """The passes that write primitives as XLA computes them fast, and store what many read.

    Losses in JAX and steps of a trainer get the same ones. `adjoint` is the function that gives
    the gradients.
    """
    return (
        SumInLoops(),
        SumsAsProducts(),
        NarrowProducts(),
        ReduceBySlices(),
        StoreLevels(),
        StoreDraws(),
        StoreResults(adjoint),
        DelayWindows(),
        JoinByChoice(),
    )
