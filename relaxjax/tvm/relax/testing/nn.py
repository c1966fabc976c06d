"""Building workloads on the builder that is open: values, checkpoints, and modules of layers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType
from relaxjax.ops.checkpointing import emit_checkpoint as emit_checkpoint
from relaxjax.ops.checkpointing import emit_checkpoint_sequential as emit_checkpoint_sequential
from relaxjax.tvm.nd import NDArray, array


def emit(expr: Expr, name_hint: str = "") -> Var:
    """Bind a value to a new variable."""
    return BlockBuilder.current().emit(expr, name_hint)


def start_checkpoint(input: Expr) -> Expr:
    """Mark where a segment begins whose values the backward program computes again."""
    return get_op("relax.grad.start_checkpoint")(input)


def end_checkpoint(input: Expr) -> Expr:
    """Mark where a segment ends whose values the backward program computes again."""
    return get_op("relax.grad.end_checkpoint")(input)


def checkpoint(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`func(*args, **kwargs)` between marks, as an expression or a list of them."""
    given = [_marked(arg, start_checkpoint) for arg in args]
    named = {name: _marked(arg, start_checkpoint) for name, arg in kwargs.items()}
    result = func(*given, **named)
    if isinstance(result, list | tuple):
        return [_marked(item, end_checkpoint) for item in result]
    if not isinstance(result, Expr):
        raise TypeError(
            "what stands between checkpoints must give an expression, or several, but it gives "
            f"{result!r}"
        )
    return end_checkpoint(result)


def _marked(value: Any, mark: Callable[[Expr], Expr]) -> Any:
    return mark(value) if isinstance(value, Expr) else value


def Placeholder(shape: Sequence[Dim], dtype: str = "float32", name: str = "data") -> Var:
    """A variable for an input of a model."""
    return _named_apart(shape, dtype, name)


def Parameter(shape: Sequence[Dim], dtype: str = "float32", name: str = "param") -> Var:
    """A variable for a weight of a model."""
    return _named_apart(shape, dtype, name)


def _named_apart(shape: Sequence[Dim], dtype: str, name: str) -> Var:
    """A variable of a name that the builder which is open has not given yet."""
    if not isinstance(shape, list | tuple):
        raise TypeError(f"the shape is a list or a tuple, found {shape!r}")
    with suppress(ValueError):  # no builder is open
        name = BlockBuilder.current().get_unique_name(name)
    return Var(name, TensorType(tuple(shape), dtype))


class Module:
    """The base of layers: a subclass makes its parameters, and defines `forward`.

    Its parameters are the variables among its attributes, and those of the modules there.
    """

    def parameters(self) -> list[Var]:
        """The parameters, in the order in which the attributes were set."""
        return list(_parameters(vars(self)))

    def forward(self, input: Expr) -> Var:
        raise NotImplementedError(f"{type(self).__name__} must define `forward`")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)


def _parameters(value: Any) -> Iterator[Var]:
    if isinstance(value, Var):
        yield value
    elif isinstance(value, Module):
        yield from value.parameters()
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _parameters(item)


class Sequential(Module):
    """Modules one after the other."""

    def __init__(self, *modules: Module) -> None:
        self.modules = modules

    def forward(self, input: Any) -> Any:
        for module in self.modules:
            input = module(input)
        return input


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, input: Expr) -> Var:
        return emit(get_op("relax.nn.relu")(input))


class LogSoftmax(Module):
    """The logarithm of softmax, over the last axis."""

    def forward(self, input: Expr) -> Var:
        return emit(get_op("relax.nn.log_softmax")(input))


class Linear(Module):
    """x A + b."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, input: Expr) -> Var:
        product = emit(get_op("relax.matmul")(input, self.weight))
        return product if self.bias is None else emit(get_op("relax.add")(product, self.bias))


def init_params(mod: IRModule) -> list[NDArray]:
    """Zeros for the parameters of `main`: those whose names do not begin with `data`."""
    main: Function = mod["main"]
    params = [param for param in main.params if not param.name.startswith("data")]
    return [array(np.zeros(_known_shape(param), "float32")) for param in params]


def _known_shape(param: Var) -> tuple[int, ...]:
    dims = static_dims(param.ty)
    if dims is None:
        raise TypeError(f"`{param.name}` is of type {param.ty}, whose shape is not known")
    return dims
