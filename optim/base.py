"""What every optimizer shares: hyperparameters first, parameters next, then one Relax function."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, Var, np_dtype
from relaxjax.ir.function import Function
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.node import replace
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType, TupleType, Type, dtype_name, is_float
from relaxjax.ir.walk import used_vars
from relaxjax.ir.wording import a_kind

_CALL_INIT = "Please call init() for the optimizer before"

States: TypeAlias = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class Optimizer:
    """A rule that makes new parameters from parameters, gradients and a state.

    An optimizer holds hyperparameters only. `init(params)` gives a `BoundOptimizer`, which knows
    the parameters too and writes the function. A subclass of your own says two things: its
    `initial_state` and its `update`.
    """

    @property
    def name(self) -> str:
        """The name of the function that the optimizer writes."""
        return type(self).__name__

    @property
    def is_elementwise(self) -> bool:
        """Whether each element of a parameter is updated by itself, by one rule for all of them.

        Parameters of equal layers may be updated as one stack then.
        """
        return False

    @property
    def mixes_dtypes(self) -> bool:
        """Whether parameters may be of several dtypes, each updated in its own."""
        return False

    @property
    def is_lazy(self) -> bool:
        """Whether rows of tables that a batch does not read stay as they are: `Lazy` says so."""
        return False

    def state_names(self, params: tuple[Var, ...]) -> list[str]:
        """Names of the states, where those of other optimizers may have the same types.

        A checkpoint holds them, and is not taken for one of such an optimizer.
        """
        return []

    def state_owners(self, params: tuple[Var, ...], state: TupleType) -> list[int | None]:
        """Which parameter each state is of, number for number, as a momentum is; None for others.

        On many devices such a state is split as its parameter is. Unless an optimizer knows better,
        these are runs of one state for each parameter, of its shape.
        """
        wanted, states = [_type(param).dims for param in params], list(map(_dims, state.fields))
        owners: list[int | None] = []
        while len(owners) < len(states):
            is_run = bool(wanted) and states[len(owners) :][: len(wanted)] == wanted
            owners += range(len(wanted)) if is_run else [None]
        return owners

    def init(self, params: Var | Sequence[Var]) -> "BoundOptimizer":
        """This optimizer for these parameters, with its initial state."""
        listed = (params,) if isinstance(params, Var) else tuple(params)
        dtype = common_dtype(listed, self.mixes_dtypes)
        state = _arrays(self.name, self.initial_state(listed, dtype))
        state_type = self._placed(TupleType(tuple(map(_array_type, state))), listed)
        return BoundOptimizer(self, listed, dtype, state_type, state)

    def _placed(self, state: TupleType, params: tuple[Var, ...]) -> TupleType:
        """The type of the states, each where its parameter lies on a mesh."""
        places = [_type(param).placement for param in params]
        if not any(places):
            return state
        owners = self.state_owners(params, state)
        fields = [
            ty if owner is None else replace(ty, placement=places[owner])
            for ty, owner in zip(state.fields, owners, strict=True)
        ]
        return TupleType(tuple(fields))

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> States:
        """The arrays that the optimizer keeps between steps, before the first one."""
        raise NotImplementedError(f"{self.name} must define `initial_state(params, dtype)`")

    def update(self, step: "Step") -> tuple[list[Expr], list[Expr]]:
        """Emit one step; its result is the new parameters and the new state."""
        raise NotImplementedError(f"{self.name} must define `update(step)`")

    def get_function(self) -> Function:
        """The function of a bound optimizer; this one is not bound yet."""
        raise RuntimeError(f"{_CALL_INIT} calling get_function(): {self._mend}")

    @property
    def state(self) -> States:
        """The state of a bound optimizer; this one is not bound yet."""
        raise RuntimeError(f"{_CALL_INIT} reading its state: {self._mend}")

    @property
    def _mend(self) -> str:
        return f"it gives a new object, so write opt = {self.name}(...).init(params)"


@dataclass(slots=True)
class BoundOptimizer:
    """An optimizer that knows its parameters.

    `state` starts as the initial state. A loop written by hand may keep its running state there,
    `params, opt.state = vm["SGD"](params, gradients, opt.state)`; nothing else reads or writes it.
    """

    optimizer: Optimizer
    param_list: tuple[Var, ...]
    dtype: str
    state_type: TupleType
    state: Any = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the function that the optimizer writes."""
        return self.optimizer.name

    @property
    def state_names(self) -> list[str]:
        """Names of the states, where those of other optimizers may have the same types."""
        return self.optimizer.state_names(self.param_list)

    @property
    def state_owners(self) -> list[int | None]:
        """Which parameter each state is of, number for number; None for others."""
        return self.optimizer.state_owners(self.param_list, self.state_type)

    def init(self, params: Var | Sequence[Var]) -> "BoundOptimizer":
        """The same optimizer for other parameters."""
        return self.optimizer.init(params)

    def get_function(self) -> Function:
        """The function `(params, gradients, optim_states) -> (new params, new optim_states)`.

        One whose update asks for the loss takes it behind these.
        """
        builder = BlockBuilder()
        param_types = TupleType(tuple(_type(param) for param in self.param_list))
        params = Var("params", param_types)
        gradients = Var("gradients", param_types)
        states = Var("optim_states", self.state_type)
        loss = Var("loss", TensorType((), self._loss_dtype))
        step = Step(builder, self.param_list, params, gradients, states, loss)
        with builder.function(self.name, [params, gradients, states, loss]):
            with builder.dataflow():
                new_params, new_states = _pair(self.name, self.optimizer.update(step))
                results = (
                    builder.emit_output(new_params, "params_new"),
                    builder.emit_output(new_states, "optim_states_new"),
                )
                names = [f"parameter `{param.name}`" for param in self.param_list]
                _check_types(self.name, "parameters", params, results[0], names)
                numbers = [f"state {index}" for index in range(len(self.state_type.fields))]
                _check_types(self.name, "states", states, results[1], numbers)
            builder.emit_func_output(results)
        function: Function = builder.get()[self.name]
        asks = loss in used_vars(function.body)
        return function if asks else replace(function, params=function.params[:-1])

    @property
    def _loss_dtype(self) -> str:
        """In what the loss is given: that of the parameters, but no half precision."""
        return "float64" if any(_type(p).dtype == "float64" for p in self.param_list) else "float32"


@dataclass(frozen=True, slots=True)
class Step:
    """One step under construction: where to emit, and what the function takes.

    These are three tuples, and the loss before the step. A function that does not use that does not
    take it.
    """

    builder: BlockBuilder
    param_list: tuple[Var, ...]
    params: Var
    gradients: Var
    states: Var
    loss: Var

    def emit(self, value: Expr, name: str) -> Var:
        """Bind a value to a variable of this name."""
        return self.builder.emit(value, name)

    def parameters(self) -> Iterator[tuple[str, Var, Var]]:
        """Each parameter's name, value and gradient, taken out of their tuples in turn."""
        for index, param in enumerate(self.param_list):
            value = self.emit(self.params[index], param.name)
            yield param.name, value, self.emit(self.gradients[index], f"{param.name}_grad")

    def count(self) -> Var:
        """The first state, the number of steps, and one more."""
        return self.emit(self.emit(self.states[0], "num_steps") + 1, "num_steps_new")

    def decayed(self, name: str, param: Expr, gradient: Expr, weight_decay: float) -> Expr:
        """The gradient with the L2 penalty `weight_decay / 2 * param^2` in it."""
        if not weight_decay:
            return gradient
        return self.emit(weight_decay * param + gradient, f"{name}_grad_new")


def steps_taken() -> np.ndarray[Any, Any]:
    """The step counter before the first step."""
    return np.array(0, "int64")


def zeros_like(param: Var, optimizer: str) -> np.ndarray[Any, Any]:
    """A state array in the shape and dtype of a parameter."""
    ty = _type(param)
    dims = static_dims(ty)
    if dims is None:
        raise ValueError(
            f"the state of {optimizer} takes the shapes of the parameters, but the shape of "
            f"parameter `{param.name}` is not known before a call: its type is {ty}"
        )
    return np.zeros(dims, np_dtype(ty.dtype))


def complement(value: float) -> float:
    """`1 - value` in decimal, so that the complement of 0.9 is 0.1 and not 0.09999999999999998."""
    return float(Decimal(1) - Decimal(str(value)))


def _pair(optimizer: str, updated: Any) -> Sequence[Any]:
    if isinstance(updated, tuple) and len(updated) == 2:
        return updated
    raise TypeError(
        f"`update` of {optimizer} must return a pair, the list of the new parameters and that of "
        f"the new states, but it returned {updated!r}"
    )


def _check_types(optimizer: str, what: str, old: Var, new: Var, names: Sequence[str]) -> None:
    """Raise where what a step gives could not be what the next one takes."""
    assert isinstance(old.ty, TupleType)
    fields = new.ty.fields if isinstance(new.ty, TupleType) else ()
    if len(fields) != len(names):
        raise ValueError(
            f"`update` of {optimizer} must give as many {what} as there are, {len(names)}, but it "
            f"gives {len(fields)}"
        )
    for name, before, after in zip(names, old.ty.fields, fields, strict=True):
        if fits(after, before) is Fit.NEVER:
            raise ValueError(
                f"`update` of {optimizer} takes {name} as {before} and gives it back as {after}: a "
                "step must leave types as they are, and its results in the order of what it takes"
            )


def _arrays(optimizer: str, state: Any) -> States:
    if isinstance(state, tuple | list):
        return tuple(np.asarray(array) for array in state)
    raise TypeError(
        f"`initial_state` of {optimizer} must return a tuple of arrays, but it returned "
        f"{a_kind(state)}"
    )


def common_dtype(params: tuple[Var, ...], may_mix: bool = False) -> str:
    """The one floating-point dtype of the parameters, which are checked on the way.

    Where they may be of several, it is the first one's.
    """
    if not params:
        raise ValueError("an optimizer needs at least one parameter")
    dtype = None
    seen: set[Var] = set()
    for param in params:
        if not isinstance(param, Var):
            raise ValueError(f"Parameter {param} is not a Var")
        found = _type(param).dtype
        if not is_float(found):
            raise ValueError(
                f"Optimizers only support Tensor parameters of floating point dtype, but dtype "
                f"of {param.name} is {found}"
            )
        dtype = dtype or found
        if dtype != found and not may_mix:
            raise ValueError(
                f"All parameters should have the same dtype, but parameter {param.name} has "
                f"dtype {found}, which differs from the previous dtype {dtype}: cast it, or take "
                "an optimizer of optax, which updates each in its own"
            )
        if param in seen:
            raise ValueError(f"Parameter {param.name} appears more than once")
        seen.add(param)
    assert dtype is not None
    return dtype


def _type(param: Var) -> TensorType:
    if not isinstance(param.ty, TensorType):
        raise ValueError(
            f"Optimizers only support Tensor parameters, but parameter {param.name} has "
            f"type {param.ty}"
        )
    return param.ty


def _dims(ty: Type) -> tuple[Dim, ...] | None:
    return ty.dims if isinstance(ty, TensorType) else None


def _array_type(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(array.shape, dtype_name(array.dtype))
