"""What every norm computes, as arrays and as expressions, and its adjoints in closed form.

The adjoints come from the normalised values: nothing of the forward program but its arguments is
needed. Variances are those of centred values, so that nothing cancels where the mean is large.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Expr
from relaxjax.ops.arrays import widened
from relaxjax.ops.emit import call, narrow, ndim_of, scalar, wide


@dataclass(frozen=True, slots=True)
class Norm:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with statistics over some axes.

    With `about_zero` there is no mean, and the variance is the mean of the squares.
    """

    reduced: Sequence[int]  # the axes that the statistics are taken over
    along: Sequence[int]  # the axes of the data that the axes of gamma and beta lie along
    epsilon: float
    center: bool  # whether beta is added
    scale: bool  # whether gamma is a factor
    about_zero: bool = False

    # Of arrays; the statistics in float32 where the data are narrower

    def computed(self, data: Any, gamma: Any, beta: Any = None) -> Any:
        """The norm on its own statistics."""
        centred, variance = self.centred(widened(data))
        return self.finished(centred, variance, gamma, beta).astype(data.dtype)

    def centred(self, x: Any) -> tuple[Any, Any]:
        """`x` about its mean, and its variance."""
        centred = x if self.about_zero else x - jnp.mean(x, self.reduced, keepdims=True)
        return centred, jnp.mean(centred * centred, self.reduced, keepdims=True)

    def finished(self, centred: Any, variance: Any, gamma: Any, beta: Any) -> Any:
        """What is left to do once the statistics are known."""
        x = centred * lax.rsqrt(variance + jnp.asarray(self.epsilon, variance.dtype))
        if self.scale:
            x = x * self.laid(gamma.astype(x.dtype), x.ndim)
        return x + self.laid(beta.astype(x.dtype), x.ndim) if self.center else x

    def laid(self, parameter: Any, ndim: int) -> Any:
        """A parameter along its axes of the data, so that it broadcasts to them."""
        return lax.expand_dims(jnp.transpose(parameter, self._order), self._others(ndim))

    # Of expressions

    def spelt_out(self, data: Expr, gamma: Expr, beta: Expr | None = None) -> Expr:
        """The norm in simpler operators."""
        centred, variance = self._centred(wide(data))
        shift = None if beta is None else wide(beta)
        return narrow(self.finish(centred, variance, wide(gamma), shift), data)

    def finish(self, centred: Expr, variance: Expr, gamma: Expr, beta: Expr | None) -> Expr:
        """As `finished`."""
        ndim = ndim_of(centred)
        out: Expr = centred / call("sqrt", variance + scalar(self.epsilon, centred))
        if self.scale:
            out = out * self.spread(gamma, ndim)
        return out if beta is None or not self.center else out + self.spread(beta, ndim)

    def adjoints(
        self, g: Expr, data: Expr, gamma: Expr, beta: Expr | None = None
    ) -> tuple[Expr | None, ...]:
        """Those of the arguments from that of the result."""
        whole = wide(g)
        centred, variance = self._centred(wide(data))
        inverse = self.inverse(variance)
        values = centred * inverse
        to_data = self.to_data(self.scaled(whole, wide(gamma)), values, inverse)
        found = (to_data, *self.to_parameters(whole, values))
        adjoints = tuple(None if x is None else narrow(x, data) for x in found)
        return adjoints if beta is not None else adjoints[:2]

    def to_data(self, h: Expr, values: Expr, inverse: Expr) -> Expr:
        """The adjoint of the data from that of the values: `h` without its mean and its slope."""
        slope = call("mean", h * values, self.reduced, keepdims=True)
        if self.about_zero:
            return inverse * (h - values * slope)
        return inverse * (h - call("mean", h, self.reduced, keepdims=True) - values * slope)

    def to_parameters(self, g: Expr, values: Expr) -> tuple[Expr | None, Expr | None]:
        """The adjoints of gamma and beta, as far as they are used."""
        return (
            self.gathered(g * values) if self.scale else None,
            self.gathered(g) if self.center else None,
        )

    def scaled(self, g: Expr, gamma: Expr) -> Expr:
        """The adjoint of the normalised values."""
        return g * self.spread(gamma, ndim_of(g)) if self.scale else g

    def inverse(self, variance: Expr) -> Expr:
        """The reciprocal of the standard deviation."""
        return call("rsqrt", variance + scalar(self.epsilon, variance))

    def spread(self, parameter: Expr, ndim: int) -> Expr:
        """As `laid`; axes that are the last ones, in their order, broadcast as they are."""
        if self._order != sorted(self._order):
            parameter = call("permute_dims", parameter, self._order)
        others = self._others(ndim)
        trailing = others == list(range(len(others)))
        return parameter if trailing else call("expand_dims", parameter, others)

    def gathered(self, adjoint: Expr) -> Expr:
        """The adjoint of a parameter from that of what `spread` made of it."""
        others = self._others(ndim_of(adjoint))
        total = call("sum", adjoint, others) if others else adjoint
        back = [self._order.index(axis) for axis in range(len(self._order))]
        return total if back == sorted(back) else call("permute_dims", total, back)

    def _centred(self, data: Expr) -> tuple[Expr, Expr]:
        if self.about_zero:
            return data, call("mean", data * data, self.reduced, keepdims=True)
        centred = data - call("mean", data, self.reduced, keepdims=True)
        return centred, call("variance", data, self.reduced, keepdims=True)

    @property
    def _order(self) -> list[int]:
        """The axes of a parameter, in the order in which the data have them."""
        return sorted(range(len(self.along)), key=self.along.__getitem__)

    def _others(self, ndim: int) -> list[int]:
        return [axis for axis in range(ndim) if axis not in self.along]
