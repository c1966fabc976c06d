"""The tangent of every operator's result, at its samples, against JAX's forward mode."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from operator_evaluation import bound, call_of, evaluate, has_slope
from operator_sample_table import SAMPLES
from operator_samples import Sample
from parsing import parse_functions

from relaxjax.ir import Call, Expr, SymbolicVar, TensorType, Tuple, Var
from relaxjax.ir.op import OPS, Op, arguments, get_op
from relaxjax.lowering import to_jax
from relaxjax.ops import OpError, op
from relaxjax.ops.tangent import has_tangent_rule, tangent_of_call, without_tangent
from relaxjax.passes import Jvp
from relaxjax.testing.equations import run

CASES = [
    pytest.param(name, sample, id=f"{name}-{index}")
    for name in sorted(OPS)
    if has_tangent_rule(get_op(name)) and not without_tangent(get_op(name))
    for index, sample in enumerate(SAMPLES.get(name, []))
    if sample.smooth
]


def tangent(call: Call, tangents: dict[Var, Var]) -> tuple[Var, Expr]:
    """A variable for the result of a call, and its tangent."""
    args, attrs = arguments(call)

    def moved(arg: Expr | None) -> Expr | None:
        if isinstance(arg, Tuple):
            fields = tuple(moved(field) for field in arg.fields)
            if all(field is None for field in fields):
                return None
            pairs = zip(arg.fields, fields, strict=True)
            return Tuple(tuple(get_op("relax.zeros_like")(a) if t is None else t for a, t in pairs))
        return tangents.get(arg) if isinstance(arg, Var) else None

    assert isinstance(call.op, Op)
    out = bound(call)
    return out, tangent_of_call(call.op, list(map(moved, args)), out, args, attrs)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_tangents(name: str, sample: Sample) -> None:
    call, arrays = call_of(get_op(name), sample)
    moving = {var: Var(f"{var.name}_tangent", var.ty) for var in arrays if has_slope(var.ty)}
    if not moving:
        return
    values = {var: array.value(sample.seed(i)) for i, (var, array) in enumerate(arrays.items())}
    directions = {
        var: np.asarray(
            np.cos(np.arange(values[var].size)).reshape(values[var].shape), values[var].dtype
        )
        for var in moving
    }

    def by_rule(*given: Any) -> Any:
        env = dict(zip((*arrays, *moving.values()), given, strict=True))
        out, result = tangent(call, moving)
        env[out] = evaluate(call, env)
        return floats_of(evaluate(result, env))

    def by_jax(*given: Any) -> Any:
        env = dict(zip(arrays, given, strict=False))
        primals = [env[var] for var in moving]
        return jax.jvp(
            lambda *xs: floats_of(evaluate(call, env | dict(zip(moving, xs, strict=True)))),
            primals,
            list(given[len(arrays) :]),
        )[1]

    with jax.enable_x64(True):
        args = (*values.values(), *directions.values())
        found, expected = run(by_rule, *args), run(by_jax, *args)
    chex.assert_trees_all_equal_shapes_and_dtypes(found, expected)
    chex.assert_trees_all_close(found, expected, rtol=1e-6, atol=1e-8)


def floats_of(result: Any) -> list[Any]:
    leaves = jax.tree.leaves(result)
    return [leaf for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]


def test_an_operator_may_declare_its_own_rule() -> None:
    @op(
        "relax.test_own_tangent",
        lower=lambda x: x * x,
        gradient=lambda g, y, x: g * x * 2.0,
        jvp=lambda tangents, y, x: tangents[0] * x * 3.0,  # wrong, so that it is seen
    )
    def own(x: TensorType) -> TensorType:
        """A square, which says that it grows too fast."""
        return x

    try:
        x, t = (Var(name, TensorType((2,), "float32")) for name in "xt")
        assert "R.const(3.0, " in str(tangent(own(x), {x: t})[1])
    finally:
        del OPS["relax.test_own_tangent"]


def test_a_tangent_that_jax_has_for_known_sizes_only() -> None:
    x, t = (Var(name, TensorType((SymbolicVar("n"),), "float32")) for name in "xt")
    message = (
        r"relax.cumprod: JAX has its tangent for known sizes only \(.*\): give the symbolic "
        r'dimensions their values before, as by BindSymbolicVars\({"n": 8}\)'
    )
    with pytest.raises(OpError, match=message):
        tangent(get_op("relax.cumprod")(x, axis=0), {x: t})


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_a_product_of_any_size_has_a_tangent(axis: int | None) -> None:
    """One zero among its factors, or two."""
    pushed = Jvp("main")(
        parse_functions(f"""
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        with R.dataflow():
            y = R.prod(x, axis={axis})
            R.output(y)
        return y
    """)
    )
    function = to_jax(pushed, "main_jvp")
    for size in (1, 4):
        x, t = np.random.default_rng(size).normal(size=(2, size, 3)).astype("float32")
        x[0, 1] = x[-1, 2] = 0
        expected = jax.jvp(lambda x: jax.numpy.prod(x, axis), (x,), (t,))
        chex.assert_trees_all_close(function(x, t), expected, rtol=1e-5, atol=1e-6)


def test_a_shape_that_is_not_known() -> None:
    x, t = (Var(name, TensorType(None, "float32", 2)) for name in "xt")
    message = r"relax.cumsum: the tangent needs arguments of known shape .*: name the dimensions, a"
    with pytest.raises(OpError, match=message):
        tangent(get_op("relax.cumsum")(x, axis=0), {x: t})
