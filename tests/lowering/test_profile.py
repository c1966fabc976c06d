"""Profiles: what each kernel of a compiled program takes, and which bindings it computes."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from relaxjax import from_jax, to_jax
from relaxjax.lowering import profile
from relaxjax.lowering.compiled_text import computations_of
from relaxjax.lowering.profile import _kernels, profiled
from relaxjax.lowering.scopes import bindings_by_scope, scopes_in

TEXT = """
%fused_computation (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  %mul.1 = f32[4]{0} multiply(%param_0, %param_0), metadata={op_name="jit(f)/main.a/mul"}
  ROOT %tanh.1 = f32[4]{0} tanh(%mul.1), metadata={op_name="jit(f)/main.b/tanh"}
}

%body (arg: (f32[4])) -> (f32[4]) {
  %arg = (f32[4]{0}) parameter(0)
  %item = f32[4]{0} get-tuple-element(%arg), index=0
  %step = f32[4]{0} fusion(%item), kind=kLoop, calls=%fused_computation
  ROOT %out = (f32[4]{0}) tuple(%step)
}

%condition (arg.1: (f32[4])) -> pred[] {
  ROOT %yes = pred[] constant(true)
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %copy.1 = f32[4]{0} copy(%x)
  %init = (f32[4]{0}) tuple(%copy.1)
  %loop = (f32[4]{0}) while(%init), condition=%condition, body=%body
  ROOT %result = f32[4]{0} get-tuple-element(%loop), index=0
}
"""


def test_what_a_loop_runs_is_counted_and_not_the_loop() -> None:
    computations, _ = computations_of(TEXT)
    events = {"loop": [9.0, 9.0], "step": [1.0, 2.0, 1.5, 1.0, 2.0, 1.5], "copy.1": [0.5, 0.25]}
    step, copy = _kernels(computations, events, 2)
    assert (step.name, step.milliseconds, step.times) == ("step", 4.5, 3)
    assert step.places == ("jit(f)/main.a/mul", "jit(f)/main.b/tanh")
    assert (copy.name, copy.milliseconds, copy.times, copy.places) == ("copy.1", 0.375, 1, ())


def test_a_loop_of_which_nothing_is_told_is_counted_itself() -> None:
    computations, _ = computations_of(TEXT)
    (loop,) = _kernels(computations, {"loop": [4.0]}, 1)
    assert loop.places == ("jit(f)/main.a/mul", "jit(f)/main.b/tanh")


def test_kernels_know_the_bindings_that_they_compute() -> None:
    def rows(w: Any, x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return jnp.tanh(carry @ row), carry.sum()

        return jax.lax.scan(step, x, w)[0].sum()

    w, x = jnp.ones((5, 8, 8)), jnp.ones((8, 8))
    mod = from_jax(rows, w, x)
    (name,) = mod.relax_functions()
    found = profiled(to_jax(mod, name), w, x)
    assert found.device == jax.devices()[0].device_kind
    assert found.runs >= 1
    assert found.milliseconds > 0
    scopes = bindings_by_scope(mod)
    product = [
        kernel
        for kernel in found.kernels
        if any("dot_general" in place and scopes_in(place, scopes) for place in kernel.places)
    ]
    assert [kernel.times for kernel in product] == [5]
    assert not any(kernel.name.startswith("while") for kernel in found.kernels)
    assert [one.milliseconds for one in found.kernels] == sorted(
        (one.milliseconds for one in found.kernels), reverse=True
    )


def test_what_takes_long_is_measured_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "LONG_ENOUGH", 0.0)
    double = jax.jit(lambda x: x * 2)
    times, _ = profile._runs(lambda: double(jnp.ones(4)).block_until_ready())
    assert len(times) == 1
