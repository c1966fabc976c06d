"""Any optimizer with its states kept in 16 or 8 bits between steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from relaxjax.ir.emit_function import emit_function
from relaxjax.ir.expr import Expr, Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops.narrow import BLOCK

from .base import BoundOptimizer, Optimizer, States, Step
from .from_optax import OptaxOptimizer
from .signs import StateSigns

StateDtype: TypeAlias = Literal["bfloat16", "int8"]

_SMALLEST = 4096  # numbers of a parameter whose states are narrow; Dettmers et al. have it so


@dataclass(frozen=True)
class Narrow(Optimizer):
    """Another optimizer, whose states of parameters are narrow between steps.

        optimizer = Narrow(Adam(1e-3))  # 0.5 of the bytes
        optimizer = Narrow(AdamW(1e-3), "int8")  # 0.26 of them

    A step makes the states wide, applies the formula of the other one in the precision that it has,
    and rounds the new states, up or down by chance so that the mean is right: Adam's second moment
    moves by a thousandth a step, which would be lost each time if it were rounded to the nearest.
    The chance is a hash of the number and of a count of the steps, so that a training that goes on
    from a file is the same bit for bit.

    "int8" is that of Dettmers et al. (2022, https://arxiv.org/abs/2110.02861): 8-bit numbers in
    parts of the largest of each 256. States that are proven not to be negative, as second moments
    are, have no sign and do not become zero. An optimizer that divides by others is refused.

    States of parameters with less than `smallest` numbers stay as they are, and so does what is no
    state of a parameter, number for number, such as a count of steps.
    """

    optimizer: Optimizer
    dtype: StateDtype = "bfloat16"
    smallest: int = _SMALLEST

    def __post_init__(self) -> None:
        given: Any = self.optimizer
        if not isinstance(given, Optimizer) or given.is_lazy:
            raise TypeError(
                "Narrow takes an optimizer such as Adam(1e-3), or from_optax(optax.adamw(1e-3)), "
                f"but it was given {self.optimizer!r}; one that is lazy, too, is "
                "Lazy(Narrow(Adam(1e-3)))"
            )
        if self.dtype not in ("bfloat16", "int8"):
            raise ValueError(f'Narrow: `dtype` must be "bfloat16" or "int8", found {self.dtype!r}')
        if isinstance(self.smallest, bool) or not isinstance(self.smallest, int):
            raise TypeError(f"Narrow: `smallest` must be an integer, found {self.smallest!r}")

    @property
    def name(self) -> str:
        return self.optimizer.name

    def init(self, params: Var | Sequence[Var]) -> BoundOptimizer:
        listed = (params,) if isinstance(params, Var) else tuple(params)
        if isinstance(self.optimizer, OptaxOptimizer) and self.optimizer.begins_late(listed):
            raise ValueError(
                f"Narrow cannot be {self.name}: its state begins with the values of the "
                "parameters, which need the precision that they have"
            )
        wide = self.optimizer.init(listed)
        owners = wide.state_owners
        if all(owner is None for owner in owners):
            raise ValueError(
                f"Narrow cannot be {self.name}: it keeps no state of a parameter, such as a "
                "momentum; use it as it is"
            )
        return _Narrowed(self, wide, wide.get_function(), tuple(self._dtypes(wide, owners))).bound()

    def _dtypes(self, wide: BoundOptimizer, owners: Sequence[int | None]) -> list[str | None]:
        """What each state is kept in; None for one that stays as it is."""
        sizes = [_size(param) for param in wide.param_list]
        bits = 16 if self.dtype == "bfloat16" else 8
        chosen: list[str | None] = [
            self.dtype
            if owner is not None and sizes[owner] >= self.smallest and _has_more(state, bits)
            else None
            for owner, state in zip(owners, wide.state, strict=True)
        ]
        return chosen if self.dtype == "bfloat16" else self._with_signs(wide, chosen)

    def _with_signs(self, wide: BoundOptimizer, chosen: list[str | None]) -> list[str | None]:
        """The same with uint8 for what is never negative."""
        signs = StateSigns(wide.get_function(), wide.state)
        states = [n for n, dtype in enumerate(chosen) if dtype is not None]
        faulty = signs.divides_by(states)
        if faulty is not None:
            owner = wide.state_owners[faulty]
            assert owner is not None
            raise ValueError(
                f"Narrow cannot keep {self.name} in int8: it divides by its state of "
                f"`{wide.param_list[owner].name}`, which is not seen to be positive, and 8 bits "
                'may make it zero; use "bfloat16"'
            )
        unsigned = signs.nonnegative.intersection(states)
        return ["uint8" if n in unsigned else dtype for n, dtype in enumerate(chosen)]


@dataclass(frozen=True)
class _Narrowed(Optimizer):
    """A narrow optimizer that knows its parameters, and the function of the wide one.

    The states are those of the wide one in their order, the scales of those in 8 bits, and the
    count of the steps.
    """

    narrow: Narrow
    wide: BoundOptimizer
    function: Function
    dtypes: tuple[str | None, ...]

    def bound(self) -> BoundOptimizer:
        return Optimizer.init(self, self.wide.param_list)

    def init(self, params: Var | Sequence[Var]) -> BoundOptimizer:
        return self.narrow.init(params)

    @property
    def name(self) -> str:
        return self.narrow.name

    def state_names(self, params: tuple[Var, ...]) -> list[str]:
        names = self.wide.state_names
        if not names:
            return []
        scaled = [name for name, dtype in zip(names, self.dtypes, strict=False) if _is_coded(dtype)]
        return [*names, *(f"{name}_scales" for name in scaled), "roundings"]

    def state_owners(self, params: tuple[Var, ...], state: TupleType) -> list[int | None]:
        owners = self.wide.state_owners
        return [*owners, *[None] * (len(state.fields) - len(owners))]

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> States:
        states, scales = list[Any](), list[Any]()
        for array, kept in zip(self.wide.state, self.dtypes, strict=True):
            if _is_coded(kept):
                array, own = _encoded(array, kept)
                scales.append(own)
            elif kept is not None:
                array = np.asarray(array).astype(ml_dtypes.bfloat16)
            states.append(array)
        return (*states, *scales, np.array(0, "int32"))

    def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
        assert isinstance(step.states.ty, TupleType)
        last = len(step.states.ty.fields) - 1
        count = step.emit(step.emit(step.states[last], "roundings") + 1, "roundings_new")
        given = step.params, step.gradients, self._widened(step), step.loss
        count_taken = len(self.function.params)
        result = emit_function(step.builder, self.function, given[:count_taken])
        assert isinstance(result, Tuple)
        params, states = result.fields
        new = [params[index] for index in range(len(step.param_list))]
        return new, [*self._narrowed(step, states, count), count]

    def _widened(self, step: Step) -> list[Expr]:
        """The states in the precision of the formula."""
        decode, scale = get_op("relax.narrow.decode"), len(self.dtypes)
        found: list[Expr] = []
        for index, dtype in enumerate(self.dtypes):
            state: Expr = step.emit(step.states[index], "")
            if _is_coded(dtype):
                state = step.emit(decode(state, step.emit(step.states[scale], "")), "")
                scale += 1
            found.append(self._as(step, state, self.wide.state_type.fields[index]))
        return found

    def _as(self, step: Step, state: Expr, wanted: Any) -> Expr:
        assert isinstance(state.ty, TensorType)
        if state.ty.dtype == wanted.dtype:
            return state
        return step.emit(get_op("relax.astype")(state, wanted.dtype), "")

    def _narrowed(self, step: Step, states: Expr, count: Expr) -> list[Expr]:
        """New states as they are kept, and behind them the scales."""
        found, scales = list[Expr](), list[Expr]()
        for index, dtype in enumerate(self.dtypes):
            state: Expr = step.emit(states[index], "")
            if _is_coded(dtype):
                encode = get_op("relax.narrow.encode")
                pair = step.emit(encode(state, count, signed=dtype == "int8"), "")
                state = step.emit(pair[0], "")
                scales.append(step.emit(pair[1], ""))
            elif dtype is not None:
                state = step.emit(get_op("relax.narrow.round")(state, count), "")
            found.append(state)
        return [*found, *scales]


def _is_coded(dtype: str | None) -> bool:
    return dtype in ("int8", "uint8")


def _has_more(state: Any, bits: int) -> bool:
    """Whether a state is of floats with more bits."""
    dtype = np.asarray(state).dtype
    return bool(jnp.issubdtype(dtype, jnp.floating)) and dtype.itemsize * 8 > bits


def _size(param: Var) -> int:
    assert isinstance(param.ty, TensorType)
    return math.prod(int(dim) for dim in param.ty.dims or () if isinstance(dim, int))


def _encoded(array: Any, dtype: str | None) -> tuple[Any, Any]:
    """The codes and scales of a first state."""
    if not np.any(array):
        return np.zeros(np.shape(array), dtype), np.zeros(-(-np.size(array) // BLOCK), "float32")
    encode = get_op("relax.narrow.encode").lower
    assert encode is not None
    with jax.ensure_compile_time_eval():
        codes, scales = encode(jnp.asarray(array), jnp.int32(0), signed=dtype == "int8")
    return np.asarray(codes), np.asarray(scales)
