"""Checking what Gradient and Jvp make of a function, and naming the operator that is at fault."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from relaxjax.ir.module import IRModule
from relaxjax.ir.tuples import tensors_in
from relaxjax.ir.types import is_float
from relaxjax.ir.walk import all_vars
from relaxjax.lowering import to_jax
from relaxjax.lowering.traits import reachable
from relaxjax.lowering.trial import (
    TOLERANCE,
    apart_from_jax,
    as_far_as_jax_can,
    derivative_difference,
    difference,
    epsilon_of,
    inner,
    inner_size,
    wide_enough_for,
)
from relaxjax.passes import Jvp

from .bisection import faulty_rules
from .differences import slope_at_zero
from .subject import Subject, arguments_for

# What is estimated of the error of a slope may be too little.
_ERRORS = 10


class GradientCheckError(AssertionError):
    """A derivative is wrong; the message says which, by how much, and whose rule is at fault."""


def check_gradients(
    mod: IRModule,
    func: str = "main",
    args: Sequence[Any] | None = None,
    order: int = 2,
    seed: int = 0,
) -> None:
    """Check the derivatives of a function at `args`, or at random arguments.

    Its gradient, as `Gradient` writes it, must agree with `jax.vjp` of the function and, along a
    direction, with finite differences; its tangent, as `Jvp` writes it, with the gradient: the
    inner products <u, Jv> and <J'u, v> are the same. With `order=2` the tangent of the gradient
    must agree with JAX's too. Where JAX has no derivative, as backwards through `while_loop`, only
    the comparisons without it are made, with differences for each gradient. Each gradient is
    compared on its own scale, as exactly as its dtype rounds. What disagrees raises a
    `GradientCheckError`, which names each operator whose own rule is wrong at the values that
    occur.
    """
    if order not in (1, 2):
        raise ValueError(f"`order` must be 1 or 2, found {order}")
    given = arguments_for("check_gradients", mod, func, args, seed)
    with wide_enough_for(given):
        check = _Check(mod, func, mod[func], given)
        steps = [check.against_jax, check.against_differences, check.against_tangent]
        problems = [problem for step in steps if (problem := step()) is not None]
        if problems:
            raise GradientCheckError("\n".join([*problems, *faulty_rules(mod, func, given)]))
        problem = check.second_order() if order == 2 else None
        if problem:
            blamed = faulty_rules(check.adjoint, f"{func}_adjoint", check.adjoint_args)
            raise GradientCheckError("\n".join([problem, *blamed]))


@dataclass
class _Check(Subject):
    """The comparisons, each of which gives what is wrong, or None."""

    @cached_property
    def dtypes(self) -> list[str]:
        """The float dtypes of what moves, and of all that is computed on the way."""
        leaves = jax.tree.leaves((self.floats, self.value))
        functions = (function for _, function in reachable(self.mod, self.name))
        found = [str(leaf.dtype) for leaf in leaves]
        types = (ty for f in functions for var in all_vars(f) for _, ty in tensors_in(var.ty))
        found += [ty.dtype for ty in types if ty.dtype is not None]
        return [name for name in dict.fromkeys(found) if is_float(name)] or ["float32"]

    def pulled(self, floats: Any, u: Any) -> Any:
        _, pullback = jax.vjp(self.forward, *floats)
        return list(pullback(u))

    def pushed(self, floats: Any, v: Any) -> Any:
        return jax.jvp(self.forward, floats, v)[1]

    def pushed_and_pulled(self, floats: Any, u: Any, v: Any) -> Any:
        return jax.jvp(lambda *moved: self.pulled(moved, u), floats, v)[1]

    @cached_property
    def gradients(self) -> Any:
        return list(to_jax(self.adjoint, f"{self.name}_adjoint")(*self.adjoint_args)[1])

    @cached_property
    def by_jax(self) -> Any:
        """The gradients as JAX has them; None where it has none."""
        return as_far_as_jax_can(lambda: self.pulled(self.floats, self.u))

    def against_jax(self) -> str | None:
        if self.by_jax is None:
            return None
        at = self.floats, self.u
        found = derivative_difference(self.gradients, self.by_jax, self.pulled, at, self.dtypes)
        return found and f"the gradient of `{self.name}` is not that of JAX: {found}"

    def against_differences(self) -> str | None:
        """Along one direction, or along one for each gradient where JAX has none to compare."""
        directions = [self.v]
        if self.by_jax is None:
            directions = [self.only(place) for place in range(len(self.places))]
        return next(filter(None, map(self.against_slope, directions)), None)

    def against_slope(self, direction: Any) -> str | None:
        def along(distance: float) -> float:
            moved = [
                jax.tree.map(lambda x, v: np.asarray(x + distance * v, x.dtype), one, v)
                for one, v in zip(self.floats, direction, strict=True)
            ]
            return inner(self.forward(*moved), self.u)

        epsilon = max(map(epsilon_of, self.dtypes))
        size = inner_size(self.value, self.u)
        slope = slope_at_zero(along, epsilon, size, self.tolerance / _ERRORS)
        found = inner(self.gradients, direction)
        rounded = self.tolerance * inner_size(self.gradients, direction)
        if abs(found - slope.value) <= _ERRORS * slope.error + rounded:
            return None
        return (
            f"the gradient of `{self.name}` is not what finite differences say: along a direction "
            f"it is {found:.6g}, they say {slope.value:.6g}"
        )

    @cached_property
    def tolerance(self) -> float:
        return max(TOLERANCE.get(name, 1e-1) for name in self.dtypes)

    def against_tangent(self) -> str | None:
        pushed = Jvp(self.name, wrt=[self.function.params[p].name for p in self.places])(self.mod)
        _, tangent = to_jax(pushed, f"{self.name}_jvp")(*self.args, *self.v)
        moved = tangent if self.targets is None else [tangent[index] for index in self.targets]
        wrong = apart_from_jax(moved, self.pushed, (self.floats, self.v), self.dtypes)
        if wrong:
            return f"the tangent of `{self.name}` is not that of JAX: {wrong}"
        found, same = inner(self.u, moved), inner(self.gradients, self.v)
        size = max(inner_size(self.u, moved), inner_size(self.gradients, self.v))
        coarsest = max(self.dtypes, key=lambda name: TOLERANCE.get(name, 1))
        wrong = difference(np.asarray(found, coarsest), np.asarray(same, coarsest), least=size)
        return wrong and f"<u, Jv> and <J'u, v> of `{self.name}` are not the same: {wrong}"

    def second_order(self) -> str | None:
        name = f"{self.name}_adjoint"
        wrt = [self.function.params[p].name for p in self.places]
        pushed = Jvp(name, wrt=wrt)(self.adjoint)
        _, tangent = to_jax(pushed, f"{name}_jvp")(*self.adjoint_args, *self.v)
        at = self.floats, self.u, self.v
        wrong = apart_from_jax(list(tangent[1]), self.pushed_and_pulled, at, self.dtypes)
        return wrong and f"the second derivative of `{self.name}` is not that of JAX: {wrong}"
