"""Batch, layer, instance and root-mean-square norms, as they are written out in JAX.

Whatever the order of their factors, and whether the scale is multiplied to the values or to the
reciprocal of the standard deviation. The variance may be of centred values or E[x^2] - E[x]^2,
which is the worse of the two; `relax` takes the first.
"""

from dataclasses import dataclass

from relaxjax.ir.expr import Call, Expr, ShapeExpr
from relaxjax.ir.tensor_types import known_dims, known_dtype, known_ndim
from relaxjax.ops.emit import call as relax

from .reading import Factor, Reading, Reduced, View, of_one_float, raises
from .writing import of_shape


@dataclass(frozen=True)
class Standardised:
    """What is normalised, over which axes, what is added to its variance, and what it is scaled by.

    With `about_zero` its mean is not taken off, and the variance is the mean of the squares.
    """

    over: Reduced
    epsilon: float
    scale: View | None
    about_zero: bool


@raises("lax.add")
def norm_with_shift(call: Call, reading: Reading) -> Expr | None:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta."""
    if not of_one_float(call):
        return None
    views = reading.elementwise(call, View.whole(call).axes)
    for product, shift in (views, views[::-1]):
        found = standardised(product, reading)
        if found is not None and not found.about_zero:
            return _norm(found, reading.peeled(shift))
    return None


@raises("lax.mul", "lax.div")
def norm(call: Call, reading: Reading) -> Expr | None:
    """The same without beta, and x / sqrt(mean(x^2) + epsilon) * gamma."""
    if not of_one_float(call):
        return None
    found = standardised(View.whole(call), reading)
    if found is None:
        return None
    return _root_mean_square(found) if found.about_zero else _norm(found, None)


def standardised(view: View, reading: Reading) -> Standardised | None:
    """What is standardised in a product, if anything."""
    others, spreads = [], []
    for factor in reading.factors(view, quotients=True):
        spread = _spread(factor, reading)
        if spread is not None:
            spreads.append(spread)
        elif factor.inverted:
            return None
        elif reading.number(factor.view) != 1:
            others.append(factor.view)
    if len(spreads) != 1 or len(others) > 2:
        return None
    over, epsilon, about_zero = spreads[0]
    for index, values in enumerate(others):
        of = Reduced(values.expr, over.axes) if about_zero else reading.centred(values.expr)
        if (
            of == over
            and values.axes == view.axes
            and known_dims(over.data) == known_dims(view.expr)
        ):
            rest = [*others[:index], *others[index + 1 :], None]
            return Standardised(over, epsilon, rest[0], about_zero)
    return None


def _spread(factor: Factor, reading: Reading) -> tuple[Reduced, float, bool] | None:
    """1 / sqrt(variance + epsilon): of what and over which axes, epsilon, whether about zero."""
    root = reading.args(factor.view, "sqrt" if factor.inverted else "rsqrt")
    added = None if root is None else reading.with_number(root[0], "add")
    if added is None:
        return None
    over = reading.variance(added[0])
    if over is not None:
        return over, added[1], False
    over = reading.mean_square(added[0])
    return None if over is None else (over, added[1], True)


def _norm(found: Standardised, shift: View | None) -> Expr | None:
    """The norm whose scale and shift lie where those that are given do."""
    data, axes = found.over.data, found.over.axes
    vectors = list(map(_vector, (found.scale, shift)))
    given = {vector.axes for vector in vectors if vector is not None}
    left = tuple(axis for axis in range(known_ndim(data)) if axis not in axes)
    if len(given) > 1:
        return None
    along = given.pop() if given else axes
    scale, shift_by = (_filled(vector, data, along) for vector in vectors)
    if scale is None or shift_by is None:
        return None
    rest = {"epsilon": found.epsilon, "center": shift is not None, "scale": found.scale is not None}
    if along == axes:
        return relax("nn.layer_norm", data, scale, shift_by, axes=axes, **rest)
    if len(along) != 1 or along[0] not in left:
        return None
    if left == along:
        running = relax("zeros_like", scale), relax("ones_like", scale)
        return relax("nn.batch_norm", data, scale, shift_by, *running, axis=along[0], **rest)[0]
    return relax("nn.instance_norm", data, scale, shift_by, along[0], axes, **rest)


def _root_mean_square(found: Standardised) -> Expr | None:
    data, axes = found.over.data, found.over.axes
    vector = _vector(found.scale)
    if vector is not None and vector.axes != axes:
        return None
    weight = _filled(vector, data, axes)
    return None if weight is None else relax("nn.rms_norm", data, weight, axes, found.epsilon)


@dataclass(frozen=True)
class _Vector:
    """A scale or shift, and the axes along which it has numbers of its own."""

    expr: Expr
    axes: tuple[int, ...]


def _vector(view: View | None) -> _Vector | None:
    """A scale or shift without axes of one element along which it is repeated."""
    if view is None:
        return None
    axes = tuple(axis for axis in view.axes if axis is not None)
    dims = known_dims(view.expr)
    if dims is None or axes == view.axes:
        return _Vector(view.expr, axes)
    shape = [dim for dim, axis in zip(dims, view.axes, strict=True) if axis is not None]
    return _Vector(of_shape(view.expr, shape), axes)


def _filled(vector: _Vector | None, data: Expr, along: tuple[int, ...]) -> Expr | None:
    """A scale or shift; where there is none, ones that have no influence."""
    dims, dtype = known_dims(data), known_dtype(data)
    if vector is not None or dims is None or dtype is None:
        return None if vector is None else vector.expr
    return relax("ones", ShapeExpr(tuple(dims[axis] for axis in along)), dtype)
