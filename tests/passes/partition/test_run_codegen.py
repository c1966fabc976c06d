"""Regions compiled by a backend that a user writes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.backends import registry
from relaxjax.ir import Function, assert_structural_equal
from relaxjax.ir.renew import renew
from relaxjax.lowering import build, to_jax
from relaxjax.passes import RunCodegen

MODULE = parse_functions("""
    @R.function
    def region(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.func_attr({"Codegen": "mine"})
        y = R.exp(x)
        return y

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            y = Module.region(x)
            z = Module.region(y)
            R.output(z)
        return z
    """)
X = np.array([0.5, -1.0], "float32")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """What the backend `mine` was asked to compile; it computes `exp` times an option."""
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    asked: list[tuple[str, float]] = []

    def compile(region: Function, scale: float = 1.0) -> Callable[..., Any]:
        asked.append((str(region.global_symbol), scale))
        return lambda x: jnp.exp(x) * jnp.float32(scale)

    registry.register_backend("mine", compile)
    return asked


def test_each_region_is_compiled_once_and_its_calls_call_the_outcome(
    compiled: list[tuple[str, float]],
) -> None:
    mod = RunCodegen()(MODULE)
    assert compiled == [("region", 1.0)]
    symbol = mod["main"].body.blocks[0].bindings[0].value.op.symbol
    assert symbol.startswith("mine.region.")
    assert_structural_equal(
        mod,
        parse_functions(f"""
            @R.function
            def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                with R.dataflow():
                    y = R.call_pure_packed("{symbol}", x, ty_args=R.Tensor((2,), "float32"))
                    z = R.call_pure_packed("{symbol}", y, ty_args=R.Tensor((2,), "float32"))
                    R.output(z)
                return z
            """),
    )
    assert RunCodegen()(mod) is mod


def test_the_outcome_is_a_part_of_the_compiled_program(compiled: list[tuple[str, float]]) -> None:
    executable = build(RunCodegen()(MODULE))
    assert executable["main"].compiles
    np.testing.assert_allclose(executable["main"](X), np.exp(np.exp(X)), rtol=1e-6)
    assert "stablehlo.exponential" in executable["main"].lowered((X,)).as_text()


def test_what_jax_can_differentiate_stays_so(compiled: list[tuple[str, float]]) -> None:
    run = to_jax(RunCodegen()(MODULE), "main")
    gradient = jax.grad(lambda x: run(x).sum())(jnp.asarray(X))
    np.testing.assert_allclose(gradient, np.exp(np.exp(X)) * np.exp(X), rtol=1e-5)


def test_options_make_another_outcome(compiled: list[tuple[str, float]]) -> None:
    plain, scaled = RunCodegen()(MODULE), RunCodegen({"mine": {"scale": 2.0}})(MODULE)
    np.testing.assert_allclose(build(plain)["main"](X), np.exp(np.exp(X)), rtol=1e-6)
    np.testing.assert_allclose(build(scaled)["main"](X), 2 * np.exp(2 * np.exp(X)), rtol=1e-6)
    assert compiled == [("region", 1.0), ("region", 2.0)]


def test_only_what_the_entry_functions_call(compiled: list[tuple[str, float]]) -> None:
    copy, _ = renew(MODULE["main"].with_attr("global_symbol", "other"))
    mod = MODULE.with_function("other", copy)
    changed = RunCodegen(entry_functions=["main"])(mod)
    assert compiled == [("region", 1.0)]
    assert changed["other"] is copy
    assert changed["region"] is MODULE["region"], "`other` calls it"
    assert set(RunCodegen()(changed)) == {"main", "other"}


def test_options_that_a_backend_does_not_take(compiled: list[tuple[str, float]]) -> None:
    message = "the backend `mine` has no option `scal`: it takes `scale`; did you mean `scale`"
    with pytest.raises(TypeError, match=message):
        RunCodegen({"mine": {"scal": 2.0}})(MODULE)


def test_a_backend_that_gives_no_function(compiled: list[tuple[str, float]]) -> None:
    nothing: Any = lambda region: None  # noqa: E731
    registry.register_backend("mine", nothing, override=True)
    with pytest.raises(TypeError, match=r"must give .* for the region `region`, but it gave None"):
        RunCodegen()(MODULE)
