"""Checking what Gradient and Jvp make of a function, and naming the operator that is at fault."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType, TupleType, Type, is_float
from relaxjax.ir.walk import all_vars
from relaxjax.lowering import to_jax
from relaxjax.lowering.arguments import check_count
from relaxjax.lowering.traits import reachable
from relaxjax.lowering.trial import (
    TOLERANCE,
    all_float,
    as_far_as_jax_can,
    difference,
    inner,
    random_arguments,
    spread_like,
    wide_enough_for,
)
from relaxjax.passes import Gradient, Jvp

from .bisection import faulty_rules


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
    the comparisons without it are made. What disagrees raises a `GradientCheckError`, which names
    each operator whose own rule is wrong at the values that occur.
    """
    if order not in (1, 2):
        raise ValueError(f"`order` must be 1 or 2, found {order}")
    _check_module(mod)
    function = mod[func]
    given = random_arguments(function.params, seed) if args is None else tuple(args)
    check_count(function.params, given, f"`{func}`")
    with wide_enough_for(given):
        check = _Check(mod, func, function, given)
        if not check.places:
            raise ValueError(f"no parameter of `{func}` is of floating-point dtype: nothing moves")
        steps = [check.against_jax, check.against_differences, check.against_tangent]
        problems = [problem for step in steps if (problem := step()) is not None]
        if problems:
            raise GradientCheckError("\n".join([*problems, *faulty_rules(mod, func, given)]))
        problem = check.second_order() if order == 2 else None
        if problem:
            blamed = faulty_rules(check.adjoint, f"{func}_adjoint", check.adjoint_args)
            raise GradientCheckError("\n".join([problem, *blamed]))


def _check_module(mod: object) -> None:
    if not isinstance(mod, IRModule):
        mend = ": write `IRModule.from_expr(function)`" if isinstance(mod, Function) else ""
        raise TypeError(f"`check_gradients` takes an IRModule, found {type(mod).__name__}{mend}")


@dataclass
class _Check:
    """One function at one point: cotangents `u` of its results, a direction `v` of its floats."""

    mod: IRModule
    name: str
    function: Function
    args: tuple[Any, ...]

    @cached_property
    def places(self) -> list[int]:
        """The parameters that can move."""
        return [i for i, param in enumerate(self.function.params) if all_float(param.ty)]

    @cached_property
    def targets(self) -> list[int] | None:
        """The fields of the result that are differentiated; None where it is no written tuple."""
        result = self.function.body.body
        if not isinstance(result, Tuple):
            return None
        return [i for i, field in enumerate(result.fields) if all_float(field.ty)]

    def forward(self, *floats: Any) -> Any:
        """The targets, as a function of the parameters that can move."""
        result = to_jax(self.mod, self.name)(*self.with_floats(floats))
        return result if self.targets is None else [result[index] for index in self.targets]

    def with_floats(self, floats: Sequence[Any]) -> list[Any]:
        given = list(self.args)
        for place, value in zip(self.places, floats, strict=True):
            given[place] = value
        return given

    @cached_property
    def floats(self) -> list[Any]:
        return [self.args[place] for place in self.places]

    @cached_property
    def value(self) -> Any:
        return self.forward(*self.floats)

    @cached_property
    def u(self) -> Any:
        return spread_like(self.value)

    @cached_property
    def v(self) -> Any:
        return spread_like(self.floats, start=1)

    @cached_property
    def adjoint(self) -> IRModule:
        names = [self.function.params[place] for place in self.places]
        index = 0 if self.targets is None else self.targets
        return Gradient(self.name, require_grads=names, target_index=index, cotangent=True)(
            self.mod
        )

    @cached_property
    def adjoint_args(self) -> tuple[Any, ...]:
        return (*self.args, *([self.u] if self.targets is None else self.u))

    @cached_property
    def dtypes(self) -> list[str]:
        """The float dtypes of what moves, and of all that is computed on the way."""
        leaves = jax.tree.leaves((self.floats, self.value))
        functions = (function for _, function in reachable(self.mod, self.name))
        found = [str(leaf.dtype) for leaf in leaves]
        found += [name for f in functions for var in all_vars(f) for name in _dtypes(var.ty)]
        return [name for name in dict.fromkeys(found) if is_float(name)] or ["float32"]

    def by_jax(self, *floats: Any) -> Any:
        _, pullback = jax.vjp(self.forward, *floats)
        return list(pullback(self.u))

    @cached_property
    def gradients(self) -> Any:
        return list(to_jax(self.adjoint, f"{self.name}_adjoint")(*self.adjoint_args)[1])

    def against_jax(self) -> str | None:
        expected = as_far_as_jax_can(lambda: self.by_jax(*self.floats))
        found = expected and difference(self.gradients, expected, dtypes=self.dtypes)
        return found and f"the gradient of `{self.name}` is not that of JAX: {found}"

    def against_differences(self) -> str | None:
        """By central differences; how exact they are depends on the coarsest dtype."""
        epsilon = max(map(_epsilon, self.dtypes))
        step, tolerance = epsilon ** (1 / 3), 100 * epsilon ** (2 / 3)

        def along(distance: float) -> float:
            pairs = zip(self.floats, self.v, strict=True)
            moved = [
                jax.tree.map(lambda x, v: np.asarray(x + distance * v, x.dtype), one, direction)
                for one, direction in pairs
            ]
            return inner(self.forward(*moved), self.u)

        expected = (along(step) - along(-step)) / (2 * step)
        found = inner(self.gradients, self.v)
        scale = max(1.0, abs(expected), abs(inner(self.value, self.u)))
        if abs(found - expected) <= tolerance * scale:
            return None
        return (
            f"the gradient of `{self.name}` is not what finite differences say: along a direction "
            f"it is {found:.6g}, they say {expected:.6g}"
        )

    def against_tangent(self) -> str | None:
        pushed = Jvp(self.name, wrt=[self.function.params[p].name for p in self.places])(self.mod)
        _, tangent = to_jax(pushed, f"{self.name}_jvp")(*self.args, *self.v)
        moved = tangent if self.targets is None else [tangent[index] for index in self.targets]
        expected = as_far_as_jax_can(lambda: jax.jvp(self.forward, self.floats, self.v)[1])
        wrong = None if expected is None else difference(moved, expected, dtypes=self.dtypes)
        if wrong:
            return f"the tangent of `{self.name}` is not that of JAX: {wrong}"
        found, same = inner(self.u, moved), inner(self.gradients, self.v)
        coarsest = max(self.dtypes, key=lambda name: TOLERANCE.get(name, 1))
        wrong = difference(np.asarray(found, coarsest), np.asarray(same, coarsest), least=1)
        return wrong and f"<u, Jv> and <J'u, v> of `{self.name}` are not the same: {wrong}"

    def second_order(self) -> str | None:
        name = f"{self.name}_adjoint"
        wrt = [self.function.params[p].name for p in self.places]
        pushed = Jvp(name, wrt=wrt)(self.adjoint)
        _, tangent = to_jax(pushed, f"{name}_jvp")(*self.adjoint_args, *self.v)
        expected = as_far_as_jax_can(lambda: jax.jvp(self.by_jax, self.floats, self.v)[1])
        wrong = expected and difference(list(tangent[1]), expected, dtypes=self.dtypes)
        return wrong and f"the second derivative of `{self.name}` is not that of JAX: {wrong}"


def _dtypes(ty: Type | None) -> Iterator[str]:
    """The dtypes of the tensors in a value."""
    if isinstance(ty, TupleType):
        for field in ty.fields:
            yield from _dtypes(field)
    elif isinstance(ty, TensorType) and ty.dtype is not None:
        yield ty.dtype


def _epsilon(dtype: str) -> float:
    """The distance from 1 to the next number of a dtype."""
    return float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]  # jax gives it no types
