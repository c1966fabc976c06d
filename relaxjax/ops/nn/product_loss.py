"""The negative log-likelihood of classes whose scores are a product, which is never there whole.

The scores of all tokens for all words are the largest tensor of a language model. Here some tokens
at a time are multiplied, and the loss and the adjoints made of their scores. Both are made in one
pass: the backward operator gives the loss, too, and `ShareProductLoss` takes it from there.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Call, Expr, TupleGetItem
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ops.arrays import as_places, widened
from relaxjax.ops.cost_rules import counting, dims_at
from relaxjax.ops.declare import OpError, op
from relaxjax.ops.emit import call
from relaxjax.ops.platform import by_platform
from relaxjax.ops.shapes import common_dtype, common_vdevice, require_adjoint, require_ndim
from relaxjax.ops.traced import traced_gradient
from relaxjax.ops.unary import require_float

from .logits_loss import adjoint_of_scores, loss_of_scores
from .loss import counted_total, loss_type, sample_weights


class Scores(NamedTuple):
    """The bounds of how many scores are computed at a time."""

    fewest: int
    most: int


# Elsewhere than on a CPU a step of the loop takes some time however few they are.
ON_CPU, ELSEWHERE = Scores(2**22, 2**24), Scores(2**25, 2**25)
_FEWEST = 64  # tokens


def tokens_at_a_time(tokens: Any, weight: tuple[Any, Any], scores: Scores) -> Any:
    """How many tokens' scores are computed at a time: all of them if a number is not known.

    `weight` is of shape (width, words). Each time something is added to its adjoint, which is no
    more numbers than the scores of as many tokens as it is wide. For 4,096 tokens and a weight of
    (512, 32000), 512 at a time take 0.92 of the time of all at once, and 128 take 1.01.
    """
    width, words = weight
    if not isinstance(tokens, int) or not isinstance(words, int) or tokens * words <= scores.fewest:
        return tokens
    wanted = width if isinstance(width, int) else 0
    most = max(_FEWEST, min(max(scores.fewest // words, wanted), scores.most // words))
    return math.ceil(tokens / math.ceil(tokens / most))  # as many each time: few are filled up


def _width_and_words(weight: Any, transposed: bool) -> tuple[Any, Any]:
    first, second = weight.shape
    return (second, first) if transposed else (first, second)


def _on_each_platform(lower: Callable[..., Any]) -> Callable[..., Any]:
    return by_platform(partial(lower, at_a_time=ELSEWHERE), cpu=partial(lower, at_a_time=ON_CPU))


def _scores(rows: Any, weight: Any, bias: Any, transposed: bool) -> Any:
    """The product of some tokens, in float32 at least."""
    axes = (((1,), (1 if transposed else 0,)), ((), ()))
    wide = widened(rows).dtype
    scores = lax.dot_general(rows, weight, axes, preferred_element_type=wide)
    return scores if bias is None else scores + bias[None].astype(wide)


def _in_chunks(length: Any, *arrays: Any) -> Iterator[Any]:
    """Arrays of tokens as chunks of so many, the last one filled up with zeros."""
    for array in arrays:
        more = -array.shape[0] % length
        filled = jnp.pad(array, [(0, more), *[(0, 0)] * (array.ndim - 1)]) if more else array
        yield filled.reshape(-1, length, *array.shape[1:])


def _product_nll_loss(
    data: Any,
    weight: Any,
    targets: Any,
    bias: Any,
    transposed: bool,
    reduction: str,
    ignore_index: int,
    at_a_time: Scores,
) -> Any:
    targets, tokens = as_places(targets), data.shape[0]
    length = tokens_at_a_time(tokens, _width_and_words(weight, transposed), at_a_time)
    loss_of = partial(loss_of_scores, weights=None, reduction="none", ignore_index=ignore_index)

    def step(_: None, chunk: tuple[Any, Any]) -> tuple[None, Any]:
        rows, classes = chunk
        return None, loss_of(_scores(rows, weight, bias, transposed), classes)

    if length is tokens:
        _, losses = step(None, (data, targets))
    else:
        _, parts = lax.scan(step, None, tuple(_in_chunks(length, data, targets)))
        losses = parts.reshape(-1)[:tokens]
    return _reduced(losses, targets, reduction, ignore_index).astype(data.dtype)


def _reduced(losses: Any, targets: Any, reduction: str, ignore_index: int) -> Any:
    if reduction == "none":
        return losses
    total = jnp.sum(losses)
    if reduction == "sum":
        return total
    return total / jnp.sum(sample_weights(targets, None, ignore_index, losses.dtype))


def _gradient(
    g: Expr, z: Expr, data: Expr, weight: Expr, targets: Expr, bias: Expr | None, **attrs: Any
) -> tuple[Expr | None, ...]:
    both = call("grad.product_nll_loss_backward", g, data, weight, targets, bias, **attrs)
    of_bias = None if bias is None else TupleGetItem(both, 3)
    return TupleGetItem(both, 1), TupleGetItem(both, 2), None, of_bias


def _flops(products: int, each: int, first: int) -> Any:
    """So many products of the size of the scores, and so many operations for each of those."""

    def count(call: Call) -> Dim:
        tokens, width = dims_at(call, first)
        words = dims_at(call, first + 1)[0 if call.attrs["transposed"] else 1]
        return tokens * words * (width * 2 * products + each)

    count.__doc__ = (
        f"{products} products of the size of the scores, and {each} flops for each score."
    )
    return counting(count)


@op(
    "relax.nn.product_nll_loss",
    facts={"class_ids": "targets"},
    lower=_on_each_platform(_product_nll_loss),
    gradient=_gradient,
    cost=_flops(1, 4, 0),
)
def product_nll_loss(
    data: TensorType,
    weight: TensorType,
    targets: TensorType,
    bias: TensorType | None = None,
    transposed: bool = False,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> TensorType:
    """As softmax_nll_loss of the product of data and weight and a bias, some rows at a time.

    `data` is of shape (N, K), `weight` of shape (K, C), or (C, K) if it is `transposed`.
    `FuseProductLoss` puts it in their place.
    """
    return _loss_type(data, weight, targets, bias, transposed, reduction)


def _loss_type(
    data: TensorType,
    weight: TensorType,
    targets: TensorType,
    bias: TensorType | None,
    transposed: bool,
    reduction: str,
) -> TensorType:
    require_float(data, "data")
    for name, ty, ndim in (("data", data, 2), ("weight", weight, 2), ("bias", bias, 1)):
        if ty is not None:
            require_ndim(name, ty, ndim)
    dtype = common_dtype(data=data, weight=weight, **({} if bias is None else {"bias": bias}))
    words = _words(data, weight, bias, transposed)
    scores = TensorType(None, dtype, 2, common_vdevice(data, weight))
    if data.dims is not None and words is not None:
        scores = TensorType((data.dims[0], words), dtype, vdevice=scores.vdevice)
    return loss_type(scores, targets, None, reduction)


def _words(
    data: TensorType, weight: TensorType, bias: TensorType | None, transposed: bool
) -> Dim | None:
    """The number of classes, if the shape of the weight is known and fits the others."""
    if weight.dims is None:
        return None
    width, words = weight.dims[::-1] if transposed else weight.dims
    if data.dims is not None and can_prove_different(data.dims[1], width):
        raise OpError(
            f"`weight` must have a dimension of {data.dims[1]} to be multiplied with the rows of "
            f"`data`, found {width}"
        )
    if bias is not None and bias.dims is not None and can_prove_different(bias.dims[0], words):
        raise OpError(
            f"`bias` must have an element for each of {words} classes, found {bias.dims[0]}"
        )
    return words


def _backward(
    output_grad: Any,
    data: Any,
    weight: Any,
    targets: Any,
    bias: Any,
    transposed: bool,
    reduction: str,
    ignore_index: int,
    at_a_time: Scores,
) -> tuple[Any, ...]:
    targets, (tokens, _) = as_places(targets), data.shape
    wide = widened(data).dtype
    length = tokens_at_a_time(tokens, _width_and_words(weight, transposed), at_a_time)
    each = _adjoint_of_losses(output_grad, targets, reduction, ignore_index, wide)
    given: dict[str, Any] = {"weights": None, "reduction": "none", "ignore_index": ignore_index}

    def step(sums: Any, chunk: tuple[Any, Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        rows, classes, g = chunk
        to_weight, to_bias = sums
        scores = _scores(rows, weight, bias, transposed)
        losses = loss_of_scores(scores, classes, **given)
        wide_scores = adjoint_of_scores(g, scores, classes, **given)
        to_scores = wide_scores.astype(rows.dtype)
        pair = (to_scores, rows) if transposed else (rows, to_scores)
        to_weight = to_weight + lax.dot_general(
            *pair, (((0,), (0,)), ((), ())), preferred_element_type=wide
        )
        if to_bias is not None:
            to_bias = to_bias + jnp.sum(wide_scores, 0)
        back = (((1,), (0 if transposed else 1,)), ((), ()))
        to_rows = lax.dot_general(to_scores, weight, back, preferred_element_type=wide)
        return (to_weight, to_bias), (losses, to_rows)

    sums = jnp.zeros(weight.shape, wide), None if bias is None else jnp.zeros(bias.shape, wide)
    if length is tokens:
        (to_weight, to_bias), (losses, to_data) = step(sums, (data, targets, each))
    else:
        chunks = tuple(_in_chunks(length, data, targets, each))
        (to_weight, to_bias), parts = lax.scan(step, sums, chunks)
        losses, to_data = (part.reshape(-1, *part.shape[2:])[:tokens] for part in parts)
    loss = _reduced(losses, targets, reduction, ignore_index).astype(data.dtype)
    found = (loss, to_data.astype(data.dtype), to_weight.astype(weight.dtype))
    return found if bias is None else (*found, to_bias.astype(bias.dtype))


def _adjoint_of_losses(
    output_grad: Any, targets: Any, reduction: str, ignore_index: int, dtype: Any
) -> Any:
    """The adjoint of the loss of each token, of that of all."""
    each = jnp.broadcast_to(output_grad.astype(dtype), targets.shape)
    if reduction != "mean":
        return each
    return each / counted_total(sample_weights(targets, None, ignore_index, dtype))


@op(
    "relax.grad.product_nll_loss_backward",
    lower=_on_each_platform(_backward),
    gradient=traced_gradient("relax.grad.product_nll_loss_backward"),
    cost=_flops(3, 8, 1),
)
def product_nll_loss_backward(
    output_grad: TensorType,
    data: TensorType,
    weight: TensorType,
    targets: TensorType,
    bias: TensorType | None = None,
    transposed: bool = False,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> TupleType:
    """The result of product_nll_loss, and the adjoints of data and weight, and of a bias.

    All of them are made of the same scores, which are computed once.
    """
    loss = _loss_type(data, weight, targets, bias, transposed, reduction)
    require_adjoint(output_grad, loss)
    return TupleType((loss, data, weight) if bias is None else (loss, data, weight, bias))
