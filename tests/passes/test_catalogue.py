"""Every pass of the catalogue, on random programs and their adjoints: results stay what they were.

    RELAXJAX_PROGRAMS=400 python -m pytest tests/passes/test_catalogue.py

tries more programs, each time others.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from differentiable_programs import Program, programs
from full import how_many
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pass_samples import OTHER_RESULTS, SAMPLES, TOLERANCES, Case, needs_options, preserving, sample

import relaxjax.passes
from relaxjax.ir.check import check_well_formed
from relaxjax.ir.structural import assert_structural_equal, structural_hash
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient
from relaxjax.passes.base import FACTORIES
from relaxjax.script import from_source
from relaxjax.testing.equations import run

PROGRAMS = how_many(40)
LENGTH = 20
TOLERANCE = 1e-9

quietly = settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text() -> None:
    """`Checked` reads each text back, but only once where several passes give the same."""


def cotangent_of(leaf: Any) -> Any:
    """A cotangent for a result: no two elements alike."""
    return np.asarray(np.cos(np.arange(leaf.size)).reshape(leaf.shape), leaf.dtype)


def results(case: Case) -> Any:
    return run(to_jax(case.module, case.entry), *case.args)


def cases(program: Program) -> Iterator[Case]:
    """A program, and its adjoint."""
    forward = Case(program.module, "main", program.args)
    yield forward
    index, cotangent = program.target_index, program.cotangent
    args = program.args
    if cotangent:
        target = results(forward)
        target = target[index] if program.paired else target
        args = (*args, jax.tree.map(cotangent_of, target))
    adjoint = Gradient("main", target_index=index, cotangent=cotangent)(program.module)
    yield Case(adjoint, "main_adjoint", args)


class Checked:
    """Checks what passes make of one case; the same module is checked once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.expected = results(case)
        self.seen = {structural_hash(case.module)}

    def check(self, names: list[str]) -> None:
        """Run passes one after another: the results and the text must stand the test."""
        try:
            self.run(names)
        except Exception as error:
            error.add_note(f"after {', '.join(self.shortest(names))} on `{self.case.entry}`")
            raise

    def shortest(self, names: list[str]) -> list[str]:
        """The fewest passes from the first on after which something is wrong already."""
        for count in range(1, len(names)):
            self.seen = set()
            try:
                self.run(names[:count])
            except Exception:
                return names[:count]
        return names

    def run(self, names: list[str]) -> None:
        case = self.case
        for name in names:
            made, args = sample(name, case)
            case = Case(made(case.module), case.entry, args)
        key = structural_hash(case.module)
        if key in self.seen:
            return
        self.seen.add(key)
        if check_well_formed(case.module):
            assert_structural_equal(from_source(case.module.script()), case.module)
        self.compare(results(case), max(TOLERANCES.get(name, TOLERANCE) for name in names))

    def compare(self, found: Any, tolerance: float) -> None:
        pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(self.expected), strict=True))
        assert [(a.shape, a.dtype) for a, _ in pairs] == [(b.shape, b.dtype) for _, b in pairs]
        numbers = [tuple(np.asarray(x, "float64") for x in pair) for pair in pairs]
        if not all(np.all(np.isfinite(expected)) for _, expected in numbers):
            return
        scale = max(1.0, *(np.max(np.abs(e), initial=0) for _, e in numbers))
        for one, other in numbers:
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


def test_every_pass_has_a_sample_or_a_reason_to_have_none() -> None:
    without = {name for name in preserving() if needs_options(name)} - set(SAMPLES)
    assert not without
    assert {*SAMPLES, *OTHER_RESULTS, *TOLERANCES} <= set(FACTORIES)


# Passes that presuppose regions, backends or devices as their own kind leaves them.
ALONE = """
    AnnotateTarget FuseOpsByPattern GroupByVDevice MergeCompilerRegions MergeComposite
    MergeCompositeFunctions PartitionGraph RealizeVDevice RewriteAnnotatedOps RunCodegen
    UpdateVDevice
"""


def pipelines(seed: int) -> Iterator[list[str]]:
    """Every pass that goes with others, in random order, in pipelines of twenty."""
    names = [name for name in preserving() if name not in ALONE.split()]
    random.Random(seed).shuffle(names)
    for start in range(0, len(names), LENGTH):
        yield names[start : start + LENGTH]


def test_no_pass_changes_the_results_of_random_programs() -> None:
    """Every pass on every program and its adjoint, behind up to nineteen others."""

    @settings(quietly, max_examples=PROGRAMS)
    @given(programs(["float64"]), st.integers(0, 2**32))
    def one(program: Program, seed: int) -> None:
        with jax.enable_x64(True):
            for case in cases(program):
                checked = Checked(case)
                for names in pipelines(seed):
                    checked.check(names)

    one()


def test_each_pass_alone_changes_no_results() -> None:
    """So that no pass is only ever seen behind others."""

    @settings(quietly, max_examples=max(1, PROGRAMS // 50))
    @given(programs(["float64"]))
    def one(program: Program) -> None:
        with jax.enable_x64(True):
            for case in cases(program):
                checked = Checked(case)
                for name in preserving():
                    checked.check([name])

    one()


# The passes of the seed by their names there, what they are called here, and where they are tested.
CATALOGUE = {
    "AlterOpLayout": ("AlterOpLayout", "layout/test_alter_op_layout.py"),
    "AnnotateTarget": ("AnnotateTarget", "partition/test_partition_graph.py"),
    "BackwardFoldScaleAxis": ("BackwardFoldScaleAxis", "operators/test_fold_scale_axis.py"),
    "CanonicalizeCast": ("CanonicalizeCast", "simplification/test_canonicalize_cast.py"),
    "CanonicalizeOps": ("CanonicalizeOps", "operators/test_special_operators.py"),
    "ChangeBatch": ("ChangeBatch", "structure/test_change_batch.py"),
    "CombineParallelBatchMatmul": (
        "CombineParallelBatchMatmul",
        "operators/test_combine_parallel.py",
    ),
    "CombineParallelConv2D": ("CombineParallelConv2D", "operators/test_combine_parallel.py"),
    "CombineParallelDense": ("CombineParallelDense", "operators/test_combine_parallel.py"),
    "ConvertLayout": ("ConvertLayout", "layout/test_convert_layout.py"),
    "DeadCodeElimination": (
        "DeadCodeElimination",
        "simplification/test_dead_code_elimination.py",
    ),
    "DenseToSparse": ("DenseToSparse", "operators/test_dense_weights.py"),
    "EliminateCommonSubexpr": (
        "EliminateCommonSubexpr",
        "simplification/test_eliminate_common_subexpr.py",
    ),
    "EtaExpand": ("EtaExpand", "structure/test_lifted_closures.py"),
    "FastMath": ("FastMath", "operators/test_fast_math.py"),
    "FoldConstant": ("FoldConstant", "simplification/test_fold_constant.py"),
    "FoldScaleAxis": ("FoldScaleAxis", "operators/test_fold_scale_axis.py"),
    "ForwardFoldScaleAxis": ("ForwardFoldScaleAxis", "operators/test_fold_scale_axis.py"),
    "FunctionPass": ("FunctionPass", "test_pass_decorators.py"),
    "FuseOps": ("FuseOps", "partition/test_fuse_ops.py"),
    "InferType": ("InferType", "structure/test_types_and_purity.py"),
    "Inline": ("Inline", "structure/test_inlining.py"),
    "LambdaLift": ("LambdaLift", "structure/test_lifted_closures.py"),
    "LazyGradientInit": ("LazyGradientInit", "differentiation/test_lazy_gradient_init.py"),
    "Legalize": ("Legalize", "operators/test_special_operators.py"),
    "MergeCompilerRegions": ("MergeCompilerRegions", "partition/test_partition_graph.py"),
    "MergeComposite": ("MergeComposite", "partition/test_fuse_ops_by_pattern.py"),
    "ModulePass": ("ModulePass", "test_pass_decorators.py"),
    "PartialEvaluate": ("PartialEvaluate", "structure/test_styles.py"),
    "PartitionGraph": ("PartitionGraph", "partition/test_partition_graph.py"),
    "PrintIR": ("PrintIR", "structure/test_types_and_purity.py"),
    "RemoveUnusedFunctions": ("RemoveUnusedFunctions", "structure/test_function_names.py"),
    "RewriteAnnotatedOps": ("RewriteAnnotatedOps", "partition/test_device_passes.py"),
    "SequentialPass": ("Sequential", "test_sequential.py"),
    "SimplifyFCTranspose": ("SimplifyFCTranspose", "operators/test_dense_weights.py"),
    "SimplifyInference": ("SimplifyInference", "operators/test_special_operators.py"),
    "ToANormalForm": ("ToANormalForm", "structure/test_types_and_purity.py"),
    "ToCPS": ("ToCPS", "structure/test_styles.py"),
    "ToGraphNormalForm": ("ToGraphNormalForm", "structure/test_styles.py"),
    "build_config": ("build_config", "test_pass_context.py"),
    "function_pass": ("function_pass", "test_pass_decorators.py"),
    "gradient": ("Gradient", "differentiation/test_gradient.py"),
    "to_cps": ("to_cps", "structure/test_styles.py"),
    "un_cps": ("un_cps", "structure/test_styles.py"),
}

# The names in the seed.
SEED = """
    LambdaLift RemoveUnusedFunctions Inline EtaExpand PartialEvaluate PrintIR PartitionGraph
    ToANormalForm DeadCodeElimination FoldConstant FuseOps RewriteAnnotatedOps ToCPS
    ToGraphNormalForm SimplifyInference FastMath InferType EliminateCommonSubexpr
    CombineParallelConv2D CombineParallelDense BackwardFoldScaleAxis ForwardFoldScaleAxis
    CanonicalizeOps AlterOpLayout ConvertLayout Legalize CanonicalizeCast MergeComposite
    AnnotateTarget FoldScaleAxis ChangeBatch DenseToSparse LazyGradientInit MergeCompilerRegions
    SimplifyFCTranspose CombineParallelBatchMatmul ModulePass FunctionPass SequentialPass
    build_config function_pass gradient to_cps un_cps
"""


def test_the_catalogue_is_complete() -> None:
    assert set(CATALOGUE) == set(SEED.split())


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_the_catalogue_names_exists_and_is_tested(name: str) -> None:
    ours, file = CATALOGUE[name]
    assert hasattr(relaxjax.passes, ours)
    assert re.search(rf"\b{ours}\b", (Path(__file__).parent / file).read_text())


# What Relax has on programs, as far as it is not under a name of the seed already.
RELAX = """
    AdjustMatmulOrder AttachGlobalSymbol BindParams BindSymbolicVars BundleModelParams
    CanonicalizeBindings CombineParallelMatmul ConvertToDataflow DataflowBlockRewrite
    DecomposeOpsForInference DecomposeOpsForTraining ExpandMatmulOfSum ExpandTupleArguments
    FastMathTransform FoldBatchnormToConv2D FuseOpsByPattern InlinePrivateFunctions LegalizeOps
    LiftTransformParams MergeCompositeFunctions MutateOpsForTraining Normalize NormalizeGlobalVar
    PassContext RealizeVDevice RemovePurityChecking RemoveRedundantReshape RemoveUnusedOutputs
    RemoveUnusedParameters ReorderPermuteDimsAfterConcat ReorderTakeAfterMatmul RunCodegen
    ToMixedPrecision ToNonDataflow TopologicalSort UpdateParamType UpdateVDevice
"""


def test_the_passes_of_relax_exist() -> None:
    assert [name for name in RELAX.split() if not hasattr(relaxjax.passes, name)] == []


@pytest.mark.parametrize("name", sorted({*FACTORIES, *RELAX.split()}))
def test_every_pass_is_tested(name: str) -> None:
    files = Path(__file__).parent.rglob("test_*.py")
    tested = (f.read_text() for f in files if f != Path(__file__))
    assert any(re.search(rf"\b{name}\(", text) for text in tested)
