"""Marking, merging and taking out what backends are to compile."""

import pytest
from parsing import parse_flow, parse_functions
from partition_programs import ADJOINT, MLP, check_gradient, check_same_results

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.passes import (
    AnnotateTarget,
    FuseOpsByPattern,
    MergeCompilerRegions,
    MergeComposite,
    PartitionGraph,
    RunCodegen,
    Sequential,
    get_patterns_with_prefix,
)


def program(body: str) -> IRModule:
    return parse_flow(body, x=(2,), y=(2,))


CHAIN = program("""
    a = R.exp(x)
    b = R.sin(a)
    c = R.linear_recurrence(b, b)
    d = R.cos(c)
    return d
    """)
MARKED = program("""
    x0 = R.compiler_begin(x, "numpy")
    a0 = R.exp(x0)
    a = R.compiler_end(a0, "numpy")
    a1 = R.compiler_begin(a, "numpy")
    b0 = R.sin(a1)
    b = R.compiler_end(b0, "numpy")
    c = R.linear_recurrence(b, b)
    c0 = R.compiler_begin(c, "numpy")
    d0 = R.cos(c0)
    d = R.compiler_end(d0, "numpy")
    return d
    """)
MERGED = program("""
    x0 = R.compiler_begin(x, "numpy")
    a0 = R.exp(x0)
    b0 = R.sin(a0)
    b = R.compiler_end(b0, "numpy")
    c = R.linear_recurrence(b, b)
    c0 = R.compiler_begin(c, "numpy")
    d0 = R.cos(c0)
    d = R.compiler_end(d0, "numpy")
    return d
    """)
PARTITIONED = parse_functions("""
    @R.function
    def fused_relax_exp_relax_sin_numpy(x: R.Tensor((2,), "float32")):
        R.func_attr({"Codegen": "numpy"})
        a = R.exp(x)
        b = R.sin(a)
        return b

    @R.function
    def fused_relax_cos_numpy(c: R.Tensor((2,), "float32")):
        R.func_attr({"Codegen": "numpy"})
        d = R.cos(c)
        return d

    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        with R.dataflow():
            b = Module.fused_relax_exp_relax_sin_numpy(x)
            c = R.linear_recurrence(b, b)
            d = Module.fused_relax_cos_numpy(c)
            R.output(d)
        return d
    """)


def test_marking_merging_and_taking_out() -> None:
    marked = AnnotateTarget("numpy")(CHAIN)
    assert_structural_equal(marked, MARKED)
    merged = MergeCompilerRegions()(marked)
    assert_structural_equal(merged, MERGED)
    partitioned = PartitionGraph()(merged)
    assert_structural_equal(partitioned, PARTITIONED)
    for mod in (marked, merged, partitioned, PartitionGraph()(marked), RunCodegen()(partitioned)):
        check_same_results(CHAIN, mod)


def test_each_pass_done_again_changes_nothing() -> None:
    for made, mod in (
        (AnnotateTarget("numpy"), MARKED),
        (AnnotateTarget("numpy"), MERGED),
        (MergeCompilerRegions(), MERGED),
        (PartitionGraph(), PARTITIONED),
        (AnnotateTarget("pallas"), PARTITIONED.without_functions("main")),
        (MergeCompilerRegions(), CHAIN),
        (PartitionGraph(), CHAIN),
        (RunCodegen(), CHAIN),
    ):
        assert made(mod) is mod


def test_the_first_backend_that_can_takes_a_call() -> None:
    """NumPy can transpose, and Pallas here only what is computed element by element."""
    mod = program("""
        a = R.exp(x)
        b = R.flip(a, axis=0)
        return b
        """)
    partitioned = PartitionGraph()(AnnotateTarget(["pallas", "numpy"])(mod))
    assert set(partitioned) == {"main", "fused_relax_exp_pallas", "fused_relax_flip_numpy"}
    partitioned = PartitionGraph()(AnnotateTarget(["numpy", "pallas"])(mod))
    assert set(partitioned) == {"main", "fused_relax_exp_numpy", "fused_relax_flip_numpy"}


def test_a_region_that_would_need_itself_stays_in_parts() -> None:
    mod = program("""
        a = R.exp(x)
        b = R.linear_recurrence(a, a)
        c = R.add(a, b)
        return c
        """)
    merged = MergeCompilerRegions()(AnnotateTarget("numpy")(mod))
    assert_structural_equal(merged, AnnotateTarget("numpy")(mod))
    partitioned = PartitionGraph()(merged)
    assert set(partitioned) == {"main", "fused_relax_exp_numpy", "fused_relax_add_numpy"}
    check_same_results(mod, partitioned)


def test_a_region_with_several_results_gives_a_tuple() -> None:
    mod = program("""
        a = R.exp(x)
        b = R.sin(a)
        c = R.concat((a, b), axis=0)
        d = R.linear_recurrence(b, a)
        e = (a, b, c, d)
        return e
        """)
    regions = Sequential([AnnotateTarget("numpy"), MergeCompilerRegions(), PartitionGraph()])
    partitioned = regions(mod)
    region = partitioned["fused_relax_exp_relax_sin_relax_concat_numpy"]
    assert len(region.ret_ty.fields) == 3
    check_same_results(mod, partitioned)
    check_same_results(mod, RunCodegen()(partitioned))


def test_marks_written_by_hand() -> None:
    """A value that comes out twice, marks that nobody needs, and one that leaves the block."""
    mod = program("""
        x0 = R.compiler_begin(x, "numpy")
        a0 = R.exp(x0)
        a = R.compiler_end(a0, "numpy")
        again = R.compiler_end(a0, "numpy")
        y0 = R.compiler_begin(y, "numpy")
        e = (a, again, y0)
        return (again, e, y0)
        """)
    partitioned = PartitionGraph()(mod)
    assert set(partitioned) == {"main", "fused_relax_exp_numpy"}
    assert "compiler" not in str(partitioned)
    check_same_results(mod, partitioned)


def test_composites_go_to_the_backend_that_their_pattern_names() -> None:
    composed = MergeComposite(get_patterns_with_prefix("pallas"))(MLP)
    for targets, expected in (("pallas", {"main", "pallas"}), ("numpy", {"main", "numpy"})):
        mod = Sequential([AnnotateTarget(targets), MergeCompilerRegions(), PartitionGraph()])(
            composed
        )
        kinds = {f.attrs.get("Codegen", name) for name, f in mod.relax_functions().items()}
        assert expected <= kinds
        assert any("Composite" in f.attrs for f in mod.relax_functions().values()) == (
            targets == "numpy"
        )
        check_same_results(MLP, mod)


@pytest.mark.parametrize("targets", ["numpy", "pallas", ["pallas", "numpy"]])
def test_an_adjoint_partitioned_gives_the_gradient(targets: str | list[str]) -> None:
    composed = FuseOpsByPattern(get_patterns_with_prefix("pallas"))(ADJOINT)
    regions = Sequential([AnnotateTarget(targets), MergeCompilerRegions(), PartitionGraph()])
    partitioned = regions(composed)
    check_gradient(partitioned)
    compiled = RunCodegen()(partitioned)
    assert set(compiled) <= {"main", "main_adjoint", *composed}
    check_gradient(compiled)


def test_backends_that_are_not_there() -> None:
    match = r"no backend `nunpy` is registered: .*; did you mean `numpy`\?"
    with pytest.raises(KeyError, match=match):
        AnnotateTarget("nunpy")(CHAIN)
    with pytest.raises(KeyError, match="no backend `tensorrt` is registered"):
        RunCodegen({"tensorrt": {}})(CHAIN)
