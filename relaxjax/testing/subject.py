"""A function at a point: what of it can move, and the cotangents and directions to try it with."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.tuples import fields_or_self
from relaxjax.lowering import to_jax
from relaxjax.lowering.arguments import Symbols, bind, check_count
from relaxjax.lowering.trial import all_float, random_arguments, spread_like
from relaxjax.passes import BindSymbolicVars, Gradient


@dataclass
class Subject:
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
        return self.forward_of(floats, self.rest)

    def forward_of(self, floats: Sequence[Any], rest: Sequence[Any]) -> Any:
        """The same, as a function of the other parameters too."""
        moving, still = iter(floats), iter(rest)
        count = len(self.args)
        given = [next(moving if place in self.places else still) for place in range(count)]
        return self.chosen(to_jax(self.mod, self.name)(*given))

    @cached_property
    def rest(self) -> list[Any]:
        """The arguments that cannot move."""
        return [arg for place, arg in enumerate(self.args) if place not in self.places]

    def chosen(self, result: Any) -> Any:
        """The targets in a result."""
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
        return spread_like(jax.eval_shape(self.forward, *self.floats))

    @cached_property
    def v(self) -> Any:
        return spread_like(self.floats, start=1)

    def only(self, place: int) -> Any:
        """The direction in which one of the parameters moves, and no other."""
        still = jax.tree.map(np.zeros_like, self.v)
        return [self.v[i] if i == place else still[i] for i in range(len(self.v))]

    @cached_property
    def adjoint(self) -> IRModule:
        names = [self.function.params[place] for place in self.places]
        index = 0 if self.targets is None else self.targets
        return Gradient(self.name, require_grads=names, target_index=index, cotangent=True)(
            self.mod
        )

    @cached_property
    def sized(self) -> "Subject":
        """The same with the sizes of its arguments in the place of symbolic dimensions."""
        symbols = Symbols()
        bind(self.function.params, self.args, symbols, self.name)
        if not symbols.values:
            return self
        mod = BindSymbolicVars(symbols.values, self.name)(self.mod)
        sized = Subject(mod, self.name, mod[self.name], self.args)
        sized.u = self.u
        return sized

    @property
    def adjoint_name(self) -> str:
        return f"{self.name}_adjoint"

    @cached_property
    def adjoint_args(self) -> tuple[Any, ...]:
        return (*self.args, *([self.u] if self.targets is None else self.u))


def arguments_for(
    check: str, mod: object, func: str, args: Sequence[Any] | None, seed: int
) -> tuple[Any, ...]:
    """The arguments to try a function at, made up where none are given. `check` is who asks."""
    function = check_module(mod, f"`{check}`")[func]
    params, result = function.params, function.body.body
    given = random_arguments(params, seed) if args is None else tuple(args)
    check_count(params, given, f"`{func}`")
    if not any(all_float(param.ty) for param in params):
        raise ValueError(f"no parameter of `{func}` is of floating-point dtype: nothing moves")
    parts = fields_or_self(result)
    if not any(all_float(part.ty) for part in parts):
        raise ValueError(f"nothing that `{func}` returns is of floating-point dtype")
    return given
