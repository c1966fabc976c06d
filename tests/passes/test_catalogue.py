"""Every pass of the catalogue, on random programs and their adjoints: results stay what they were.

    RELAXJAX_PROGRAMS=400 python -m pytest tests/passes/test_catalogue.py

tries more programs, each time others.
"""

import random
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from differentiable_programs import LARGE, Program, programs
from full import how_many
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pass_samples import OTHER_RESULTS, SAMPLES, TOLERANCES, Case, needs_options, preserving, sample

import relaxjax.passes
from relaxjax import from_source, to_jax
from relaxjax.ir import assert_structural_equal, check_well_formed, structural_hash
from relaxjax.passes import Gradient
from relaxjax.passes.infrastructure.base import FACTORIES
from relaxjax.testing.equations import run

PROGRAMS = how_many(3, 300)
LENGTH = 20
TOLERANCE = 1e-9

quietly = settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=LARGE,
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
    gradient = Gradient("main", target_index=index, cotangent=cotangent, lazy=program.paired)
    yield Case(gradient(program.module), "main_adjoint", args)


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


# The passes of Relay, by their names there, and what two of them are called here.
RELAY = """
    LambdaLift RemoveUnusedFunctions Inline EtaExpand PartialEvaluate PrintIR PartitionGraph
    ToANormalForm DeadCodeElimination FoldConstant FuseOps RewriteAnnotatedOps ToCPS
    ToGraphNormalForm SimplifyInference FastMath InferType EliminateCommonSubexpr
    CombineParallelConv2D CombineParallelDense BackwardFoldScaleAxis ForwardFoldScaleAxis
    CanonicalizeOps AlterOpLayout ConvertLayout Legalize CanonicalizeCast MergeComposite
    AnnotateTarget FoldScaleAxis ChangeBatch DenseToSparse LazyGradientInit MergeCompilerRegions
    SimplifyFCTranspose CombineParallelBatchMatmul ModulePass FunctionPass SequentialPass
    build_config function_pass gradient to_cps un_cps
"""
CALLED = {"SequentialPass": "Sequential", "gradient": "Gradient"}


def test_the_passes_of_relay_exist() -> None:
    ours = [CALLED.get(name, name) for name in RELAY.split()]
    assert [name for name in ours if not hasattr(relaxjax.passes, name)] == []


# What Relax has on programs, as far as it is not under a name of the seed already.
RELAX = """
    AdjustMatmulOrder AttachGlobalSymbol BindParams BindSymbolicVars BundleModelParams
    CanonicalizeBindings CombineParallelMatmul ConvertToDataflow DataflowBlockRewrite
    DecomposeOpsForInference DecomposeOpsForTraining ExpandMatmulOfSum ExpandTupleArguments
    FastMathTransform FoldBatchnormToConv2D FuseOpsByPattern InlinePrivateFunctions LegalizeOps
    LazyGetInput LazySetOutput LiftTransformParams MergeCompositeFunctions MutateOpsForTraining
    Normalize NormalizeGlobalVar
    PassContext RealizeVDevice RemovePurityChecking RemoveRedundantReshape RemoveUnusedOutputs
    RemoveUnusedParameters ReorderPermuteDimsAfterConcat ReorderTakeAfterMatmul RunCodegen
    ToMixedPrecision ToNonDataflow TopologicalSort UpdateParamType UpdateVDevice
"""


def test_the_passes_of_relax_exist() -> None:
    assert [name for name in RELAX.split() if not hasattr(relaxjax.passes, name)] == []
