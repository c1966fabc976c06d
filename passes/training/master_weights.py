"""Parameters of half precision whose updates are too small for them: masters in float32."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType, Type

from .update import HALF, WIDE, Update, cast, tensor_type, unpacked, with_dtype, written_update


def needs_masters(params: Sequence[Var]) -> bool:
    """Whether some parameters are of half precision."""
    return any(_is_half(param.ty) for param in params)


def masters(params: Sequence[Var]) -> list[Var]:
    """The parameters as the optimizer is made for them: float32 instead of half precision."""
    return [Var(p.name, with_dtype(_known(p), WIDE)) if _is_half(p.ty) else p for p in params]


def states_of_masters(params: Sequence[Var]) -> tuple[np.ndarray[Any, Any], ...]:
    """The masters as a state starts with them; the first step takes them from the parameters."""
    types = [tensor_type(param) for param in params]
    return tuple(np.zeros(_shape(ty), WIDE) for ty in types if _is_half(ty))


def owners_of_masters(params: Sequence[Var]) -> tuple[int | None, ...]:
    """The numbers of the parameters that have masters."""
    return tuple(number for number, param in enumerate(params) if _is_half(param.ty))


def with_master_weights(
    update: Update, params: Sequence[Var], gradient_types: Sequence[TensorType]
) -> Update:
    """An update of parameters of half precision by one of their float32 masters.

    The masters come first in its state. Where a parameter is not what its master rounds to, as in
    the first step or after values were loaded, the master starts from the parameter.
    """
    types = [tensor_type(param) for param in params]
    halves = [ty for ty in types if _is_half(ty)]
    zeros = states_of_masters(params)
    master_types = [with_dtype(ty, WIDE) for ty in halves]
    names, loss = [param.name for param in params], update.loss

    def write(builder: BlockBuilder, *given: Var) -> tuple[list[Expr], list[Expr]]:
        values = unpacked(builder, given[0], names)
        gradients = unpacked(builder, given[1], [f"{name}_grad" for name in names])
        states = unpacked(builder, given[2])
        stored = iter(states[: len(halves)])
        current = [_current(builder, value, stored) for value in values]
        pairs = zip(gradients, current, strict=True)
        wide = [cast(gradient, _dtype(value.ty)) for gradient, value in pairs]
        new, new_states = update.emit(builder, current, wide, states[len(halves) :], loss)
        rounded = [cast(value, _dtype(ty)) for value, ty in zip(new, types, strict=True)]
        kept = [value for value, ty in zip(new, types, strict=True) if _is_half(ty)]
        return rounded, [*kept, *new_states]

    state_types = (*master_types, *update.state_types)
    function = written_update((types, gradient_types, state_types), loss, write)
    owners = (*owners_of_masters(params), *update.owners)
    return Update(function, (*zeros, *update.state), update.names, owners)


def _current(builder: BlockBuilder, param: Expr, stored: Iterator[Expr]) -> Expr:
    """The master of a parameter, or the parameter in its precision where that was changed."""
    if not _is_half(param.ty):
        return param
    master = next(stored)
    is_its_own = get_op("relax.equal")(cast(master, _dtype(param.ty)), param)
    return builder.emit(get_op("relax.where")(is_its_own, master, cast(param, WIDE)), "master")


def _is_half(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) and ty.dtype in HALF


def _dtype(ty: Type | None) -> str:
    assert isinstance(ty, TensorType)
    return ty.dtype or WIDE


def _known(param: Var) -> TensorType:
    ty = tensor_type(param)
    if static_dims(ty) is not None:
        return ty
    raise ValueError(
        f"a float32 master needs the shape of its parameter, but `{param.name}` is of type {ty}: "
        "give SetupTrainer master_weights=False to update parameters in their own precision"
    )


def _shape(ty: TensorType) -> tuple[int, ...]:
    return tuple(int(dim) for dim in ty.dims or () if isinstance(dim, int))
