"""Random programs: what `Gradient` and `Jvp` make of them against what JAX does.

    RELAXJAX_PROGRAMS=20000 python -m pytest tests/passes/differentiation/test_gradient_fuzz.py

tries more of them, each time others.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differentiable_programs import Program, programs
from full import how_many
from hypothesis import HealthCheck, given, settings
from quickly_compiled_programs import QUICK

from relaxjax import from_source, to_jax
from relaxjax.ir import Call, Expr, IRModule, Op, assert_structural_equal, well_formed
from relaxjax.ir.expand import expand_calls
from relaxjax.passes import Gradient, Jvp
from relaxjax.testing.equations import run

PROGRAMS = how_many(20, 3000)
FEW = max(4, PROGRAMS // 7)  # in each of the other ways

# Programs are large, and many of them are put aside.
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
# How far two ways of computing the same in a dtype may lie apart, relative to the largest number.
TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "float16": 0.1, "bfloat16": 0.3}


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text() -> None:
    """Two of the tests here look at the text; the others try many more programs without."""


def cotangent_of(leaf: Any) -> Any:
    """A cotangent for a target: 1 for a scalar, no two alike for others."""
    spread = np.cos(np.arange(math.prod(leaf.shape)))
    return jnp.asarray(spread.reshape(leaf.shape), leaf.dtype)


def by_jax(program: Program, *arrays: Any) -> tuple[Any, Any]:
    """The target of a program and its gradients by every float, as JAX computes them."""
    forward = to_jax(with_loops_of_known_length(program.module), "main")

    def target(*floats: Any) -> Any:
        return target_of(program, forward(*floats, *flag_and_places(program, arrays)))

    value, pullback = jax.vjp(target, *arrays[:3])
    return value, pullback(jax.tree.map(cotangent_of, value))


def with_loops_of_known_length(module: IRModule) -> IRModule:
    """The module with its while loops as scans: JAX differentiates no others backwards."""

    def as_scan(call: Call) -> Expr | None:
        if not isinstance(call.op, Op) or call.op.name != "relax.while_loop":
            return None
        assert call.op.training_form is not None
        return call.op.training_form(*call.args, **{**call.attrs, "checkpoint": False})

    functions = module.relax_functions().items()
    return module.with_functions({name: expand_calls(f, as_scan) for name, f in functions})


def by_gradient(program: Program, cotangents: Sequence[Any], *arrays: Any) -> tuple[Any, Any]:
    """The same by the adjoint function."""
    index, cotangent = program.target_index, program.cotangent
    gradient = Gradient("main", target_index=index, cotangent=cotangent, lazy=program.paired)
    adjoint = gradient(program.module)
    args = *arrays[:3], *flag_and_places(program, arrays), *cotangents
    result, gradients = to_jax(adjoint, "main_adjoint")(*args)
    return target_of(program, result), gradients[:3]


def flag_and_places(program: Program, arrays: Sequence[Any]) -> tuple[Any, Any]:
    """The flag is known while the program is traced: half of its branches are chosen then."""
    return program.args[3], arrays[3]


def target_of(program: Program, result: Any) -> Any:
    return result[program.target_index] if program.paired else result


def check(program: Program) -> bool:
    """Compare what `Gradient` writes with JAX's reverse mode."""
    arrays = (*program.args[:3], program.args[4])
    expected = run(partial(by_jax, program), *arrays)
    cotangents = [jax.tree.map(cotangent_of, expected[0])] if program.cotangent else []
    found = run(partial(by_gradient, program, cotangents), *arrays)
    return agree(program, found, expected)


def push_forward(program: Program) -> bool:
    """Compare what `Jvp` writes with JAX's forward mode."""
    arrays = (*program.args[:3], program.args[4])
    tangents = jax.tree.map(cotangent_of, program.args[:3])

    def by_jvp(*arrays: Any) -> Any:
        pushed = Jvp("main")(program.module)
        readable(pushed)
        args = *arrays[:3], *flag_and_places(program, arrays), *tangents
        return to_jax(pushed, "main_jvp")(*args)

    def by_jax(*arrays: Any) -> Any:
        forward, known = to_jax(program.module, "main"), flag_and_places(program, arrays)
        return jax.jvp(lambda *floats: forward(*floats, *known), arrays[:3], tangents)

    return agree(program, run(by_jvp, *arrays), run(by_jax, *arrays))


def readable(module: IRModule) -> None:
    """Assert that a module is well-formed, and that its text parses back to it."""
    well_formed(module)
    assert_structural_equal(from_source(module.script()), module)


def agree(program: Program, found: Any, expected: Any) -> bool:
    """Assert that two results are the same; False where a number is not finite."""
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    assert [(a.shape, a.dtype) for a, _ in pairs] == [(b.shape, b.dtype) for _, b in pairs]
    numbers = [tuple(np.asarray(x, "float64") for x in pair) for pair in pairs]
    if not all(np.all(np.isfinite(e)) for _, e in numbers):
        return False
    scale = max(1.0, *(np.max(np.abs(e), initial=0) for _, e in numbers))
    tolerance = max(TOLERANCE[dtype] for dtype in program.dtypes) * scale
    for one, other in numbers:
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
    return True


def try_all(count: int, dtypes: Sequence[str], test: Callable[[Program], bool]) -> None:
    """Try random programs; most of them must say something."""
    outcomes: list[bool] = []

    @settings(max_examples=count, suppress_health_check=CHECKS)
    @given(programs(dtypes))
    def one(program: Program) -> None:
        with jax.enable_x64(True):
            outcomes.append(test(program))

    one()
    assert len(outcomes) >= count
    assert sum(outcomes) > 0.9 * count - 1


def test_random_programs() -> None:
    try_all(PROGRAMS, ["float32", "float64"], check)


def test_random_programs_of_narrow_dtypes() -> None:
    try_all(FEW, ["bfloat16", "float16", "float32"], check)


def test_random_programs_forward() -> None:
    try_all(FEW, ["float32", "float64"], push_forward)


def test_random_adjoints_are_programs_like_others() -> None:
    """They are well-formed, and their text parses back to them."""

    def survives(program: Program) -> bool:
        index, cotangent = program.target_index, program.cotangent
        for lazy in (True, False):
            gradient = Gradient("main", target_index=index, cotangent=cotangent, lazy=lazy)
            readable(gradient(program.module))
        return True

    try_all(FEW, ["float32", "bfloat16"], survives)


@settings(max_examples=how_many(10, 1500), suppress_health_check=CHECKS)
@given(programs(["float32"]))
def test_what_numpy_computes_is_what_jax_computes(program: Program) -> None:
    """So that no comparison above rests on an error that both sides share."""
    function = to_jax(program.module, "main")
    expected = jax.jit(function, compiler_options=QUICK)(*program.args)
    chex.assert_trees_all_close(run(function, *program.args), expected, rtol=1e-3, atol=1e-3)
