"""Every operator of the table, legalised: it is sound, reads back, and computes the same."""

from typing import Any

import chex
import jax
import pytest
from full import share
from operator_evaluation import call_of
from operator_sample_table import SAMPLES
from quickly_compiled_programs import QUICK

from relaxjax.ir import IRModule, assert_structural_equal, check_well_formed, well_formed
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.op import Op, get_op
from relaxjax.lowering import legalize, to_jax
from relaxjax.lowering.interpreter import holds_tensors
from relaxjax.script import from_source


def sample_module(op: Op, symbolic: bool) -> tuple[IRModule, list[Any]]:
    """A module that calls an operator as its first sample says, and arguments for it."""
    call, arrays = call_of(op, SAMPLES[op.name][0], symbolic)
    builder = BlockBuilder()
    with builder.scope([var.name for var in arrays]):
        body = builder.sequence(builder.emit(call))
    function = make_function(list(arrays), body, pure=op.pure)
    values = [array.value(seed) for seed, array in enumerate(arrays.values())]
    return IRModule.from_expr(function), values


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", share(sorted(SAMPLES), one_in=2))
def test_a_legalised_operator(name: str, symbolic: bool) -> None:
    op = get_op(name)
    module, args = sample_module(op, symbolic)
    legal = legalize(module)
    if legal is module or not check_well_formed(module):
        return
    well_formed(legal)
    assert_structural_equal(from_source(legal.script()), legal)
    if not symbolic:
        legalised, plain = (jax.tree.map(numbers, run(mod, args)) for mod in (legal, module))
        chex.assert_trees_all_close(legalised, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_static_shapes_are_enough(name: str) -> None:
    """What is pure and gives tensors is, unless it says where, when or how, or needs values."""
    op = get_op(name)
    module, _ = sample_module(op, symbolic=False)
    special = {"data_dependent", "placement", "steers", "waits"} & set(op.facts)
    gives_tensors = holds_tensors(module["main"].ret_ty)
    stays = not op.pure or bool(special) or not gives_tensors
    assert (legalize(module) is module) == stays


def numbers(array: Any) -> Any:
    """What an array holds: of random keys, their data."""
    is_key = isinstance(array, jax.Array) and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(array) if is_key else array


def run(module: IRModule, args: list[Any]) -> Any:
    """The leaves of a module's result, as it is, on its arguments."""
    with jax.enable_x64(True):
        return jax.tree.leaves(jax.jit(to_jax(module, "main"), compiler_options=QUICK)(*args))
