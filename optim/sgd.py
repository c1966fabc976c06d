"""Stochastic gradient descent."""

from dataclasses import dataclass

from relaxjax.ir.expr import Expr, Var

from .base import Optimizer, States, Step, steps_taken
from .hyperparameters import check_numbers


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: p -= lr * (g + weight_decay * p).

    The state is (number of steps,).
    """

    lr: float
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self.name, lr=self.lr, weight_decay=self.weight_decay)

    @property
    def is_elementwise(self) -> bool:
        return True

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> States:
        return (steps_taken(),)

    def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
        steps = step.count()
        new_params: list[Expr] = []
        for name, param, gradient in step.parameters():
            decayed = step.decayed(name, param, gradient, self.weight_decay)
            new_params.append(step.emit(param - self.lr * decayed, f"{name}_new"))
        return new_params, [steps]
