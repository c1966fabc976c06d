"""Losses that are plain functions, of Relax or of JAX."""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.wording import counted
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
                f"the loss function takes {counted(len(params), 'argument')}, "
                f"but {len(args)} were given"
            )
        for param, arg in zip(params, args, strict=True):
            given = arg.ty if isinstance(arg, Var) else arg
            if fits(given, param.ty) is Fit.NEVER:
                raise TypeError(
                    f"the loss function takes `{param.name}` of type {param.ty}, but it is to be "
                    f"used with {given}"
                )
        return self.function

    def target_types(self, outputs: Sequence[TensorType]) -> tuple[Type, ...]:
        """The types of what outputs of a model are compared with: those of the function."""
        params = self.function.params[self.num_backbone_outputs :]
        return tuple(param.ty for param in params if param.ty is not None)


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
        def run(*arrays: Any) -> Any:
            arguments = OrderedDict(zip(named, arrays, strict=True))
            bound = inspect.BoundArguments(self.signature(), arguments)
            return self.function(*bound.args, **bound.kwargs)

        traced, symbols = _traced(run, named, self.loss_name)
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


def expression_of(
    function: Callable[..., Any], given: Mapping[str, Expr], builder: BlockBuilder, name: str
) -> Expr:
    """The one result of a JAX function of arrays, for expressions of these types."""
    traced, symbols = _traced(function, given, name)
    return read_jaxpr(traced, list(given.values()), builder, symbols=symbols)[0]


def _traced(
    function: Callable[..., Any], given: Mapping[str, Expr], name: str
) -> tuple[Any, JaxSymbols]:
    symbols = JaxSymbols()
    avals = [aval_of(one.ty, symbols) for one in given.values()]
    for (key, one), aval in zip(given.items(), avals, strict=True):
        if aval is None:
            raise TypeError(
                f"the JAX function `{name}` is traced, so the shape and dtype of `{key}` must be "
                f"known, but it is of type {one.ty}"
            )
    with x64_for(*(one.ty for one in given.values())):
        return jax.make_jaxpr(function)(*avals), symbols


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
