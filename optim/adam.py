"""Adam."""

from dataclasses import dataclass

import numpy as np

from relaxjax.ir.expr import Expr, Var, np_dtype
from relaxjax.ops.unary import sqrt

from .base import Optimizer, States, Step, complement, steps_taken, zeros_like
from .hyperparameters import check_betas, check_numbers


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam: adaptive moment estimation (Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980).

        g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        p = p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    The weight decay is an L2 penalty, not AdamW's. The state is (number of steps, beta1^t, beta2^t,
    m of each parameter, v of each parameter).
    """

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self.name, lr=self.lr, eps=self.eps, weight_decay=self.weight_decay)
        check_betas(self.name, self.betas)

    @property
    def is_elementwise(self) -> bool:
        return True

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> States:
        one = np.ones((), np_dtype(dtype))
        moments = tuple(zeros_like(param, self.name) for param in params)
        return (steps_taken(), one, one.copy(), *moments, *(zeros.copy() for zeros in moments))

    def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
        steps = step.count()
        products = [
            step.emit(step.states[index] * beta, f"beta{index}_prod")
            for index, beta in enumerate(self.betas, start=1)
        ]
        new_params: list[Expr] = []
        new_means: list[Expr] = []
        new_squares: list[Expr] = []
        for index, (name, param, gradient) in enumerate(step.parameters(), start=3):
            mean = step.emit(step.states[index], f"{name}_m")
            square = step.emit(step.states[index + len(step.param_list)], f"{name}_v")
            decayed = step.decayed(name, param, gradient, self.weight_decay)
            mean, square = self._moments(step, name, decayed, mean, square)
            new_params.append(self._new_param(step, name, param, mean, square, products))
            new_means.append(mean)
            new_squares.append(square)
        return new_params, [steps, *products, *new_means, *new_squares]

    def _moments(
        self, step: Step, name: str, gradient: Expr, mean: Expr, square: Expr
    ) -> tuple[Var, Var]:
        beta1, beta2 = self.betas
        mean = beta1 * mean + complement(beta1) * gradient
        square = beta2 * square + complement(beta2) * (gradient * gradient)
        return step.emit(mean, f"{name}_m_new"), step.emit(square, f"{name}_v_new")

    def _new_param(
        self, step: Step, name: str, param: Expr, mean: Expr, square: Expr, products: list[Var]
    ) -> Var:
        beta1_prod, beta2_prod = products
        mean_hat = step.emit(mean / (1 - beta1_prod), f"{name}_m_hat")
        square_hat = step.emit(square / (1 - beta2_prod), f"{name}_v_hat")
        direction = mean_hat / (sqrt(square_hat) + self.eps)
        return step.emit(param - self.lr * direction, f"{name}_new")
