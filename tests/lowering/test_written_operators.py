"""Every operator written as plain JAX: the program is the one that the module itself runs."""

import inspect
from typing import Any

import jax
import pytest
from full import share
from operator_evaluation import call_of
from operator_sample_table import SAMPLES
from written_programs import canonical, written

from relaxjax.ir import BlockBuilder, IRModule
from relaxjax.ir.op import get_op
from relaxjax.lowering import LoweringError, legalize, to_jax, to_python
from relaxjax.ops.platform import PLATFORM, asked_for_platform

pytestmark = pytest.mark.usefixtures("in_64_bits")

# What JAX cannot trace from types alone.
DYNAMIC = {"relax.dynamic_strided_slice", "relax.nonzero", "relax.tensor_to_shape", "relax.unique"}


def module_of_samples(name: str) -> tuple[IRModule, dict[str, list[Any]]]:
    """A function for each sample of an operator, and the arguments of each."""
    builder, values = BlockBuilder(), {}
    for index, sample in enumerate(SAMPLES[name]):
        call, arrays = call_of(get_op(name), sample)
        with builder.function(f"f{index}", list(arrays)):
            builder.emit_func_output(builder.emit(call))
        values[f"f{index}"] = [array.value(i) for i, array in enumerate(arrays.values())]
    return builder.get(), values


STEERING = {name for name in SAMPLES if "steers" in get_op(name).facts}


@pytest.mark.parametrize("name", share(sorted(set(SAMPLES) - DYNAMIC - STEERING), one_in=2))
def test_the_program_is_the_same(name: str) -> None:
    mod, values = module_of_samples(name)
    legal = legalize(mod).without_attr(PLATFORM)
    functions = written(legal)
    for function, args in values.items():
        found = jax.make_jaxpr(inspect.unwrap(functions[function]))(*args)
        with asked_for_platform():  # what runs has the axes of convolutions in another order
            expected = jax.make_jaxpr(to_jax(legal, function))(*args)
        assert canonical(found) == canonical(expected)


@pytest.mark.parametrize("name", sorted(STEERING))
def test_what_only_says_how_to_differentiate_is_left_out(name: str) -> None:
    mod, values = module_of_samples(name)
    functions = written(legalize(mod))
    for function, args in values.items():
        assert not jax.make_jaxpr(inspect.unwrap(functions[function]))(*args).eqns


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_what_depends_on_values_is_refused(name: str) -> None:
    mod, _ = module_of_samples(name)
    match = rf"`f0`: `R.{name.removeprefix('relax.')}\(.*cannot be written as plain JAX: JAX needs"
    with pytest.raises(LoweringError, match=match):
        to_python(mod)
