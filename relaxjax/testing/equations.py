"""Running JAX programs once, equation by equation: by NumPy wherever that is simple.

Nothing is compiled for it, which would take longer than anything else where thousands of small
programs run once each, and no equation is fused with another one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend import core

from relaxjax.ir.types import is_float
from relaxjax.ops.lax.inlining import alone, scan_counts

from .indexing import gather, scatter

Arrays = Sequence[Any]
# Given the results of an equation, and its operands: the results, rounded in some way of its own.
Rounding = Callable[..., list[Any]]


def run(function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`, traced, and then evaluated equation by equation."""
    return traced(function, *args)(*args)


def traced(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """`function` as a program for arguments like these, to be run equation by equation.

    What it gives runs it on other arguments, and with `rounding` changes what each equation gives.
    """
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*args)

    def evaluate(*args: Any, rounding: Rounding | None = None) -> Any:
        leaves = list(map(_array, jax.tree.leaves(args)))
        results = _Evaluation(rounding).program(program, leaves)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return evaluate


def _array(value: Any) -> Any:
    """A value as NumPy has it; random keys stay with JAX."""
    is_key = jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)
    return value if is_key else np.asarray(value)


@dataclass(frozen=True)
class _Evaluation:
    """One run of a program, and of those inside it."""

    rounding: Rounding | None

    def program(self, program: Any, args: Arrays) -> list[Any]:
        """The results of a program, which comes with its constants or has none."""
        jaxpr = getattr(program, "jaxpr", program)
        consts = map(_array, getattr(program, "consts", ()))
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Any:
            if not isinstance(atom, core.Literal):
                return env[atom]
            aval: Any = atom.aval
            return np.asarray(atom.val, aval.dtype)

        for eqn in jaxpr.eqns:
            results = self.equation(eqn, list(map(read, eqn.invars)))
            env.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def equation(self, eqn: Any, args: list[Any]) -> Arrays:
        name, params = eqn.primitive.name, eqn.params
        if name in _CALLS:
            return self.program(params[_CALLS[name]], args)
        if name == "cond":
            return self.program(params["branches"][int(args[0])], args[1:])
        if name == "scan":
            return self.scan(args, [var.aval for var in eqn.outvars], **params)
        if name == "shard_map":  # of all devices at once
            return list(map(_array, core.jaxpr_as_fun(alone(eqn))(*args)))
        if name == "while":
            return self.loop(args, **params)
        rounding = self.rounding
        if rounding is None:
            return _computed(eqn, args)
        if name in _SERIES:
            return [value - 1 for value in rounding([value + 1 for value in _computed(eqn, args)])]
        terms = rounding(args) if name in _SUMS else args
        results = rounding(_computed(eqn, terms), args)
        if name != "reduce_sum" or not is_float(str(args[0].dtype)):
            return results
        return [results[0] + _off_on_the_way(eqn, args[0], rounding)]

    def scan(
        self,
        args: list[Any],
        results: Arrays,
        jaxpr: Any,
        length: int,
        reverse: bool,
        **params: Any,
    ) -> list[Any]:
        num_consts, num_carry = scan_counts(params)
        consts, carry = args[:num_consts], args[num_consts : num_consts + num_carry]
        xs = args[num_consts + num_carry :]
        stacked = [np.zeros(aval.shape, aval.dtype) for aval in results[num_carry:]]
        for step in reversed(range(length)) if reverse else range(length):
            found = self.program(jaxpr, [*consts, *carry, *(x[step] for x in xs)])
            carry = found[:num_carry]
            for stack, y in zip(stacked, found[num_carry:], strict=True):
                stack[step] = y
        return [*carry, *stacked]

    def loop(
        self,
        args: list[Any],
        cond_jaxpr: Any,
        cond_nconsts: int,
        body_jaxpr: Any,
        body_nconsts: int,
        **params: Any,
    ) -> list[Any]:
        consts = args[:cond_nconsts], args[cond_nconsts : cond_nconsts + body_nconsts]
        carry = args[cond_nconsts + body_nconsts :]
        while np.any(going := self.program(cond_jaxpr, [*consts[0], *carry])[0]):
            after = self.program(body_jaxpr, [*consts[1], *carry])
            carry = [_where_going(going, new, old) for new, old in zip(after, carry, strict=True)]
        return carry


def _off_on_the_way(eqn: Any, terms: Any, rounding: Rounding) -> Any:
    """How far sums may be off because each partial sum is rounded.

    Added up one after the other, so many terms are off by about the root of their number, and equal
    ones by more: they are rounded to the same side.
    """
    (sizes,) = _computed(eqn, [np.abs(terms)])
    count = terms.size / max(sizes.size, 1)
    return 0.5 * math.sqrt(count) * (rounding([sizes])[0] - sizes)


def _computed(eqn: Any, args: list[Any]) -> list[Any]:
    """What one equation gives that runs no program."""
    rule = RULES.get(eqn.primitive.name)
    if rule is None:
        results = eqn.primitive.bind(*map(jax.numpy.asarray, args), **eqn.params)
        return list(map(_array, results if eqn.primitive.multiple_results else [results]))
    with np.errstate(all="ignore"):
        found = rule(*args, **eqn.params)
    values = found if eqn.primitive.multiple_results else [found]
    return [
        np.asarray(value, out.aval.dtype).reshape(out.aval.shape)
        for value, out in zip(values, eqn.outvars, strict=True)
    ]


def _where_going(going: Any, new: Any, old: Any) -> Any:
    """What a step changes: of a batch of loops, only those that still go on."""
    return np.where(
        np.reshape(going, np.shape(going) + (1,) * (np.ndim(new) - np.ndim(going))), new, old
    )


# The primitives that add up many terms: what is rounded on the way counts as much as the terms do,
# however small their sum is.
_SUMS = frozenset(
    {"reduce_sum", "reduce_window_sum", "cumsum", "dot_general", "conv_general_dilated"}
    | {"scatter-add"}
)
# Those that are computed as series, of which the terms are about 1.
_SERIES = frozenset({"lgamma", "digamma", "polygamma", "zeta", "igamma", "igammac"})

# The primitives that run a program, and the parameter that holds it.
_CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
}


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **params: function(*args)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes, **params: function(x, axis=tuple(axes))


def _broadcast(x: Any, *_: Any, shape: Any, broadcast_dimensions: Any, **params: Any) -> Any:
    own = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        own[axis] = size
    return np.broadcast_to(x.reshape(own), shape)


def _dot(lhs: Any, rhs: Any, dimension_numbers: Any, **params: Any) -> Any:
    (left, right), (left_batch, right_batch) = dimension_numbers
    rows = [a for a in range(lhs.ndim) if a not in (*left, *left_batch)]
    cols = [a for a in range(rhs.ndim) if a not in (*right, *right_batch)]
    batch = [lhs.shape[a] for a in left_batch]
    outer_rows, inner, outer_cols = (
        math.prod(x.shape[a] for a in axes) for x, axes in ((lhs, rows), (lhs, left), (rhs, cols))
    )
    one = lhs.transpose([*left_batch, *rows, *left]).reshape(*batch, outer_rows, inner)
    two = rhs.transpose([*right_batch, *right, *cols]).reshape(*batch, inner, outer_cols)
    return np.matmul(one, two)


def _accumulate(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(x: Any, axis: int, reverse: bool) -> Any:
        return np.flip(function(np.flip(x, axis), axis), axis) if reverse else function(x, axis)

    return rule


def _sort(*xs: Any, dimension: int, num_keys: int, **params: Any) -> Any:
    """Stably, by the first operands; NaN comes last, as it does for JAX."""
    order = np.lexsort([np.moveaxis(x, dimension, -1) for x in xs[:num_keys][::-1]], axis=-1)
    order = np.moveaxis(order, -1, dimension)
    return [np.take_along_axis(x, order, dimension) for x in xs]


def _pad(x: Any, value: Any, padding_config: Any) -> Any:
    """What padding below zero takes off goes last."""
    spread = [
        max(n + (n - 1) * inner, 0)
        for n, (_, _, inner) in zip(x.shape, padding_config, strict=True)
    ]
    pairs = [*zip(spread, padding_config, strict=True)]
    padded = np.full([max(low, 0) + n + max(high, 0) for n, (low, high, _) in pairs], value)
    places = ((max(low, 0), n, inner + 1) for n, (low, _, inner) in pairs)
    padded[tuple(slice(low, low + n, step) for low, n, step in places)] = x
    sizes = (low + n + high for n, (low, high, _) in pairs)
    return padded[
        tuple(
            slice(max(-low, 0), max(-low, 0) + size)
            for size, (low, _, _) in zip(sizes, padding_config, strict=True)
        )
    ]


def _reshape(x: Any, new_sizes: Any, dimensions: Any, **params: Any) -> Any:
    return (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes)


def _slice(x: Any, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _split(x: Any, sizes: Any, axis: int) -> Any:
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    sizes = zip(starts, slice_sizes, x.shape, strict=True)
    places = [(np.clip(start, 0, whole - size), size) for start, size, whole in sizes]
    return x[tuple(slice(start, start + size) for start, size in places)]


def _iota(dtype: Any, shape: Any, dimension: int, **params: Any) -> Any:
    return np.broadcast_to(
        np.moveaxis(
            np.arange(shape[dimension]).reshape([-1] + [1] * (len(shape) - 1)), 0, dimension
        ),
        shape,
    )


def _divide(x: Any, y: Any) -> Any:
    return np.trunc(x / y) if x.dtype.kind in "iu" else x / y


# The primitives that NumPy has too, by the name that it has for them.
_SAME = {
    **{name: name for name in ("sin", "cos", "tan", "tanh", "sinh", "cosh", "exp", "log", "expm1")},
    **{name: name for name in ("log1p", "sqrt", "square", "abs", "sign", "floor", "ceil", "add")},
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "neg": "negative",
    "rem": "fmod",
    "sub": "subtract",
    "mul": "multiply",
    "pow": "power",
    "max": "maximum",
    "min": "minimum",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "add_any": "add",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "not": "invert",
    "is_finite": "isfinite",
    "copy": "asarray",
    "stop_gradient": "asarray",
}

RULES: dict[str, Callable[..., Any]] = {
    **{name: _plain(getattr(np, own)) for name, own in _SAME.items()},
    "div": _plain(_divide),
    "rsqrt": _plain(lambda x: 1 / np.sqrt(x)),
    "erf": _plain(np.vectorize(math.erf, otypes=["float64"])),
    "logistic": _plain(lambda x: 1 / (1 + np.exp(-x))),
    "integer_pow": lambda x, y, **params: x ** np.asarray(y, x.dtype),
    "convert_element_type": lambda x, new_dtype, **params: x.astype(new_dtype),
    "clamp": _plain(lambda low, x, high: np.clip(x, low, high)),
    "select_n": _plain(lambda which, *cases: np.choose(np.asarray(which, int), cases)),
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": lambda x, dimensions: np.squeeze(x, dimensions),
    "expand_dims": lambda x, dimensions: np.expand_dims(x, dimensions),
    "transpose": lambda x, permutation: x.transpose(permutation),
    "rev": lambda x, dimensions: np.flip(x, dimensions),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "stack": lambda *xs, axis, **params: np.stack(xs, axis),
    "slice": _slice,
    "split": _split,
    "dynamic_slice": _dynamic_slice,
    "gather": gather,
    "scatter": scatter(None),
    "scatter-add": scatter(np.add),
    "scatter-mul": scatter(np.multiply),
    "scatter-max": scatter(np.maximum),
    "scatter-min": scatter(np.minimum),
    "pad": _pad,
    "iota": _iota,
    "empty2": lambda dtype, **params: np.zeros((), dtype),
    "reduce_sum": _reduction(np.sum),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
    "reduce_prod": _reduction(np.prod),
    "reduce_and": _reduction(np.all),
    "reduce_or": _reduction(np.any),
    "argmax": lambda x, axes, **params: np.argmax(x, axes[0]),
    "argmin": lambda x, axes, **params: np.argmin(x, axes[0]),
    "cumsum": _accumulate(np.cumsum),
    "cumprod": _accumulate(np.cumprod),
    "cummax": _accumulate(np.maximum.accumulate),
    "cummin": _accumulate(np.minimum.accumulate),
    "sort": _sort,
    "dot_general": _dot,
}
