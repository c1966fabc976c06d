"""Which form of an operator is chosen for which platform, seen in the legalised program."""

import chex
import jax
import numpy as np
import pytest
from legal_forms import PRODUCT, both_agree, chosen, module_of, primitives, run_anywhere
from parsing import parse_main

from relaxjax.ir import IRModule
from relaxjax.ops.platform import by_platform, lowering_for, platform
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, SimplifyGradient


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling_takes_slices_on_a_cpu_and_windows_elsewhere(kind: str) -> None:
    window = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}
    forward, backward = f"relax.nn.{kind}_pool2d", f"relax.grad.{kind}_pool2d_backward"
    for name, shapes in ((forward, [(2, 3, 8, 8)]), (backward, [(2, 3, 4, 4), (2, 3, 8, 8)])):
        on_cpu, on_gpu = (chosen(target, name, *shapes, **window) for target in ("cpu", "cuda"))
        reduced = [key for key in on_gpu if key.startswith(("reduce_window", "select_and"))]
        assert reduced
        assert not any(on_cpu[key] for key in reduced)
        both_agree(name, *shapes, **window)


def test_attention_takes_chunks_of_queries_on_a_cpu() -> None:
    shapes = [(1, 300, 2, 4)] * 3
    counts = [
        chosen(target, "relax.nn.attention", *shapes, causal_mask="TopLeft")[PRODUCT]
        for target in ("cpu", "cuda")
    ]
    assert counts == [6, 2]
    both_agree("relax.nn.attention", *shapes, causal_mask="TopLeft")


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adjoints_of_pooling_where_windows_have_gaps_or_none_at_the_end(kind: str) -> None:
    """JAX has no derivative of XLA's windows with gaps; a late window in ceil_mode is left out."""
    name = f"relax.grad.{kind}_pool2d_backward"
    both_agree(name, (1, 2, 3, 2), (1, 2, 5, 4), pool_size=2, dilation=2)
    late = {"pool_size": 1, "padding": (1, 2, 2, 2), "ceil_mode": True}
    both_agree(name, (1, 1, 6, 6), (1, 1, 4, 3), **late)


@pytest.mark.parametrize("size", [2, 9])
def test_second_derivatives_of_pooling_gather_by_places(size: int) -> None:
    """XLA's windows choose by pairs of numbers, packed into one: float64 would be rounded."""
    attrs = {"pool_size": (size, size), "strides": (1, 1), "padding": (1, 1)}
    rows = 12 + 2 - size
    mod = module_of(
        "relax.grad.max_pool2d_backward", [(2, 3, rows + 1, rows + 1), (2, 3, 12, 12)], **attrs
    )
    args = [np.random.default_rng(0).normal(size=(2, 3, n, n)) for n in (rows + 1, 12, 12)]
    found = []
    for target in ("cuda", "cpu"):
        with lowering_for(target):
            form = LegalizeOps(target)(Gradient("main", cotangent=True)(mod))
        counts = primitives(IRModule({"main": form["main_adjoint"]}))
        assert "select_and_gather_add" not in counts
        found.append(jax.jit(run_anywhere(form, "main_adjoint"))(*map(np.float32, args)))
    chex.assert_trees_all_close(*found, rtol=1e-6)


def test_large_windows_with_gaps_are_no_slice_for_each_of_their_places() -> None:
    window = {"pool_size": (20, 20), "dilation": 2}
    name, shapes = "relax.grad.max_pool2d_backward", [(1, 1, 2, 2), (1, 1, 40, 40)]
    assert sum(chosen("cpu", name, *shapes, **window).values()) < 600


def test_without_a_target_the_form_is_that_of_where_jax_runs() -> None:
    mod = module_of("relax.nn.conv3d", [(1, 2, 5, 5, 5), (3, 2, 3, 3, 3)])
    assert primitives(LegalizeOps()(mod)) == primitives(LegalizeOps(jax.default_backend())(mod))


def test_by_platform() -> None:
    lower = by_platform(lambda x: ("any", x), cpu=lambda x: ("cpu", x))
    with lowering_for("cuda"):
        assert (platform(), lower(1)) == ("cuda", ("any", 1))
        with lowering_for("cpu"):
            assert lower(2) == ("cpu", 2)
        assert lower(3) == ("any", 3)
    with jax.default_device(jax.devices("cpu")[0]):
        assert platform() == "cpu"


def test_what_waits_does_so_by_a_barrier_where_that_holds() -> None:
    shapes = [(2, 3), (4,)]
    assert chosen("cuda", "relax.grad.delay", *shapes)["optimization_barrier"] == 1
    assert chosen("cpu", "relax.grad.delay", *shapes)["optimization_barrier"] == 0
    both_agree("relax.grad.delay", *shapes)


def test_places_of_rows_are_looked_up_on_a_cpu_and_sorted_with_their_numbers_elsewhere() -> None:
    """A search is a loop, whose small steps take long on a GPU."""
    places = np.array([[4, 1, 9], [-1, 4, 0]], "int32")
    values = np.random.default_rng(0).normal(size=(2, 3, 2)).astype("float32")
    mod = parse_main(
        "return R.grad.summed_rows(x, i, (6, 2))",
        'x: R.Tensor((2, 3, 2), "float32"), i: R.Tensor((2, 3), "int32")',
    )
    on_cpu, on_gpu = (LegalizeOps(target)(mod) for target in ("cpu", "cuda"))
    assert [primitives(form)["scan"] for form in (on_cpu, on_gpu)] == [1, 0]
    assert [primitives(form)["sort"] for form in (on_cpu, on_gpu)] == [1, 1]
    found = [jax.jit(run_anywhere(form, "main"))(values, places) for form in (on_cpu, on_gpu)]
    chex.assert_trees_all_equal(*found)
    chex.assert_trees_all_equal(found[0][1], np.array([0, 1, 4, 6, 6, 6], "int32"))


def test_an_adjoint_sorts_no_second_time() -> None:
    """The values and the places that they come from are of one sort, or of one `top_k`."""
    for name, attrs in (
        ("relax.sort", {"descending": True}),
        ("relax.topk", {"ret_type": "values"}),
    ):
        adjoint = Gradient("main", cotangent=True)(module_of(name, [(3, 8)], **attrs))
        legal = EliminateCommonSubexpr()(LegalizeOps()(adjoint))
        found = primitives(IRModule({"main": legal["main_adjoint"]}))
        assert found["sort"] + found["top_k"] == 1


def test_the_gradient_of_a_matrix_adds_up_no_batches() -> None:
    plain = Gradient("main", cotangent=True)(module_of("relax.matmul", [(4, 5, 6), (6, 7)]))
    adjoint = SimplifyGradient()(plain)
    assert "collapse_sum_to" not in adjoint["main_adjoint"].script()
    legal = LegalizeOps()(adjoint)
    found = primitives(IRModule({"main": legal["main_adjoint"]}))
    assert (found["dot_general"], found["reduce_sum"]) == (3, 0)


def test_resizing_reads_two_places_and_multiplies_where_there_are_four() -> None:
    for method, count in (("linear", 0), ("cubic", 2)):
        module = module_of("relax.image.resize2d", [(1, 2, 4, 4)], size=(8, 8), method=method)
        assert primitives(LegalizeOps()(module))[PRODUCT] == count
