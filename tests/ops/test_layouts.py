"""Layout rules: a call computed on rearranged tensors gives the same result, rearranged."""

import random
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from operator_evaluation import call_of, evaluate
from operator_sample_table import SAMPLES
from quickly_compiled_programs import QUICK

from relaxjax.ir import Call, Expr, TensorType, Tuple, TupleGetItem, TupleType, Var
from relaxjax.ir.layout import (
    OPAQUE,
    LayoutRule,
    Orders,
    Relayout,
    Sensitivity,
    between,
    inverse,
    known,
    without,
)
from relaxjax.ir.op import OPS, get_op
from relaxjax.ops import OpError
from relaxjax.ops.rearranging import AGNOSTIC

# One rule serves all of these: some of them stand for the rest.
_ALIKE = ["relax.add", "relax.where", "relax.clip", "relax.nn.gelu", "relax.zeros_like"]
RELAX = sorted(name for name in OPS if name.startswith("relax."))
RULED = [
    name
    for name in RELAX
    if OPS[name].layout is not OPAQUE and (OPS[name].layout is not AGNOSTIC or name in _ALIKE)
]


def rule_of(name: str) -> LayoutRule:
    rule = OPS[name].layout
    assert isinstance(rule, LayoutRule), f"{name} declares no layout rule"
    return rule


@pytest.mark.parametrize("name", RELAX)
def test_every_operator_has_a_rule_or_is_opaque(name: str) -> None:
    rule = rule_of(name)
    assert (rule is OPAQUE) == (rule.sensitivity is Sensitivity.OPAQUE)
    assert not OPS[name].facts.get("elementwise") or rule is not OPAQUE


def some_order(draw: random.Random, ndim: int) -> tuple[int, ...] | None:
    """An order that moves something, where there are two axes."""
    axes = list(range(ndim))
    while ndim > 1 and known(axes) is None:
        draw.shuffle(axes)
    return known(axes)


def orders_of(expr: Expr, drawn: dict[int, Any]) -> Orders:
    """An order for each tensor in an argument, the same for all of one rank."""
    if isinstance(expr.ty, TupleType):
        return [orders_of(TupleGetItem(expr, i), drawn) for i in range(len(expr.ty.fields))]
    return drawn.get(expr.ty.ndim) if isinstance(expr.ty, TensorType) else None


def rearranged(value: Any, orders: Orders) -> Any:
    if isinstance(orders, list):
        return tuple(map(rearranged, value, orders))
    return value if orders is None else np.transpose(value, orders)


def put_back(expr: Expr, orders: Orders) -> Expr:
    """An argument in other orders, as an expression of the argument."""
    if isinstance(orders, list):
        return Tuple(tuple(map(put_back, expr, orders)))
    return expr if orders is None else get_op("relax.permute_dims")(expr, list(orders))


def check(call: Call, arrays: dict[Var, Any], relayout: Relayout) -> None:
    """The rearranged call gives the rearranged result."""
    args = [put_back(arg, orders) for arg, orders in zip(call.args, relayout.args, strict=True)]
    rebuilt = relayout.rebuild(args)
    variables = list(arrays)

    def both(*values: Any) -> Any:
        env = dict(zip(variables, values, strict=True))
        return evaluate(call, env), evaluate(rebuilt, env)

    run = jax.jit(both, compiler_options=QUICK)
    expected, found = jax.tree.map(np.asarray, run(*arrays.values()))
    wanted = rearranged(expected, relayout.result)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


def relayouts(name: str) -> Sequence[tuple[Call, dict[Var, Any], Relayout]]:
    """Calls of an operator's samples, and how the rule computes them in random orders."""
    found = []
    draw, rule = random.Random(name), rule_of(name)
    for index, item in enumerate(SAMPLES[name]):
        call, arrays = call_of(OPS[name], item)
        seed = item.seed(index)
        values = {var: array.value(seed + i) for i, (var, array) in enumerate(arrays.items())}
        drawn = {ndim: some_order(draw, ndim) for ndim in range(2, 7)}
        if index == 0:
            drawn[4] = (0, 2, 3, 1)  # the one that some operators know by its letters
        followed = rule.follow(call, [orders_of(arg, drawn) for arg in call.args])
        if followed is not None:
            found.append((call, values, followed))
        order = some_order(draw, call.ty.ndim) if isinstance(call.ty, TensorType) else None
        produced = rule.produce(call, order) if rule.produce and order else None
        if produced is not None:
            assert produced.result == order
            found.append((call, values, produced))
    return found


@pytest.mark.parametrize("name", RULED)
def test_a_rearranged_call_gives_the_rearranged_result(name: str) -> None:
    with jax.enable_x64(True):
        found = relayouts(name)
        assert found, f"no sample of {name} can be rearranged"
        shared = sum(OPS[other].layout is OPS[name].layout for other in RULED) > 2
        for call, values, relayout in found[: 1 if shared else 2]:
            check(call, values, relayout)


def test_orders_undo_and_compose() -> None:
    order = (2, 0, 3, 1)
    assert inverse(order) == (1, 3, 0, 2)
    assert between(order, order, 4) is None
    assert between(order, None, 4) == inverse(order)
    assert between(None, order, 4) == order
    assert without(order, [0]) == (1, 2, 0)
    assert without((0, 2, 3, 1), [2, 3]) is None


def conv(**attrs: Any) -> Call:
    data, weight = (Var(n, TensorType((2, 4, 8, 8), "float32")) for n in "xw")
    return get_op("relax.nn.conv2d")(data, weight, padding=1, **attrs)


def test_a_wish_that_fits_no_letters_is_an_error() -> None:
    choose = rule_of("relax.nn.conv2d").choose
    assert choose is not None
    with pytest.raises(OpError, match='letters of "NCHW", each once, but "NCHW4c" is wished for'):
        choose(conv(), ["NCHW4c", "OIHW4o"])
    with pytest.raises(OpError, match="takes 2 or 3 layouts, of its data first"):
        choose(conv(), ["NHWC"])


def test_the_kernel_adjoint_is_not_asked() -> None:
    choose = rule_of("relax.nn.conv2d").choose
    assert choose is not None
    adjoint = conv(data_layout="CNHW", kernel_layout="IOHW", out_layout="CNHW")
    assert choose(adjoint, ["NHWC", "HWIO"]) is None


@pytest.mark.parametrize(
    "name", ["relax.grad.avg_pool2d_backward", "relax.grad.max_pool2d_backward"]
)
def test_an_adjoint_is_followed_by_the_layout_of_the_result(name: str) -> None:
    """Where the order of the adjoint alone is known, and results have letters of their own."""
    given = [Var("g", TensorType((1, 2, 2, 3), "float32")), Var("x", TensorType((1, 3, 4, 4)))]
    layouts = {"layout": "NCHW", "out_layout": "NHWC"}
    call = get_op(name)(*given, pool_size=(2, 2), strides=(2, 2), **layouts)
    followed = rule_of(name).follow(call, [(0, 2, 3, 1), None])
    assert followed is not None
    assert list(followed.args) == [(0, 2, 3, 1), (0, 3, 1, 2)]
    assert followed.result == (0, 3, 1, 2)
