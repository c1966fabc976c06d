"""The gradients of gradients of gradients, for the table of operators, against JAX's own.

One operator in seven is tried, and all of them if `RELAXJAX_FULL` is set.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from full import share
from operator_evaluation import call_of, has_slope
from operator_sample_table import SAMPLES
from operator_samples import Sample

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax import BlockBuilder, IRModule, TensorType, TupleType, to_jax
from relaxjax.ir.expr import Expr, TupleGetItem, Var, const
from relaxjax.ir.op import OPS, ZERO_GRADIENT, get_op
from relaxjax.passes import Gradient
from relaxjax.testing.equations import run


def leaves(value: Expr) -> list[Expr]:
    """The floats in a result."""
    if isinstance(value.ty, TupleType):
        count = len(value.ty.fields)
        return [leaf for index in range(count) for leaf in leaves(TupleGetItem(value, index))]
    return [value] if has_slope(value.ty) else []


def first_smooth(name: str) -> Sample | None:
    """The first sample of an operator at which its floats have derivatives of every order."""
    smooth = (sample for sample in SAMPLES[name] if sample.smooth and sample.second_order)
    return next((s for s in smooth if leaves(call_of(get_op(name), s)[0])), None)


DIFFERENTIABLE = (
    name for name in sorted(SAMPLES) if OPS[name].gradient not in (None, ZERO_GRADIENT)
)
SMOOTH = {name: sample for name in DIFFERENTIABLE if (sample := first_smooth(name)) is not None}
TRIED = share(SMOOTH, one_in=7)


def weighted(leaf: Expr) -> Expr:
    """The sum of a tensor's elements, each times a number of its own."""
    ty = leaf.ty
    assert isinstance(ty, TensorType)
    shape = tuple(int(dim) for dim in ty.dims or ())
    weights = np.cos(np.arange(math.prod(shape))).reshape(shape)
    return get_op("relax.sum")(leaf * const(weights.astype(ty.dtype or ""), ty.dtype))


def program(name: str, sample: Sample) -> tuple[IRModule, list[Var], list[Any]]:
    """A function whose result is a weighted sum of what the operator gives."""
    call, arrays = call_of(get_op(name), sample)
    builder = BlockBuilder()
    with builder.function("main", list(arrays)):
        result = builder.emit(call)
        parts = [get_op("relax.astype")(weighted(leaf), "float64") for leaf in leaves(result)]
        loss: Expr = parts[0]
        for part in parts[1:]:
            loss = loss + part
        builder.emit_func_output(builder.emit(loss))
    values = [array.value(sample.seed(i)) for i, array in enumerate(arrays.values())]
    return builder.get(), [var for var in arrays if has_slope(var.ty)], values


@pytest.mark.parametrize("name", TRIED)
def test_to_third_order(name: str) -> None:
    sample = SMOOTH[name]
    with jax.enable_x64(True):
        module, moving, values = program(name, sample)
        names = [var.name for var in moving]
        places = [i for i, var in enumerate(module["main"].params) if var.name in names]
        shapes = [(values[i].shape, values[i].dtype) for i in places]
        u, v = (
            tuple(
                np.asarray(np.cos(np.arange(math.prod(s)) + seed).reshape(s), d) for s, d in shapes
            )
            for seed in (1, 2)
        )
        function, done = "main", module
        for target, cotangent in ((0, False), (1, True), (1, True)):
            gradient = Gradient(function, names, target_index=target, cotangent=cotangent)
            done, function = gradient(done), f"{function}_adjoint"
        _, found = run(to_jax(done, function), *values, u, v)
        forward = to_jax(module, "main")

        def of_floats(*floats: Any) -> Any:
            given = dict(zip(places, floats, strict=True))
            return forward(*(given.get(i, jnp.asarray(x)) for i, x in enumerate(values)))

        first = jax.grad(of_floats, tuple(range(len(places))))
        expected = run(pulled(pulled(first, u), v), *(values[i] for i in places))
    scale = max(1.0, *(float(np.max(np.abs(e), initial=0)) for e in expected))
    for one, other in zip(found, expected, strict=True):
        tolerance = 1e-8 if one.dtype == "float64" else 1e-3
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


def pulled(function: Callable[..., Any], cotangent: Any) -> Callable[..., Any]:
    return lambda *args: jax.vjp(function, *args)[1](cotangent)
