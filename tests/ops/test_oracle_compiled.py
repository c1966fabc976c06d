"""The oracle of operators once more, compiled as users do: each gradient in one of many ways.

A part of the table is tried; all of it, and all samples, if `RELAXJAX_FULL` is set.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from full import FULL
from operator_evaluation import call_of, has_slope
from operator_sample_table import SAMPLES
from operator_samples import Sample

from relaxjax.ir import BlockBuilder, Call, Expr, Function, IRModule, Tuple, TupleGetItem, TupleType
from relaxjax.ir.op import OPS, ZERO_GRADIENT, get_op
from relaxjax.testing import Way, compare_compilations
from relaxjax.testing.compilations import POLICIES, ROUTES
from relaxjax.testing.rounding import in_dtype, widest_of

pytestmark = pytest.mark.as_users

WAYS = [Way(route, policy) for policy in POLICIES for route in ROUTES]
# The size of their results is not known, and so there is no plan of memory.
OPEN = {"relax.dynamic_strided_slice", "relax.unique", "relax.nonzero"}
# JAX does not differentiate these by all that is a float, and so its users do not get there.
NOT_BY_JAX = {"relax.polygamma"}
# Its result is in the memory of the host, where nothing is computed to compare it with.
ON_HOST = "relax.memory.to_host"
SMOOTH = [
    pytest.param(name, sample, id=f"{name}-{SAMPLES[name].index(sample)}")
    for name, op in sorted(OPS.items())
    if op.gradient not in (None, ZERO_GRADIENT)
    and name != ON_HOST
    and not {"loop", "higher_order", "communicates", "local_view"} & set(op.facts)
    for sample in [sample for sample in SAMPLES.get(name, []) if sample.smooth][
        : None if FULL else 1
    ]
]


def _module(name: str, sample: Sample) -> tuple[IRModule, tuple[Any, ...]]:
    """A function of the sample's arrays that gives what the operator does."""
    call, arrays = call_of(get_op(name), sample)
    assert isinstance(call, Call)
    builder = BlockBuilder()
    with builder.function("main", [*arrays]):
        result: Expr = builder.emit(call)
        if isinstance(call.ty, TupleType):
            result = Tuple(tuple(TupleGetItem(result, i) for i in range(len(call.ty.fields))))
        builder.emit_func_output(result)
    values = [np.asarray(a.value(sample.seed(i))) for i, a in enumerate(arrays.values())]
    return builder.get(), tuple(values)


@pytest.mark.parametrize(("name", "sample"), SMOOTH if FULL else SMOOTH[::5])
def test_the_gradient_of_an_operator_compiled(name: str, sample: Sample) -> None:
    module, args = _module(name, sample)
    function = module["main"]
    assert isinstance(function, Function)
    result = function.body.body
    results = result.fields if isinstance(result, Tuple) else (result,)
    if not all(any(has_slope(one.ty) for one in some) for some in (function.params, results)):
        pytest.skip("nothing can move")
    way = Way("build") if name in OPEN | NOT_BY_JAX else WAYS[sum(map(ord, name)) % len(WAYS)]
    dtype = "float32" if in_dtype(module, "float32") else widest_of(module)
    compare_compilations(module, "main", args, ways=[replace(way, dtype=dtype)])
