"""Every operator is lowered for a GPU and a TPU too: that takes no such device, and runs nothing.

The forms of an operator differ by platform, so what a CPU shows of one says little of another.
"""

import re
from typing import Any

import jax
import pytest
from jax import export
from operator_evaluation import call_of
from operator_sample_table import SAMPLES

from relaxjax.ir import BlockBuilder, IRModule
from relaxjax.ir.op import OPS, get_op
from relaxjax.lowering import legalize, to_jax

pytestmark = pytest.mark.usefixtures("in_64_bits")

ELSEWHERE = ("cuda", "tpu")
# What JAX cannot trace from types alone, and what a program cannot be lowered with.
LEFT_OUT = {"relax.dynamic_strided_slice", "relax.nonzero", "relax.tensor_to_shape", "relax.unique"}
LEFT_OUT |= {"relax.dist.annotate_sharding", "relax.dist.redistribute"}  # of devices that are there
NAMES = sorted(
    name
    for name in SAMPLES
    if name not in LEFT_OUT and OPS[name].pure and OPS[name].lower is not None
)
GROUPS = [NAMES[start::12] for start in range(12)]
# The operations of the forms that are for no CPU, of which an operator has one or several.
FORMS = {
    r"relax\.nn\.conv\d.*": {"convolution"},
    r"relax\.(nn|grad)\.(max|avg)_pool\d.*": {"reduce_window", "select_and_scatter"},
    r"relax\.grad\.(once|delay)": {"optimization_barrier"},
}
# Calls out of a program that JAX makes on these platforms, for sorting and linear algebra.
KNOWN_CALLS = re.compile(
    r"cu|hip|__|tpu|TopK|mhlo|Sharding|ApproxTopK|Qr|ProductOfElementary|Eigh|Lu|chlo|annotate"
)


def module_of_samples(names: list[str]) -> tuple[IRModule, dict[str, list[Any]]]:
    """A function for each of the first samples of some operators, and its arguments."""
    builder, values = BlockBuilder(), {}
    for name in names:
        for index, sample in enumerate(SAMPLES[name][:3]):
            call, arrays = call_of(get_op(name), sample)
            function = f"{name.replace('.', '_')}_{index}"
            with builder.function(function, list(arrays)):
                builder.emit_func_output(builder.emit(call))
            values[function] = [array.value(i) for i, array in enumerate(arrays.values())]
    return builder.get(), values


@pytest.mark.parametrize("platform", ELSEWHERE)
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_operators_are_lowered(group: int, platform: str) -> None:
    """Each as a function of one program, whose text tells what it became."""
    mod, values = module_of_samples(GROUPS[group])
    legal = legalize(mod, platform)

    def run(given: dict[str, list[Any]]) -> Any:
        return {name: jax.jit(to_jax(legal, name))(*args) for name, args in given.items()}

    text = export.export(jax.jit(run), platforms=[platform])(values).mlir_module()
    bodies = dict(re.findall(r"func\.func private @(relax_\w+?_\d+)\((.*?)\n  }", text, re.DOTALL))
    for name in GROUPS[group]:
        of_name = rf"{name.replace('.', '_')}_\d"
        found = "\n".join(body for key, body in bodies.items() if re.fullmatch(of_name, key))
        forms = [ops for pattern, ops in FORMS.items() if re.fullmatch(pattern, name)]
        operations = set(re.findall(r"stablehlo\.(\w+)", found))
        assert all(operations & ops for ops in forms), (name, operations)
    calls = set(re.findall(r"custom_call @([\w$.]+)", text))
    assert all(map(KNOWN_CALLS.match, calls)), calls


def test_each_form_is_of_an_operator() -> None:
    for pattern in FORMS:
        assert any(re.fullmatch(pattern, name) for name in NAMES), pattern
