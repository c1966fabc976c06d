"""The backend "numpy" at the edges of every dtype: it gives there what compiled programs give.

Of numbers too small to be normal that is not so: XLA takes them for 0 on CPUs.
"""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from operator_evaluation import evaluate
from quickly_compiled_programs import QUICK

from relaxjax.backends import evaluate_numpy, numpy_supports
from relaxjax.backends.numpy_operators import NUMPY
from relaxjax.ir import BlockBuilder, Call, Function, TensorType, Var
from relaxjax.ir.op import Op, get_op
from relaxjax.ops.declare import OpError

DTYPES = ["bool", "int8", "uint8", "int32", "uint32", "float16", "float32"]
# More of them than NumPy needs in between, which computes in float32.
TOLERANCES = {"float16": 4e-3, "float32": 1e-5}
_FEW = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 100.0]


def _edges(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.array([False, True])
    if "int" in dtype:
        limits = np.iinfo(dtype)
        numbers = [0, 1, 2, 3, 7, limits.max - 1, limits.max, limits.min]
        return np.array([*numbers, *([-1, -2, -7] if limits.min < 0 else [])], dtype)
    return np.array([*_FEW, np.finfo(dtype).tiny, np.finfo(dtype).eps], dtype)


def _calls(op: Op, edges: np.ndarray) -> Iterator[Call]:
    """Calls of an operator on variables of all edges; of two arguments, on each pair of them."""
    count = sum(param.is_arg and param.required for param in op.params)
    x = Var("x", TensorType((len(edges),), str(edges.dtype)))
    y = Var("y", TensorType((len(edges), 1), str(edges.dtype)))
    more: list[tuple[Any, ...]] = [()]
    if op is get_op("relax.astype"):
        more = [(dtype,) for dtype in DTYPES]
    elif op is get_op("relax.clip"):
        more, count = [(-2, 3), (0.5, np.inf)], 1
    elif op is get_op("relax.where"):
        return
    for options in more:
        try:
            yield op(*[x, y, x][:count], *options)
        except OpError:  # there is no such dtype for it
            continue


def _region(call: Call) -> Function:
    builder = BlockBuilder()
    with builder.function(
        "region", [arg for arg in dict.fromkeys(call.args) if isinstance(arg, Var)]
    ):
        builder.emit_func_output(builder.emit(call))
    function: Function = builder.get()["region"]
    return function


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_agrees_with_xla_at_the_edges(dtype: str) -> None:
    edges = _edges(dtype)
    ops = [get_op(name) for name in sorted(NUMPY)]
    calls = [
        call
        for op in ops
        if op.facts.get("elementwise")
        for call in _calls(op, edges)
        if numpy_supports(call)
    ]
    assert len(calls) > 10
    values = {"x": edges, "y": edges[:, None]}

    def run(values: Any) -> Any:
        return [
            evaluate(call, {a: values[a.name] for a in call.args if isinstance(a, Var)})
            for call in calls
        ]

    expected = jax.jit(run, compiler_options=QUICK)(values)
    for call, wanted in zip(calls, expected, strict=True):
        region = _region(call)
        found = evaluate_numpy(region, [values[param.name] for param in region.params])
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(
            np.asarray(found, "float64"),
            np.asarray(wanted, "float64"),
            rtol=TOLERANCES.get(str(found.dtype), 0),
            atol=TOLERANCES.get(str(found.dtype), 0),
            err_msg=str(call),
        )
