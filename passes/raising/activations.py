"""Activations as they are written in `jax.nn`, and in papers: ReLU, GELU by both formulas, SiLU.

`jax.nn.gelu` computes the normal distribution by `erfc`, `relax` by `erf`, in less than half of the
time. Both are within a rounding of 1 of the distribution, so that results are within a rounding of
`x` of each other: where x is far below 0, and the result almost 0, it has fewer places.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from relaxjax.frontends import from_jax
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.derivatives import CUSTOM_GRADIENT
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, Expr, GlobalVar
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import substitute_symbols
from relaxjax.ir.structural import structural_equal
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import TensorType

from .reading import Reading, View, of_one_float, raises


@raises("lax.mul", "lax.div")
def gelu(call: Call, reading: Reading) -> Expr | None:
    """x / 2 * erfc(-x / sqrt(2)), x / 2 * (1 + erf(x / sqrt(2))), and that by a tanh."""
    product = _product(call, reading)
    if product is None:
        return None
    half, others = product
    for x, factor in [others, others[::-1]] if len(others) == 2 else []:
        for name, is_distribution in (("gelu", _is_distribution), ("gelu_tanh", _is_tanh)):
            if _close(half, 0.5, x) and is_distribution(factor, x, reading):
                return get_op(f"relax.nn.{name}")(x)
    return None


@raises("lax.mul")
def silu(call: Call, reading: Reading) -> Expr | None:
    """x * sigmoid(x)."""
    if not of_one_float(call):
        return None
    for x, factor in (call.args, call.args[::-1]):
        sigmoid = reading.call(factor, "logistic")
        if sigmoid is not None and sigmoid.args[0] is x:
            return get_op("relax.nn.silu")(x)
    return None


def relu(call: Call, mod: IRModule) -> Expr | None:
    """A call of `jax.nn.relu`, which is a function with a derivative of its own."""
    if not isinstance(call.op, GlobalVar) or len(call.args) != 1 or not of_one_float(call):
        return None
    (data,), called = call.args, _with_rule(mod, call.op.name)
    if called is None or not isinstance(data.ty, TensorType) or data.ty.dims is None:
        return None
    same = all(map(structural_equal, called, _relu_of(data.ty)))
    return get_op("relax.nn.relu")(data) if same else None


@functools.lru_cache
def _relu_of(ty: TensorType) -> Sequence[Expr]:
    """What JAX's own becomes for a type, as `_with_rule` gives it."""
    return [_sized(function, ty) for function in _relu_of_rank(ty.ndim, ty.dtype)]


@functools.lru_cache
def _relu_of_rank(rank: int, dtype: str | None) -> Sequence[Function]:
    """It is read once for all sizes."""
    dims = tuple(SymbolicVar(f"n{axis}") for axis in range(rank))
    found = _with_rule(from_jax(jax.nn.relu, TensorType(dims, dtype)), "relu")
    assert found is not None
    return found


def _sized(function: Function, ty: TensorType) -> Expr:
    """A function of a tensor of symbolic dimensions, for those of a type."""
    own = function.params[0].ty
    assert isinstance(own, TensorType)
    pairs = zip(own.dims or (), ty.dims or (), strict=True)
    return substitute_symbols(function, {n: d for n, d in pairs if isinstance(n, SymbolicVar)})


def _with_rule(mod: IRModule, name: str) -> Sequence[Function] | None:
    """A function as such, and its gradient, where that is by a rule."""
    function = mod[name]
    if CUSTOM_GRADIENT not in function.attrs:
        return None
    rule = mod[function.attrs[CUSTOM_GRADIENT]]
    return replace(function, attrs=Attrs()), rule


def _product(call: Call, reading: Reading) -> tuple[float, list[Expr]] | None:
    """A product as the number in it and its other factors, all of the shape of the whole."""
    if not of_one_float(call):
        return None
    number, view = 1.0, View.whole(call)
    divided = reading.with_number(view, "div")
    if divided is not None and divided[1] != 0:
        number, view = 1 / divided[1], divided[0]
    others = []
    for factor in reading.factors(view):
        value = reading.number(factor.view)
        if value is None:
            others.append(factor.view)
        else:
            number *= value
    return (number, [other.expr for other in others]) if _alike(others, view) else None


def _alike(views: list[View], like: View) -> bool:
    return all(view.axes == like.axes and view.expr.ty == like.expr.ty for view in views)


def _is_distribution(factor: Expr, x: Expr, reading: Reading) -> bool:
    """Whether `factor` is twice the chance that a normal variable lies below `x`."""
    view, root = View.whole(factor), math.sqrt(0.5)
    complement = reading.args(view, "erfc")
    if complement is not None:
        wide = known_dtype(x) in ("float32", "float64")
        return wide and _is_multiple(complement[0], x, -root, reading)
    added = reading.with_number(view, "add")
    inner = None if added is None or added[1] != 1 else reading.args(added[0], "erf")
    return inner is not None and _is_multiple(inner[0], x, root, reading)


def _is_tanh(factor: Expr, x: Expr, reading: Reading) -> bool:
    """Whether `factor` is 1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))."""
    added = reading.with_number(View.whole(factor), "add")
    inner = None if added is None or added[1] != 1 else reading.args(added[0], "tanh")
    if inner is None:
        return False
    base, number = reading.multiple(inner[0])
    terms = reading.args(base, "add")
    if terms is None or not _close(number, math.sqrt(2 / math.pi), x):
        return False
    for linear, cubic in (terms, terms[::-1]):
        power, small = reading.multiple(cubic)
        if linear.expr is x and _close(small, 0.044715, x) and _is_cube(power, x, reading):
            return True
    return False


def _is_cube(view: View, x: Expr, reading: Reading) -> bool:
    call = reading.call(view.expr, "integer_pow")
    if call is not None:
        return call.args[0] is x and call.attrs["y"] == 3
    return [factor.view.expr for factor in reading.factors(view)] == [x, x, x]


def _is_multiple(view: View, x: Expr, number: float, reading: Reading) -> bool:
    base, found = reading.multiple(view)
    return base.expr is x and _close(found, number, x)


def _close(found: float, wanted: float, like: Expr) -> bool:
    """Whether a number is the wanted one, rounded to the dtype of a tensor."""
    tolerance = 2 * float(jnp.finfo(known_dtype(like)).eps)  # type: ignore[no-untyped-call]  # JAX has no types for it
    return abs(found - wanted) <= tolerance * abs(wanted)
