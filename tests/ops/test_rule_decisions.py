"""What each gradient rule decides by floats, and why that may be.

A backward program that compares floats with others that are computed again may find none of them
equal. Each rule that compares, rounds or looks for a place among floats is listed here with what
makes it right; a new one fails until somebody has looked at it and listed it too.
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from operator_evaluation import (
    adjoint_vars,
    assign,
    bound,
    call_of,
    evaluate,
    has_slope,
    lowered_shapes,
    partials,
)
from operator_sample_table import SAMPLES
from operator_samples import Array, Sample

from relaxjax.ir.expr import Call, Expr, Var, np_dtype
from relaxjax.ir.op import OPS, ZERO_GRADIENT, arguments, get_op
from relaxjax.ir.types import TensorType, TupleType, Type, is_float

pytestmark = pytest.mark.skipif(
    not version("jaxlib").startswith("0.10."), reason="JAX's primitives have other names here"
)

# The primitives whose result jumps, or whose derivative does, where floats move a little.
DECIDING = (
    {"eq", "ne", "lt", "le", "gt", "ge", "is_finite", "sign", "floor", "ceil", "round", "rem"}
    | {"argmax", "argmin", "sort", "top_k", "max", "min", "clamp", "reduce_max", "reduce_min"}
    | {"cummax", "cummin", "scatter-max", "scatter-min", "reduce_window_max", "reduce_window_min"}
    | {"select_and_gather_add", "select_and_scatter_add"}
)
INTEGERS = "convert_element_type"  # of floats to what is no float


def decisions_of(name: str) -> set[str]:
    """The deciding primitives, of floats, in what the rule of an operator emits for its samples."""
    found: set[str] = set()
    for sample in SAMPLES[name]:
        call, arrays = call_of(get_op(name), sample)
        if _is_of_floats(call, arrays) and sample.smooth:
            found.update(_deciding(_program(call, arrays, sample)))
    return found


def _is_of_floats(call: Call, arrays: dict[Var, Array]) -> bool:
    return any(is_float(array.dtype) for array in arrays.values())


def _program(call: Call, arrays: dict[Var, Array], sample: Sample) -> Any:
    """What a rule computes of the arguments, the result and its adjoint, as a jaxpr."""
    out, g = bound(call), adjoint_vars(call.ty)
    pairs = zip(partials(call, out, g), arguments(call)[0], strict=True)
    emitted = [p for p, arg in pairs if p is not None and arg is not None and has_slope(arg.ty)]

    def compute(values: Any, result: Any, adjoint: Any) -> Any:
        env = dict(zip(arrays, values, strict=True))
        assign(out, result, env)
        assign(g, adjoint, env)
        memo: dict[int, Any] = {}
        return [evaluate(partial, env, memo) for partial in emitted]

    values = [jax.ShapeDtypeStruct(a.shape, np_dtype(a.dtype)) for a in arrays.values()]
    inferred = _shapes(call.ty)
    result = lowered_shapes(call, arrays) if inferred is None else inferred
    return jax.make_jaxpr(compute)(values, result, result).jaxpr


def _shapes(ty: Type | None) -> Any:
    """The shapes and dtypes of a result, as its type says them; None where it does not.

    test_oracle.py compares what is inferred with what the lowering returns.
    """
    if isinstance(ty, TensorType) and ty.dims is not None and ty.dtype is not None:
        return jax.ShapeDtypeStruct(ty.dims, np_dtype(ty.dtype))
    fields = tuple(map(_shapes, ty.fields)) if isinstance(ty, TupleType) else ()
    return None if None in fields else fields or None


def _deciding(jaxpr: Any) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        inner = list(_inner(eqn.params.values()))
        for program in inner:
            yield from _deciding(program)
        if inner or not any(_has_floats(atom) for atom in eqn.invars):
            continue
        name = eqn.primitive.name
        if name in DECIDING or (name == INTEGERS and not _has_floats(eqn.outvars[0])):
            yield name


def _inner(params: Iterable[Any]) -> Iterator[Any]:
    for param in params:
        for one in param if isinstance(param, tuple | list) else (param,):
            program = getattr(one, "jaxpr", one)
            if hasattr(program, "eqns"):
                yield program


def _has_floats(atom: Any) -> bool:
    return bool(jnp.issubdtype(atom.aval.dtype, jnp.inexact))


# A floating-point number is compared with one that does not depend on it: with zero, a bound, a
# threshold, infinity. Rounded otherwise the answer may change only where the number is as close to
# it as rounding goes, and then it is that of a neighbour.
BY_A_NUMBER: dict[str, set[str]] = {
    "relax.abs": {"lt"},
    "relax.clip": {"gt", "lt"},
    "relax.digamma": {"lt", "round"},
    "relax.grad.nll_loss_backward": {"eq"},
    "relax.linalg.norm": {"eq"},
    "relax.linalg.svd": {"eq"},
    "relax.logsumexp": {"eq"},
    "relax.nn.batch_norm": {"gt"},
    "relax.nn.group_norm": {"gt"},
    "relax.nn.instance_norm": {"gt"},
    "relax.nn.layer_norm": {"gt"},
    "relax.nn.leakyrelu": {"gt"},
    "relax.nn.nll_loss": {"eq", "ne"},
    "relax.nn.prelu": {"gt"},
    "relax.nn.relu": {"gt"},
    "relax.nn.selu": {"gt"},
    "relax.nn.softplus": {"gt"},
    "relax.polygamma": {"lt", "round"},
    "relax.power": {"eq"},
    "relax.quantize": {"lt"},
    "relax.sinc": {"eq"},
}
# Of those the slope does not jump there: what is compared is a variance, a weight or a count, or
# another formula of the same slope takes over, as a cotangent is the same a whole number further.
WITHOUT_A_JUMP = {
    "relax.digamma",
    "relax.grad.nll_loss_backward",
    "relax.linalg.svd",
    "relax.logsumexp",
    "relax.nn.batch_norm",
    "relax.nn.group_norm",
    "relax.nn.instance_norm",
    "relax.nn.layer_norm",
    "relax.nn.nll_loss",
    "relax.nn.softplus",
    "relax.polygamma",
    "relax.power",
    "relax.quantize",
    "relax.sinc",
}
# Both sides of a choice are told from one another by one answer, or share what they have in common.
BOTH_SIDES_AT_ONCE: dict[str, set[str]] = {
    "relax.log_add_exp": {"eq"},
    "relax.maximum": {"lt"},
    "relax.minimum": {"lt"},
}
# Elements are compared with the largest of themselves, all of which are `R.grad.once`, or with the
# places that the reduction itself gives.
AMONG_NUMBERS_COMPUTED_ONCE: dict[str, set[str]] = {
    "relax.grad.max_pool1d_backward": {"gt"},
    "relax.grad.max_pool2d_backward": {"gt", "max"},
    "relax.grad.max_pool3d_backward": {"gt"},
    "relax.max": {"eq", "ne", "reduce_max"},
    "relax.min": {"eq", "ne", "reduce_min"},
    "relax.nn.max_pool1d": {"gt", "reduce_window_max", "select_and_scatter_add"},
    "relax.nn.max_pool2d": {"gt", "reduce_window_max", "select_and_scatter_add"},
    "relax.nn.max_pool3d": {"gt", "reduce_window_max", "select_and_scatter_add"},
    "relax.scatter_elements": {"eq", "max", "min", "ne"},
    "relax.scatter_nd": {"eq", "max", "ne"},
}
# The places that a sort gives are integers, and each element has one.
BY_SORTED_PLACES: dict[str, set[str]] = {
    "relax.median": {"sort"},
    "relax.sort": {"sort"},
    "relax.topk": {"sort", "top_k"},
}
# What was taken away is found from the result, and rounded where it is far from a half.
BY_THE_RESULT: dict[str, set[str]] = {"relax.floor_mod": {"round"}, "relax.mod": {"round"}}
# The largest score only shifts others, and falls out of what is computed; or sizes are bounded.
SHIFTS: dict[str, set[str]] = {
    "relax.grad.attention_backward": {"reduce_max"},
    "relax.grad.attention_bias_backward": {"eq", "is_finite", "reduce_max"},
    "relax.grad.attention_var_len_backward": {"eq", "is_finite", "reduce_max"},
    "relax.grad.avg_pool1d_backward": {"max"},
    "relax.grad.avg_pool2d_backward": {"max"},
    "relax.grad.avg_pool3d_backward": {"max"},
    "relax.grad.masked_attention_backward": {"reduce_max"},
    "relax.grad.product_nll_loss_backward": {"eq", "ne", "reduce_max"},
    "relax.grad.softmax_nll_loss_backward": {"eq", "ne", "reduce_max"},
    "relax.image.affine_grid": {"max"},
    "relax.nn.attention": {"eq", "is_finite", "reduce_max"},
    "relax.nn.attention_bias": {"eq", "is_finite", "reduce_max"},
    "relax.nn.attention_var_len": {"eq", "is_finite", "ne", "reduce_max"},
    "relax.nn.avg_pool1d": {"max"},
    "relax.nn.avg_pool2d": {"max"},
    "relax.nn.avg_pool3d": {"max"},
    "relax.nn.masked_attention": {"reduce_max"},
    "relax.nn.product_nll_loss": {"eq", "ne", "reduce_max"},
    "relax.nn.softmax_nll_loss": {"eq", "ne", "reduce_max"},
    "relax.random.uniform": {"max"},
}
_BOXES = {"ge", "gt", "lt", "max"}
_CORNERS = _BOXES | {"ceil", "convert_element_type", "floor", "ne", "round"}
# Elements are read, and weighed, by places that are `computed_once`, rounded; boxes are kept by one
# answer that is.
BY_PLACES_COMPUTED_ONCE: dict[str, set[str]] = {
    "relax.grad.grid_sample_backward": {"convert_element_type", "floor", "ge", "lt", "ne"},
    "relax.grad.roi_align_backward": _CORNERS - {"ceil", "floor"} | {"le", "min"},
    "relax.grad.roi_pool_backward": _CORNERS | {"eq", "reduce_max"},
    "relax.image.grid_sample": _CORNERS - {"ceil"} | {"eq", "min", "rem"},
    "relax.vision.all_class_non_max_suppression": _BOXES - {"lt"} | {"argmax", "le", "min"},
    "relax.vision.get_valid_counts": {"ge", "gt"},
    "relax.vision.multibox_transform_loc": _BOXES | {"reduce_max"},
    "relax.vision.non_max_suppression": _BOXES | {"argmax", "le", "min", "ne", "sort"},
    "relax.vision.roi_align": _CORNERS | {"le", "min"},
    "relax.vision.roi_pool": _CORNERS | {"eq", "reduce_max"},
}
# A sum of many shifts is divided by 1, so that a CPU stores it; NaN, which is what is unequal to
# itself, by 2: it stays NaN.
STORED_AS_A_QUOTIENT: dict[str, set[str]] = {"relax.nn.conv2d": {"ne"}, "relax.nn.conv3d": {"ne"}}
LOOKED_AT = {
    **BY_A_NUMBER,
    **BOTH_SIDES_AT_ONCE,
    **AMONG_NUMBERS_COMPUTED_ONCE,
    **BY_SORTED_PLACES,
    **BY_THE_RESULT,
    **SHIFTS,
    **BY_PLACES_COMPUTED_ONCE,
    **STORED_AS_A_QUOTIENT,
}
WITH_RULES = [
    name
    for name, op in sorted(OPS.items())
    if name.startswith("relax.")
    and op.gradient not in (None, ZERO_GRADIENT)
    and not {"loop", "higher_order", "communicates", "local_view"} & set(op.facts)
]


@pytest.mark.parametrize("name", WITH_RULES)
def test_each_rule_that_decides_by_floats_has_been_looked_at(name: str) -> None:
    with jax.enable_x64(True):
        found = decisions_of(name)
    assert found == LOOKED_AT.get(name, set()), f"look at the rule of {name}, and list why it may"


def test_nothing_else_is_listed() -> None:
    assert set(LOOKED_AT) <= set(WITH_RULES)


ONCE = ["relax.max", "relax.min", "relax.maximum", "relax.minimum"]


@pytest.mark.parametrize("name", ONCE)
def test_what_compares_elements_with_one_another_does_so_once(name: str) -> None:
    x, y = (Var(letter, TensorType((3, 4), "float32")) for letter in "xy")
    call = get_op(name)(x, y) if name.endswith("imum") else get_op(name)(x, [1])
    assert isinstance(call, Call)
    for partial in partials(call, bound(call), adjoint_vars(call.ty)):
        assert partial is not None
        assert any(_is_once(part) for part in _parts(partial))


def _is_once(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.op is get_op("relax.grad.once")


def _parts(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _parts(arg)


def test_an_operator_says_that_its_slope_jumps() -> None:
    told = {name for name, op in OPS.items() if op.facts.get("turns")}
    jumps = set(BY_A_NUMBER) - WITHOUT_A_JUMP | {"relax.maximum", "relax.minimum", "relax.where"}
    assert {name for name in told if name.startswith("relax.")} == jumps
