"""Loss scaling: gradients that half precision can hold, and steps that leave out what it cannot."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Literal, TypeAlias

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr, Var, const, np_dtype
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType

from .update import HALF, WIDE, Update, cast, unpacked, with_dtype, written_update

LossScale: TypeAlias = Literal["dynamic"] | float

FIRST_SCALE = 2.0**15  # float16 can hold it, the loss may be one
LEAST_SCALE = 1.0
GROWS_AFTER = 2000  # good steps in a row
STATES = 3  # scale, good steps since it changed, steps left out: the first of the state
SKIPPED = 2


def check_loss_scale(loss_scale: LossScale | None) -> None:
    """Raise for what is no way to scale a loss."""
    is_number = isinstance(loss_scale, int | float) and not isinstance(loss_scale, bool)
    if loss_scale in (None, "dynamic") or (is_number and 0 < float(loss_scale) < float("inf")):
        return
    raise ValueError(
        f'`loss_scale` must be "dynamic", a positive number or None, but it is {loss_scale!r}'
    )


def with_loss_scale(
    update: Update, gradient_types: Sequence[TensorType], scale: LossScale
) -> Update:
    """An update that takes the gradients of a scaled loss.

    A step whose gradients are not all finite changes nothing but the scale. With "dynamic", such a
    step halves the scale, and many good ones in a row double it.
    """
    is_dynamic = scale == "dynamic"
    first = FIRST_SCALE if scale == "dynamic" else float(scale)
    own = (np.array(first, WIDE), np.array(0, "int32"), np.array(0, "int32"))
    own_types = tuple(TensorType((), str(array.dtype)) for array in own)
    loss = update.loss

    def write(builder: BlockBuilder, *given: Var) -> tuple[list[Expr], list[Expr]]:
        params, gradients, states = (unpacked(builder, var) for var in given)
        own_states, inner_states = states[:STATES], states[STATES:]
        unscaled = _unscaled(builder, gradients, own_states[0], update.gradient_types)
        finite = builder.emit(_all_finite(unscaled), "finite")
        new_params, new_states = update.emit(builder, params, unscaled, inner_states, loss)
        params_new = _chosen(builder, finite, new_params, params)
        states_new = _chosen(builder, finite, new_states, inner_states)
        return params_new, [*_next_scale(builder, finite, own_states, is_dynamic), *states_new]

    types = update.param_types, gradient_types, (*own_types, *update.state_types)
    function = written_update(types, loss, write)
    owners = (None,) * len(own) + update.owners
    return Update(function, (*own, *update.state), update.names, owners)


def unscaled_type(ty: TensorType) -> TensorType:
    """The type of a gradient once it is divided by the scale, which half precision cannot hold."""
    return with_dtype(ty, WIDE) if ty.dtype in HALF else ty


def _unscaled(
    builder: BlockBuilder, gradients: Sequence[Expr], scale: Expr, wanted: Sequence[TensorType]
) -> list[Expr]:
    """The gradients divided by the scale, in the dtypes that the update takes."""
    found: list[Expr] = []
    for gradient, ty in zip(gradients, wanted, strict=True):
        dtype = _wide_dtype(gradient)
        value = cast(cast(gradient, dtype) / cast(scale, dtype), ty.dtype or WIDE)
        found.append(builder.emit(value, "unscaled"))
    return found


def _wide_dtype(gradient: Expr) -> str:
    assert isinstance(gradient.ty, TensorType)
    return unscaled_type(gradient.ty).dtype or WIDE


def _all_finite(gradients: Sequence[Expr]) -> Expr:
    """Whether no gradient has an infinity or a NaN: the sum of their absolute values tells.

    It is made where it does not become infinite by itself, in the widest of their dtypes.
    """
    dtypes = [_wide_dtype(gradient) for gradient in gradients]
    widest = max(dtypes, key=lambda dtype: np_dtype(dtype).itemsize)
    total, size = get_op("relax.sum"), get_op("relax.abs")
    sums: list[Expr] = [
        cast(total(size(cast(gradient, dtype))), widest)
        for gradient, dtype in zip(gradients, dtypes, strict=True)
    ]
    return get_op("relax.isfinite")(reduce(add, sums))


def _chosen(
    builder: BlockBuilder, condition: Expr, new: Sequence[Expr], old: Sequence[Expr]
) -> list[Expr]:
    where = get_op("relax.where")
    return [builder.emit(where(condition, a, b)) for a, b in zip(new, old, strict=True)]


def _next_scale(
    builder: BlockBuilder, finite: Expr, states: Sequence[Expr], is_dynamic: bool
) -> list[Expr]:
    """The scale, the good steps since it changed, and the steps left out, after a step."""
    scale, good, skipped = states
    where = get_op("relax.where")
    one, none = const(1, "int32"), const(0, "int32")
    skipped_new = builder.emit(skipped + where(finite, none, one), "skipped_new")
    counted = builder.emit(where(finite, good + one, none), "good_steps")
    if not is_dynamic:
        return [scale, counted, skipped_new]
    grows = builder.emit(get_op("relax.greater_equal")(counted, const(GROWS_AFTER, "int32")))
    smaller = get_op("relax.maximum")(scale * 0.5, const(LEAST_SCALE, WIDE))
    grown = where(grows, scale * 2.0, scale)
    return [
        builder.emit(where(finite, grown, smaller), "scale_new"),
        builder.emit(where(grows, none, counted), "good_steps_new"),
        skipped_new,
    ]
