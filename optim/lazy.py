"""Any elementwise optimizer for the rows of tables that a batch reads, and for them only."""

from collections.abc import Sequence
from dataclasses import dataclass

from relaxjax.ir.expr import Expr, Var

from .base import BoundOptimizer, Optimizer, States, Step
from .from_optax import OptaxOptimizer


@dataclass(frozen=True)
class Lazy(Optimizer):
    """Another optimizer, of which the rows that a batch does not read know nothing.

        optimizer = Lazy(Adam(1e-3))

    The formula of the other one is applied to those rows of a table that occur in a batch, with
    the sum of all that comes back to each. Other rows, and their states, stay as they are, though
    by momentum or weight decay they would move. TensorFlow and PyTorch call it so, too: this is
    `SparseAdam` for `Adam`, up to where `eps` stands. What counts steps counts all of them.

    A table is a parameter of which only `R.take` along the first axis reads, or its likes in JAX;
    other parameters are updated as by the other optimizer. Its formula may treat each number
    separately, and take norms of gradients; other ones are refused. `SetupTrainer` asks for it by
    the pass `UpdateRows`; `get_function` alone is that of the other optimizer.
    """

    optimizer: Optimizer

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise TypeError(
                "Lazy takes an optimizer such as Adam(1e-3), or from_optax(optax.adagrad(0.1)), "
                f"but it was given {self.optimizer!r}"
            )

    @property
    def name(self) -> str:
        return self.optimizer.name

    @property
    def is_elementwise(self) -> bool:
        return self.optimizer.is_elementwise

    @property
    def is_lazy(self) -> bool:
        return True

    def init(self, params: Var | Sequence[Var]) -> BoundOptimizer:
        listed = (params,) if isinstance(params, Var) else tuple(params)
        if isinstance(self.optimizer, OptaxOptimizer) and self.optimizer.begins_late(listed):
            raise ValueError(
                f"Lazy cannot be {self.name}: its state begins with the values of the parameters, "
                "which rows that occur later would miss"
            )
        return self.optimizer.init(params)

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> States:
        return self.optimizer.initial_state(params, dtype)

    def state_names(self, params: tuple[Var, ...]) -> list[str]:
        return self.optimizer.state_names(params)

    def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
        return self.optimizer.update(step)
