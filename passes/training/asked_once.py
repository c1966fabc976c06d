"""An optimizer that several passes ask, which says once what it does to some parameters."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.types import Type

from .by_number import BoundOptimizer, UpdateByNumber, update_by_number

_Key: TypeAlias = tuple[tuple[str, Type | None], ...]  # names and types


class Optimizer(Protocol):
    """What AppendOptimizer asks of an optimizer.

    One that is elementwise updates each number of a parameter separately, by one rule for all
    of them, so that parameters may be stored in stacks and with their axes moved. One that
    says `is_lazy`, which may be left out, has UpdateRows do so to the rows that a batch reads.
    """

    @property
    def is_elementwise(self) -> bool:
        return False

    def init(self, params: Sequence[Var]) -> BoundOptimizer: ...


class AskedOnce:
    """An optimizer whose answers are kept: one of optax traces its update for each of them."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._bound: dict[_Key, BoundOnce] = {}

    @classmethod
    def of(cls, optimizer: Optimizer) -> "AskedOnce":
        return optimizer if isinstance(optimizer, AskedOnce) else cls(optimizer)

    def __repr__(self) -> str:
        return repr(self._optimizer)

    @property
    def is_elementwise(self) -> bool:
        return self._optimizer.is_elementwise

    @property
    def is_lazy(self) -> bool:
        return bool(getattr(self._optimizer, "is_lazy", False))

    def init(self, params: Sequence[Var]) -> "BoundOnce":
        key = tuple((param.name, param.ty) for param in params)
        if key not in self._bound:
            self._bound[key] = BoundOnce(self._optimizer.init(params), tuple(params))
        return self._bound[key]


class BoundOnce:
    """What an optimizer says of some parameters."""

    def __init__(self, ready: BoundOptimizer, params: tuple[Var, ...]) -> None:
        self._ready, self._params = ready, params
        self.state: tuple[Any, ...] = tuple(ready.state)
        self.state_names: Sequence[str] = tuple(ready.state_names)
        self.state_owners: Sequence[int | None] = tuple(getattr(ready, "state_owners", ()))

    def get_function(self) -> Function:
        return self._function

    @cached_property
    def _function(self) -> Function:
        return self._ready.get_function()

    @cached_property
    def by_number(self) -> UpdateByNumber | None:
        """Its update number by number, if its function proves that it is one."""
        return update_by_number(self, self._params)
