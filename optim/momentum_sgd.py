"""Stochastic gradient descent with momentum."""

from dataclasses import dataclass

from relaxjax.ir.arguments import check_flags
from relaxjax.ir.expr import Expr, Var

from .base import Optimizer, States, Step, complement, steps_taken, zeros_like
from .hyperparameters import check_numbers


@dataclass(frozen=True)
class MomentumSGD(Optimizer):
    """Stochastic gradient descent with momentum, and with Nesterov's look ahead where asked for.

        g = g + weight_decay * p
        v = momentum * v + (1 - dampening) * g
        p = p - lr * (g + momentum * v  if nesterov else  v)

    The dampening counts from the first step on. The state is (number of steps, v of each
    parameter).
    """

    lr: float
    momentum: float
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_numbers(self.name, lr=self.lr, weight_decay=self.weight_decay)
        check_numbers(self.name, momentum=self.momentum, dampening=self.dampening)
        check_flags(nesterov=self.nesterov)

    @property
    def is_elementwise(self) -> bool:
        return True

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> States:
        return (steps_taken(), *(zeros_like(param, self.name) for param in params))

    def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
        steps = step.count()
        new_params: list[Expr] = []
        new_velocities: list[Expr] = []
        for index, (name, param, gradient) in enumerate(step.parameters(), start=1):
            velocity = step.emit(step.states[index], f"{name}_v")
            decayed = step.decayed(name, param, gradient, self.weight_decay)
            added = complement(self.dampening) * decayed if self.dampening else decayed
            velocity = step.emit(self.momentum * velocity + added, f"{name}_v_new")
            direction = velocity
            if self.nesterov:
                direction = step.emit(decayed + self.momentum * velocity, f"{name}_g_nest")
            new_params.append(step.emit(param - self.lr * direction, f"{name}_new"))
            new_velocities.append(velocity)
        return new_params, [steps, *new_velocities]
