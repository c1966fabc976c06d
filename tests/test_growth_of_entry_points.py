"""Nothing that reads, writes or runs programs does more than in proportion to a program's size.

Each is tried on some shapes, and on all of them if `RELAXJAX_FULL` is set.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from full import share
from growing_programs import SHAPES, SQUARE, chain, jax_calls, jax_loops, nested_branches, trainable
from growing_work import ENTRY_POINTS, differentiating
from growth_laws import QUADRATIC, Law, check_growth, law_of, of_shape

from relaxjax import export, from_jax, memory
from relaxjax.dpl import PatternContext, is_const, is_op, rewrite_bindings, rewrite_call, wildcard
from relaxjax.ir import IRModule, check_well_formed, structural_hash
from relaxjax.ir.dims import SymbolicVar, dim_sum
from relaxjax.ir.op import get_op
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.passes import Gradient, LegalizeOps, SetupTrainer

EXCEPTIONS: dict[tuple[str, str], Law] = {}


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text() -> None:
    """Here they are only counted."""


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_an_entry_point(name: str) -> None:
    shapes = [shape for shape in SHAPES if shape not in ("squarings", "images", "fan")]
    for shape in share(shapes, one_in=2, of=name):
        check_growth(of_shape(shape, ENTRY_POINTS[name]), shape, EXCEPTIONS.get((name, shape)))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_builder(shape: str) -> None:
    check_growth(lambda size: partial(SHAPES[shape], size), shape)


@pytest.mark.parametrize("shape", ["squarings", "ladder", "wide"])
def test_value_and_grad(shape: str) -> None:
    check_growth(of_shape(shape, differentiating), shape)


@pytest.mark.parametrize("function", [jax_loops, jax_calls])
def test_functions_of_jax_nested_in_one_another(function: Callable[[int], Any]) -> None:
    x = jnp.ones((2, 2))
    law = law_of("nested_loops")
    check_growth(lambda depth: partial(from_jax, function(depth), x), "nested_loops", law)


def test_export(tmp_path: Path) -> None:
    def exporting(mod: IRModule) -> Callable[[], Any]:
        return partial(export, mod, tmp_path / "artifact", platforms=["cpu"])

    check_growth(of_shape("chain", exporting), "chain")


def test_making_a_model_trainable() -> None:
    """Of fewer layers than are put into a loop."""
    setup = SetupTrainer(MSELoss(), SGD(0.1), [SQUARE, SQUARE])
    check_growth(lambda size: partial(setup, trainable(size)), "layers", sizes=(3, 6, 12))


def test_the_report_of_memory() -> None:
    def adjoint(mod: IRModule) -> Callable[[], Any]:
        mod = LegalizeOps()(Gradient("main", lazy=True)(mod))
        return lambda: memory(mod, "main_adjoint").rows

    check_growth(of_shape("ladder", adjoint), "ladder")


def test_rewriting() -> None:
    inner, twice = wildcard(), wildcard()
    pattern = is_op("relax.multiply")(inner, is_const())

    def calls(mod: IRModule) -> Callable[[], Any]:
        return lambda: rewrite_call(pattern, lambda _, found: found[inner] * 2.0, mod["main"])

    with PatternContext() as context:
        value = is_op("relax.sin")(twice)

    def bindings(mod: IRModule) -> Callable[[], Any]:
        def cosine(found: Any, _: Any) -> Any:
            return {found[value]: get_op("relax.cos")(found[twice])}

        return lambda: rewrite_bindings(context, cosine, mod["main"])

    for rewriting in (calls, bindings):
        check_growth(of_shape("chain", rewriting), "chain")


def test_work_that_grows_faster_is_found() -> None:
    """Whether in lines, or in what a built-in goes over; and so are calls in calls."""

    def pairs(size: int) -> Callable[[], Any]:
        mod = chain(size)
        return lambda: [structural_hash(mod) for _ in range(size)]

    def sorting(size: int) -> Callable[[], Any]:
        dims = [SymbolicVar(f"n{index}") for index in range(size)]
        return lambda: [dim_sum(dims) for _ in range(size)]

    for quadratic in (pairs, sorting):
        with pytest.raises(AssertionError, match=r"chain: the work .* grows faster than n log n"):
            check_growth(quadratic, "chain")
        check_growth(quadratic, "chain", QUADRATIC)

    def nested(size: int) -> Callable[[], Any]:
        return partial(check_well_formed, nested_branches(size))

    with pytest.raises(AssertionError, match=r"chain: calls stand \[.*\] deep in one another"):
        check_growth(nested, "chain", QUADRATIC)
