"""Losses that are plain functions, of Relax or of JAX."""

import inspect
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.types import Type
from relaxjax.ops.lax import (
    JaxSymbols,
    OwnRule,
    aval_of,
    lost_rule,
    read_jaxpr,
    whole_function,
    x64_for,
)

from .base import Loss


@dataclass(frozen=True)
class RelaxLoss:
    """A Relax function as a loss, for arguments of its own types."""

    function: Function
    num_backbone_outputs: int = 1

    def __call__(self, *args: Var | Type) -> Function:
        """The function itself, if it takes arguments of these types."""
        params = self.function.params
        if len(args) != len(params):
            raise TypeError(
                f"the loss function takes {len(params)} arguments, but {len(args)} were given"
            )
        for param, arg in zip(params, args, strict=True):
            given = arg.ty if isinstance(arg, Var) else arg
            if fits(given, param.ty) is Fit.NEVER:
                raise TypeError(
                    f"the loss function takes `{param.name}` of type {param.ty}, but it is to be "
                    f"used with {given}"
                )
        return self.function


@dataclass(frozen=True)
class JaxLoss(Loss):
    """A JAX function of arrays as a loss; it gives a scalar and is traced for each set of types.

    `own_rule` says what becomes of functions with derivatives of their own, as for `read_jaxpr`.
    Alone, a loss can have them only from JAX; SetupTrainer gives it a place for all.
    """

    function: Callable[..., Any] = field(kw_only=True)
    own_rule: OwnRule = field(kw_only=True, default=whole_function)

    def with_own_rule(self, own_rule: OwnRule) -> "JaxLoss":
        """The loss for a module that has a place for what `own_rule` makes of its functions."""
        return replace(self, own_rule=own_rule)

    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def build(self, builder: BlockBuilder, *params: Any, **named: Any) -> Expr:
        symbols = JaxSymbols()
        avals = [aval_of(param.ty, symbols) for param in named.values()]
        for param, aval in zip(named.values(), avals, strict=True):
            if aval is None:
                raise TypeError(
                    f"the JAX function `{self.loss_name}` is traced, so the shape and dtype of "
                    f"`{param.name}` must be known, but it is of type {param.ty}"
                )

        def run(*arrays: Any) -> Any:
            arguments = OrderedDict(zip(named, arrays, strict=True))
            bound = inspect.BoundArguments(self.signature(), arguments)
            return self.function(*bound.args, **bound.kwargs)

        with x64_for(*(param.ty for param in named.values())):
            traced = jax.make_jaxpr(run)(*avals)
        lost = lost_rule(traced) if self.own_rule is whole_function else None
        if lost is not None:
            raise TypeError(
                f"the JAX function `{self.loss_name}`: a rule by {lost} in it would be lost in one "
                "function. Give the loss itself to SetupTrainer, which keeps it, or use a function "
                "without it, which for jax.custom_vjp is its attribute `fun`"
            )
        shapes = [var.aval.shape for var in traced.jaxpr.outvars]
        if shapes != [()]:
            raise TypeError(
                f"the JAX function `{self.loss_name}` must give one scalar, but it gives arrays of "
                f"shapes {', '.join(map(str, shapes)) or 'none'}"
            )
        arrays = list(named.values())
        return read_jaxpr(traced, arrays, builder, symbols=symbols, own_rule=self.own_rule)[0]


def from_relax(function: Function, num_backbone_outputs: int = 1) -> RelaxLoss:
    """A Relax function as a loss; its first parameters are outputs of the model."""
    if not isinstance(function, Function):
        raise TypeError(
            f"from_relax takes a Relax function, but it was given {type(function).__name__}; "
            "from_jax takes a Python function of JAX arrays"
        )
    return RelaxLoss(function, num_backbone_outputs)


def from_jax(
    function: Callable[..., Any], num_backbone_outputs: int = 1, name: str | None = None
) -> JaxLoss:
    """A JAX function as a loss; its first parameters are outputs of the model.

    loss = from_jax(lambda scores, truth: jnp.mean(jnp.abs(scores - truth) ** 1.5))
    """
    found = name or str(getattr(function, "__name__", ""))
    label = found if found.isidentifier() else "loss"
    return JaxLoss(label, num_backbone_outputs, function=function)
