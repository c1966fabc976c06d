"""Adam, by which the suite's models are trained, as a legalised function."""

from functools import lru_cache

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import Type
from relaxjax.optim import Adam
from relaxjax.optim.base import BoundOptimizer
from relaxjax.passes import EliminateCommonSubexpr, LegalizeOps

RATE = 1e-3
UPDATE = "update"


def adam(types: tuple[Type | None, ...]) -> BoundOptimizer:
    """For parameters of these types."""
    return Adam(RATE).init([Var(f"p{i}", ty) for i, ty in enumerate(types)])


@lru_cache(maxsize=1)
def adam_update(types: tuple[Type | None, ...]) -> Function:
    """`(params, gradients, state) -> (new params, new state)`.

    A plan and the step that follows it share it, as they do in SetupTrainer.
    """
    function = adam(types).get_function().with_attr("global_symbol", UPDATE)
    mod = EliminateCommonSubexpr()(LegalizeOps()(IRModule({UPDATE: function})))
    legalised = mod[UPDATE]
    assert isinstance(legalised, Function)
    return legalised
