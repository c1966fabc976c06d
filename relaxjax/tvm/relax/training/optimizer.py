"""Optimizers, where TVM has them, and the base of those that are written for it."""

from collections.abc import Sequence
from typing import Any

import relaxjax.optim as ours
from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.optim.base import BoundOptimizer, common_dtype
from relaxjax.tvm.nd import wrapped


class Optimizer:
    """The base of optimizers as TVM has it: a subclass writes its function in `get_function`.

    Its `init` calls `_set_params_and_dtype`, sets `state`, and gives the optimizer itself. Those of
    relaxjax have a base of their own, `relaxjax.optim.Optimizer`, which asks for less.
    """

    is_elementwise = False
    state_names: Sequence[str] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.param_list: list[Var] | None = None
        self.dtype: str | None = None
        self.state: Any = None

    def init(self, params: Var | Sequence[Var]) -> "Optimizer":
        """Set the parameters and the dtype; a subclass sets the initial state, too."""
        self._set_params_and_dtype([params] if isinstance(params, Var) else params)
        return self

    def get_function(self) -> Function:
        """The function `(params, gradients, optim_states) -> (new params, new optim_states)`."""
        self._check_init()
        raise NotImplementedError(f"{type(self).__name__} must define `get_function()`")

    def _set_params_and_dtype(self, params: Sequence[Var]) -> None:
        self.dtype = common_dtype(tuple(params))
        self.param_list = list(params)

    def _check_init(self) -> None:
        if self.param_list is None or self.state is None:
            raise RuntimeError(
                "Please call init() for the optimizer before calling get_function(): it sets "
                "`param_list` and `state`"
            )


class _StateOfArrays(ours.Optimizer):
    """An optimizer whose initial state has arrays as TVM has them, with `.numpy()`."""

    def init(self, params: Var | Sequence[Var]) -> BoundOptimizer:
        """This optimizer for these parameters, with its initial state."""
        bound = super().init(params)
        bound.state = wrapped(bound.state)
        return bound


class SGD(_StateOfArrays, ours.SGD):
    """Gradient descent, as `relaxjax.optim.SGD`."""


class MomentumSGD(_StateOfArrays, ours.MomentumSGD):
    """Gradient descent with momentum, as `relaxjax.optim.MomentumSGD`."""


class Adam(_StateOfArrays, ours.Adam):
    """Adam, as `relaxjax.optim.Adam`."""
