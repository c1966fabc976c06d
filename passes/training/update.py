"""The update of parameters: an optimizer's function, and the state that it starts with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.emit_function import emit_function
from relaxjax.ir.expr import Expr, Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.trainable.names import OPTIMIZER

HALF = ("float16", "bfloat16")
WIDE = "float32"


@dataclass(frozen=True)
class Update:
    """A function `(params, gradients, optim_states) -> (new params, new optim_states)`.

    One that asks for the loss takes it behind these.

    `names` tell the optimizer's own states from those of others, where their types do not.
    `owners` are the parameters, by their numbers, that states are of, number for number.
    """

    function: Function
    state: tuple[Any, ...]
    names: tuple[str, ...] = ()
    owners: tuple[int | None, ...] = ()

    @property
    def param_types(self) -> tuple[TensorType, ...]:
        return _fields(self.function.params[0])

    @property
    def gradient_types(self) -> tuple[TensorType, ...]:
        return _fields(self.function.params[1])

    @property
    def state_types(self) -> tuple[TensorType, ...]:
        return _fields(self.function.params[2])

    @property
    def loss(self) -> list[Var]:
        """The loss as a parameter of a function around this one; none where it does not ask."""
        return loss_of(self.function)

    def emit(
        self,
        builder: BlockBuilder,
        params: Sequence[Expr],
        gradients: Sequence[Expr],
        states: Sequence[Expr],
        loss: Sequence[Var],
    ) -> tuple[list[Expr], list[Expr]]:
        """Write the body of the function for these values; its new parameters and states."""
        result = emit_function(builder, self.function, (params, gradients, states, *loss))
        assert isinstance(result, Tuple)
        new_params, new_states = result.fields
        return unpacked(builder, new_params), unpacked(builder, new_states)


def written_update(
    types: tuple[Sequence[Type], Sequence[Type], Sequence[Type]],
    loss: Sequence[Var],
    write: Callable[[BlockBuilder, Var, Var, Var], tuple[Sequence[Expr], Sequence[Expr]]],
) -> Function:
    """A function `(params, gradients, optim_states) -> (new params, new optim_states)`.

    `types` are those in the three tuples. `write` emits the body for these, and gives what is new.
    """
    names = ("params", "gradients", "optim_states")
    tuples = [Var(name, TupleType(tuple(given))) for name, given in zip(names, types, strict=True)]
    builder = BlockBuilder()
    with builder.function(OPTIMIZER, [*tuples, *loss]):
        with builder.dataflow():
            new_params, new_states = write(builder, *tuples)
            results = (
                builder.emit_output(new_params, "params_new"),
                builder.emit_output(new_states, "optim_states_new"),
            )
        builder.emit_func_output(results)
    return function_of(builder)


def loss_of(optimizer: Function) -> list[Var]:
    """A new variable for the loss, if the function of an optimizer takes that behind its tuples."""
    return [Var(param.name, param.ty) for param in optimizer.params[3:]]


def unpacked(builder: BlockBuilder, value: Expr, names: Sequence[str] = ()) -> list[Expr]:
    """The fields of a tuple, each bound to a variable."""
    assert isinstance(value.ty, TupleType)
    hints = names or [""] * len(value.ty.fields)
    return [builder.emit(value[index], hint) for index, hint in enumerate(hints)]


def function_of(builder: BlockBuilder) -> Function:
    """The function of an optimizer that was built."""
    function: Function = builder.get()[OPTIMIZER]
    return function


def cast(value: Expr, dtype: str) -> Expr:
    """`value` in another dtype, or as it is if it has that one."""
    return value if tensor_type(value).dtype == dtype else get_op("relax.astype")(value, dtype)


def tensor_type(value: Expr) -> TensorType:
    assert isinstance(value.ty, TensorType)
    return value.ty


def with_dtype(ty: TensorType, dtype: str) -> TensorType:
    return TensorType(ty.shape, dtype, ndim=ty.ndim, placement=ty.placement)


def _fields(param: Var) -> tuple[TensorType, ...]:
    assert isinstance(param.ty, TupleType)
    fields = [ty for ty in param.ty.fields if isinstance(ty, TensorType)]
    assert len(fields) == len(param.ty.fields)
    return tuple(fields)
