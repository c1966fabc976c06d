"""Norms: of batches, layers, groups and instances; and dropout."""

from collections.abc import Sequence

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Expr, ShapeExpr
from relaxjax.ops.emit import call, dims_of, dtype_of, ndim_of, number, scalar

from .promotion import cast
from .shapes import shaped
from .table import aten


def _scale_and_shift(
    x: Expr, weight: Expr | None, bias: Expr | None, sizes: Sequence[Dim] | None = None
) -> tuple[Expr, Expr]:
    """Those of each channel, or of these sizes; ones and zeros where a norm does not have them."""
    shape = ShapeExpr(tuple(dims_of(x)[1:2] if sizes is None else sizes))
    dtype = dtype_of(x)
    ones, zeros = (call("full", shape, cast(value, dtype), dtype) for value in (1, 0))
    return ones if weight is None else weight, zeros if bias is None else bias


def _others(x: Expr) -> list[int]:
    return [axis for axis in range(ndim_of(x)) if axis != 1]


def _beside(x: Expr, *others: Expr | None) -> Expr:
    """What is normalised in the dtype of its factors: these may be wider, as inside of autocast."""
    return cast(x, next((dtype_of(one) for one in others if one is not None), dtype_of(x)))


def _moved(
    x: Expr, mean: Expr | None, var: Expr | None, momentum: float, axes: Sequence[int] | None = None
) -> tuple[Expr | None, Expr | None]:
    """Running statistics after a batch; the variance that they take in is that over n - 1.

    They are those over `axes`, all but that of the channels unless told, and their means over it.
    """
    if mean is None or var is None:
        return None, None
    x = _beside(x, mean)
    axes = _others(x) if axes is None else axes
    count: Dim = 1
    for axis in axes:
        count = count * dims_of(x)[axis]
    batch: list[Expr] = [call("mean", x, axes), call("variance", x, axes)]
    if len(axes) < len(_others(x)):
        batch = [call("mean", one, [0]) for one in batch]
    if isinstance(count, int):
        unbiased = batch[1] * scalar(count / max(count - 1, 1), x)
    else:
        whole = number(count, x)
        unbiased = batch[1] * (whole / (whole - scalar(1, x)))
    keep, take = scalar(1 - momentum, mean), scalar(momentum, mean)
    new = [cast(statistic, dtype_of(mean)) for statistic in (batch[0], unbiased)]
    return keep * mean + take * new[0], keep * var + take * new[1]


def _of_batch(
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean: Expr | None,
    var: Expr | None,
    training: bool,
    eps: float,
) -> Expr:
    given, x = dtype_of(x), _beside(x, weight, bias, mean, var)
    scale, shift = _scale_and_shift(x, weight, bias)
    if mean is None or var is None:
        if not training:
            raise ValueError("a norm on running statistics, which are not given")
        axes, training = _others(x), False
        mean, var = call("mean", x, axes), call("variance", x, axes)
    found = call("nn.batch_norm", x, scale, shift, mean, var, 1, eps, training=training)[0]
    return cast(found, given)


@aten("batch_norm.default", writes=("running_mean", "running_var"))
def batch_norm(
    input: Expr,  # torch's name
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr | None,
    running_var: Expr | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> tuple[Expr | None, ...]:
    """Relax's batch norm, which in training takes the batch's statistics, and else running ones."""
    y = _of_batch(input, weight, bias, running_mean, running_var, training, eps)
    new = _moved(input, running_mean, running_var, momentum) if training else (None, None)
    return y, *new


def _statistics(x: Expr, eps: float, *others: Expr | None) -> tuple[Expr, Expr]:
    x = _beside(x, *others)
    variance = call("variance", x, _others(x))
    return call("mean", x, _others(x)), call("rsqrt", variance + scalar(eps, x))


@aten("_native_batch_norm_legit_functional.default")
def native_batch_norm(
    input: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr,
    running_var: Expr,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Expr | None, ...]:
    y = _of_batch(input, weight, bias, running_mean, running_var, training, eps)
    new: tuple[Expr | None, ...] = (running_mean, running_var)
    if training:
        new = _moved(input, running_mean, running_var, momentum)
    return y, *_statistics(input, eps, weight, bias, running_mean), *new


@aten("_native_batch_norm_legit_no_training.default")
def native_batch_norm_inference(
    input: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr,
    running_var: Expr,
    momentum: float,
    eps: float,
) -> tuple[Expr, Expr, Expr]:
    y = _of_batch(input, weight, bias, running_mean, running_var, False, eps)
    return y, *_statistics(input, eps, weight, bias, running_mean)


@aten("_native_batch_norm_legit.no_stats")
def native_batch_norm_no_stats(
    input: Expr, weight: Expr | None, bias: Expr | None, training: bool, momentum: float, eps: float
) -> tuple[Expr, Expr, Expr]:
    y = _of_batch(input, weight, bias, None, None, training, eps)
    return y, *_statistics(input, eps, weight, bias)


@aten("layer_norm.default")
def layer_norm(
    input: Expr,
    normalized_shape: Sequence[Dim],
    weight: Expr | None = None,
    bias: Expr | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Expr:
    x = _beside(input, weight, bias)
    axes = list(range(ndim_of(x) - len(normalized_shape), ndim_of(x)))
    scale, shift = _scale_and_shift(x, weight, bias, normalized_shape)
    return cast(call("nn.layer_norm", x, scale, shift, axes, eps), dtype_of(input))


@aten("native_layer_norm.default")
def native_layer_norm(
    input: Expr, normalized_shape: Sequence[Dim], weight: Expr | None, bias: Expr | None, eps: float
) -> tuple[Expr, Expr, Expr]:
    ndim, x = ndim_of(input), _beside(input, weight, bias)
    axes = list(range(ndim - len(normalized_shape), ndim))
    inverse = call("rsqrt", call("variance", x, axes, True) + scalar(eps, x))
    y = layer_norm(input, normalized_shape, weight, bias, eps)
    return y, call("mean", x, axes, True), inverse


@aten("group_norm.default")
def group_norm(
    input: Expr,
    num_groups: int,
    weight: Expr | None = None,
    bias: Expr | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Expr:
    x = _beside(input, weight, bias)
    scale, shift = _scale_and_shift(x, weight, bias)
    axes = list(range(2, ndim_of(x)))
    return cast(call("nn.group_norm", x, scale, shift, num_groups, 1, axes, eps), dtype_of(input))


@aten("native_group_norm.default")
def native_group_norm(
    input: Expr,
    weight: Expr | None,
    bias: Expr | None,
    N: Dim,  # noqa: N803  # torch's names
    C: Dim,  # noqa: N803
    HxW: Dim,  # noqa: N803
    group: int,
    eps: float,
) -> tuple[Expr, Expr, Expr]:
    apart = shaped(_beside(input, weight, bias), [N, group, -1])
    mean, var = call("mean", apart, [2]), call("variance", apart, [2])
    return group_norm(input, group, weight, bias, eps), mean, call("rsqrt", var + scalar(eps, var))


@aten("instance_norm.default", writes=("running_mean", "running_var"))
def instance_norm(
    input: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr | None,
    running_var: Expr | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> tuple[Expr | None, ...]:
    """By the statistics of each instance, whose means the running ones take in, or by these."""
    if not use_input_stats:
        y = _of_batch(input, weight, bias, running_mean, running_var, False, eps)
        return y, None, None
    x = _beside(input, weight, bias)
    scale, shift = _scale_and_shift(x, weight, bias)
    axes = list(range(2, ndim_of(x)))
    y = cast(call("nn.instance_norm", x, scale, shift, 1, axes, eps), dtype_of(input))
    return y, *_moved(input, running_mean, running_var, momentum, axes)


@aten("rms_norm.default")
def rms_norm(
    input: Expr,
    normalized_shape: Sequence[Dim],
    weight: Expr | None = None,
    eps: float | None = None,
) -> Expr:
    ndim, dtype = ndim_of(input), dtype_of(input)
    axes = list(range(ndim - len(normalized_shape), ndim))
    ones = call("full", ShapeExpr(tuple(normalized_shape)), cast(1, dtype), dtype)
    room = {"float64": 2.220446049250313e-16}.get(dtype, 1.1920928955078125e-07)
    scale = ones if weight is None else weight
    return call("nn.rms_norm", input, scale, axes, room if eps is None else eps)


@aten("dropout.default")
def dropout(input: Expr, p: float, train: bool) -> Expr:
    return dropped(input, p, train)


def dropped(x: Expr, p: float, train: bool) -> Expr:
    """Dropout, which draws in a training step and leaves a prediction as it is."""
    if not train or p == 0:
        return x
    if p == 1:
        return x * scalar(0, x)
    return call("nn.dropout", x, p)[0]


@aten("native_dropout.default")
def native_dropout(input: Expr, p: float, train: bool | None) -> tuple[Expr, Expr]:
    if not train or p in (0, 1):
        kept = call("full", ShapeExpr(dims_of(input)), cast(p != 1, "bool"), "bool")
        return dropped(input, p, bool(train)), kept
    both = call("nn.dropout", input, p)
    return both[0], cast(both[1], "bool")


@aten("feature_dropout.default")
def feature_dropout(input: Expr, p: float, train: bool) -> Expr:
    """Whole channels are dropped."""
    if not train or p in (0, 1):
        return dropped(input, p, train)
    sizes = [*dims_of(input)[:2], *[1] * (ndim_of(input) - 2)]
    dtype = dtype_of(input)
    ones = call("full", ShapeExpr(tuple(sizes)), cast(1, dtype), dtype)
    return input * call("nn.dropout", ones, p)[0]


@aten("_weight_norm.default")
def weight_norm(v: Expr, g: Expr, dim: int = 0) -> Expr:
    """Directions `v` with the lengths `g`, along the axes other than `dim`."""
    return v * (g / _lengths(v, dim))


@aten("_weight_norm_interface.default")
def weight_norm_interface(v: Expr, g: Expr, dim: int = 0) -> tuple[Expr, Expr]:
    return weight_norm(v, g, dim), _lengths(v, dim)


def _lengths(v: Expr, dim: int) -> Expr:
    """The norm of each slice; -1 is for the norm of all, as torch has it."""
    axes = [axis for axis in range(ndim_of(v)) if axis != dim]
    return call("sqrt", call("sum", call("square", v), axes, True))
