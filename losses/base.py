"""What every loss shares: a reduction, and one Relax function made for given types."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from numbers import Real
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.tensor_types import known_dtype, known_ndim
from relaxjax.ir.types import TensorType, Type, is_float
from relaxjax.ir.wording import quoted
from relaxjax.ops.creation import ones_like
from relaxjax.ops.declare import OpError
from relaxjax.ops.emit import call, dtype_of, narrow, wide
from relaxjax.ops.statistical import mean, sum

_NONE = inspect.Parameter.empty
Reduction: TypeAlias = Literal["mean", "sum", "none"]


@dataclass(frozen=True)
class Loss:
    """A loss: called with the types of its arguments, it gives its Relax function for them.

    The first `num_backbone_outputs` arguments are outputs of the model, the others come from
    outside. A loss of your own defines `build`, whose parameters name those of the function:

        class HuberLoss(Loss):
            def __init__(self, reduction="mean"):
                super().__init__("huber_loss", 1, reduction)

            def build(self, builder, predictions, targets):
                ...
                return self.reduce(losses)

    One that `compares_classes` takes ids or shares of classes for its first target, and its "mean"
    is that over the targets which are not ignored. A training measures accuracy then where nothing
    is said, and refuses batches of which no target counts. An argument that is called `weights`
    weighs the mean, as `reduce` does, and so it weighs the losses of batches in an evaluation. One
    that `takes` "probabilities" or "log-probabilities" is not for models that give other scores,
    which a training refuses.
    """

    compares_classes: ClassVar[bool] = False
    takes: ClassVar[str | None] = None

    loss_name: str
    num_backbone_outputs: int = 1
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        given: Any = self.reduction  # whatever the caller's annotations say
        if not isinstance(given, str) or given not in get_args(Reduction):
            known = ", ".join(f'"{name}"' for name in get_args(Reduction))
            raise ValueError(f"`reduction` must be one of {known}, but it is {self.reduction!r}")
        outputs: Any = self.num_backbone_outputs
        if not isinstance(outputs, int) or isinstance(outputs, bool) or outputs < 1:
            raise ValueError(
                f"`num_backbone_outputs` of {type(self).__name__} must be an integer of at least "
                f'1, but it is {outputs!r}: give a reduction by its name, as by reduction="sum"'
            )

    def _set_number(
        self, name: str, above: float | None = None, least: float | None = None
    ) -> None:
        """Keep an option as Python's number. What is none, or is too small, is an error."""
        given: Any = getattr(self, name)
        wanted = "a number"
        if above is not None or least is not None:
            wanted += f" above {above:g}" if least is None else f" of at least {least:g}"
        number = float(given) if not isinstance(given, bool) and isinstance(given, Real) else nan
        low = (above is not None and number <= above) or (least is not None and number < least)
        if isnan(number) or low:
            raise ValueError(f"`{name}` must be {wanted}, but it is {given!r}")
        object.__setattr__(self, name, number)

    def __call__(self, *args: Var | Type, **named: Var | Type) -> Function:
        """The function of this loss for arguments of these types.

        A variable stands for its type, and gives its name to the parameter.
        """
        if not hasattr(self, "loss_name"):
            raise TypeError(
                f"{type(self).__name__} has no name yet: its `__init__` must call "
                'super().__init__("name_of_the_loss")'
            )
        params = self._params(args, named)
        try:
            return self._function(params)
        except OpError as error:
            given = ", ".join(f"`{name}` of type {param.ty}" for name, param in params.items())
            error.add_note(f"in {type(self).__name__} for {given}")
            raise

    def _function(self, params: dict[str, Var]) -> Function:
        builder = BlockBuilder()
        with builder.function(self.loss_name, list(params.values())):
            with builder.dataflow():
                loss = builder.emit_output(self.build(builder, **params))
            builder.emit_func_output(loss)
        function: Function = builder.get()[self.loss_name]
        return function

    def build(self, builder: BlockBuilder, *params: Any, **named: Any) -> Expr:
        """The loss as an expression; what it uses more than once it emits with `builder`."""
        raise NotImplementedError(
            f"{type(self).__name__} must define `build(builder, predictions, targets)`"
        )

    def reduce(self, losses: Expr, weights: Expr | None = None) -> Expr:
        """The losses of single elements as one number, or as they are for "none".

        With weights, which broadcast to the losses, "mean" is the weighted mean.
        """
        if weights is not None:
            check_stretch(self.loss_name, "the losses", losses, "the weights", weights)
            weights = ones_like(losses) * weights
            losses = losses * weights
        match self.reduction:
            case "mean" if weights is not None:
                return weighted_mean(losses, weights)
            case "mean":
                return mean(losses)
            case "sum":
                return sum(losses)
            case _:
                return losses

    def signature(self) -> inspect.Signature:
        """The arguments of the loss, which name the parameters of its function."""
        signature = inspect.signature(self.build)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    def target_types(self, outputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types of what outputs of a model are compared with, where nothing else is said.

        Class ids where the loss compares classes, and else a tensor like the first output.
        """
        needed = [name for name, one in self.signature().parameters.items() if one.default is _NONE]
        targets = needed[self.num_backbone_outputs :]
        if len(targets) > 1:
            listed = quoted(targets)
            raise TypeError(f"{type(self).__name__} compares with {listed}: give the types of all")
        if not targets:
            return ()
        output = outputs[0]
        if not self.compares_classes or output.dims is None:
            return (output,)
        axis = 1 if output.ndim > 1 else 0
        return (TensorType((*output.dims[:axis], *output.dims[axis + 1 :]), "int64"),)

    def _params(self, args: tuple[Var | Type, ...], named: dict[str, Var | Type]) -> dict[str, Var]:
        kind = type(self).__name__
        signature = self.signature()
        names = list(signature.parameters)
        try:
            given = signature.bind(*args, **named).arguments
        except TypeError as error:
            raise TypeError(
                f"{kind}({', '.join(names)}): {error}; give the type of each, those of the model's "
                "outputs first"
            ) from None
        given = {name: given[name] for name in names if given.get(name) is not None}
        return {name: new_param(kind, name, value) for name, value in given.items()}


@dataclass(frozen=True)
class PointwiseLoss(Loss):
    """A loss that compares predictions with targets of their shape; it defines `losses`."""

    num_backbone_outputs: int = field(default=1, init=False)

    def build(
        self, builder: BlockBuilder, predictions: Var, targets: Var, weights: Var | None = None
    ) -> Expr:
        check_targets(self.loss_name, "`predictions`", predictions, targets)
        return self.reduce(self.losses(builder, predictions, targets), weights)

    def losses(self, builder: BlockBuilder, predictions: Var, targets: Var) -> Expr:
        """The losses of single elements, or of single samples."""
        raise NotImplementedError


def weighted_mean(losses: Expr, weights: Expr) -> Expr:
    """The sum of weighted losses over that of their weights, which half precision need not hold."""
    if isinstance(losses.ty, TensorType) and losses.ty.dtype is None:
        return sum(losses) / sum(weights)
    return narrow(sum(wide(losses)) / sum(wide(weights)), losses)


def class_axis(scores: Expr) -> int:
    """The axis of the classes: the last of (C,) and (N, C), the second of (N, C, d1, ...)."""
    ndim = known_ndim(scores)
    return 1 if ndim > 2 else -1


def check_targets(loss: str, name: str, values: Expr, targets: Expr) -> None:
    """Raise where the targets have another shape than the values that they are for.

    Broadcasting would compare one target with several values, or the reverse, and a training would
    go on without a word.
    """
    shapes = _dims_of_both(values, targets)
    if shapes is not None and shapes[0] != shapes[1]:
        raise _apart(loss, name, values, "`targets`", targets)


def check_stretch(loss: str, name: str, values: Expr, other_name: str, others: Expr) -> None:
    """Raise where broadcasting would repeat the values, so that each met others than its own."""
    shapes = _dims_of_both(values, others)
    if shapes is None:
        return
    dims, other_dims = shapes
    padded = (1,) * (len(other_dims) - len(dims)) + dims
    aligned = zip(padded[len(padded) - len(other_dims) :], other_dims, strict=True)
    if any(
        other not in (1, dim) and (dim == 1 or _is_known(dim) != _is_known(other))
        for dim, other in aligned
    ):
        raise _apart(loss, name, values, other_name, others)


def _dims_of_both(one: Expr, other: Expr) -> tuple[tuple[Dim, ...], tuple[Dim, ...]] | None:
    """The dimensions of two tensors, where both are known."""
    if not isinstance(one.ty, TensorType) or not isinstance(other.ty, TensorType):
        return None
    dims, other_dims = one.ty.dims, other.ty.dims
    return None if dims is None or other_dims is None else (dims, other_dims)


def _apart(loss: str, name: str, values: Expr, other_name: str, others: Expr) -> TypeError:
    shapes = [one.ty.shape for one in (values, others) if isinstance(one.ty, TensorType)]
    is_one_text = str(shapes[0]) == str(shapes[1])
    by = ", each size by one SymbolicVar: here are two of one name" if is_one_text else ""
    return TypeError(
        f"{loss}: {name} have the shape {shapes[0]}, and {other_name} the shape {shapes[1]}, which "
        f"do not meet element by element: give both the same shape{by}"
    )


def _is_known(dim: Dim) -> bool:
    return isinstance(dim, int)


def counts_in_dtype_of(like: Var, value: Var, builder: BlockBuilder) -> Var:
    """Integers, such as counts that a model is to tell, in the dtype of its predictions."""
    dtypes = [known_dtype(x) for x in (like, value)]
    if None in dtypes or is_float(dtypes[1]) or not is_float(dtypes[0]):
        return value
    return builder.emit(call("astype", value, dtypes[0]))


def in_dtype_of(like: Var, value: Var, builder: BlockBuilder) -> Var:
    """`value` in the dtype of `like`, as integer targets are to meet the scores of a model."""
    if dtype_of(value) == dtype_of(like):
        return value
    return builder.emit(call("astype", value, dtype_of(like)))


def widened(builder: BlockBuilder, x: Expr) -> Expr:
    """A tensor in float32 where its floats are narrower, which do not hold squares."""
    found = wide(x)
    return x if found is x else builder.emit(found)


def new_param(kind: str, name: str, given: object) -> Var:
    """A parameter of the function of a loss; a variable gives its name to it."""
    if isinstance(given, Type):
        return Var(name, given)
    if isinstance(given, Var):
        return Var(given.name, given.ty)
    raise TypeError(
        f"{kind}: `{name}` must be a Var or a Type, "
        f"but `{given!r}` of type {type(given).__name__} was given"
    )
