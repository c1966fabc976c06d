"""No pass does more than in proportion to a program's size, but for what is named here.

Each is tried on some shapes, and on all that are named if `RELAXJAX_FULL` is set.
"""

from functools import partial

import pytest
from full import share
from growing_programs import SHAPES
from growing_work import OTHERS, Doing, sampled
from growth_laws import CUBIC, QUADRATIC, Law, check_growth, of_shape
from pass_samples import preserving

# What may grow faster: a pass and a shape, the law that still holds, and the reason.
EXCEPTIONS: dict[tuple[str, str], tuple[Law, str]] = {
    ("RollBlocks", "wide"): (QUADRATIC, "of few bindings not even four periods can be tried"),
    ("Gradient", "wide"): (QUADRATIC, "as TVM writes it, each field adds to a whole tuple"),
    ("Gradient", "nested_loops"): (CUBIC, "the steps back of each level are written anew"),
    ("Gradient", "nested_branches"): (CUBIC, "the ways back of each level are written anew"),
    ("Gradient lazy", "nested_loops"): (CUBIC, "the steps back of each level are written anew"),
    ("Gradient lazy", "nested_branches"): (CUBIC, "the ways back of each level are written anew"),
    ("Jvp", "nested_loops"): (CUBIC, "the steps of each level are written anew"),
    ("HessianVectorProduct", "wide"): (QUADRATIC, "it goes through an adjoint as TVM writes it"),
}
# How deep calls stand in one another at most, where values are nested: fifty of them at most.
DEEP = dict.fromkeys((("ToGraphNormalForm", shape) for shape in SHAPES), 330)
# Few shapes suffice for what takes long: the adjoints of others are like theirs, and passes on
# regions are counted with those that make the regions.
MOST = tuple(shape for shape in SHAPES if shape not in ("squarings", "loops", "images"))
FEW = ("ladder", "wide")
SOME = ("ladder", "wide", "fan", "loops", "nested_loops", "functions")
REGIONS = """
    GroupByVDevice MergeCompilerRegions MergeComposite MergeCompositeFunctions PartitionGraph
    RealizeVDevice RewriteAnnotatedOps RunCodegen UpdateVDevice
"""
ON_IMAGES = """
    AlterOpLayout BackwardFoldScaleAxis ChannelsLast CombineParallelConv2D ConvertLayout
    DecomposeOpsForInference FoldBatchnormToConv2D FoldScaleAxis ForwardFoldScaleAxis FuseOps
    LegalizeOps SimplifyInference
"""
SHAPES_OF = {
    **dict.fromkeys(ON_IMAGES.split(), (*MOST, "images")),
    "Gradient lazy": (*SOME, "chain", "layers", "branches", "nested_branches"),
    **dict.fromkeys(("Gradient", "Jvp", *REGIONS.split()), SOME),
}
# A planner looks at programs of few steps otherwise: these have more.
SIZES_OF = {"Rematerialize": (16, 32, 64)}


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text() -> None:
    """Here they are only counted."""


def check(name: str, shape: str, prepare: Doing) -> None:
    law, _ = EXCEPTIONS.get((name, shape), (None, ""))
    deep, sizes = DEEP.get((name, shape), 0), SIZES_OF.get(name, ())
    check_growth(of_shape(shape, prepare), shape, law, sizes, deep)


def test_names_are_of_passes() -> None:
    known = {*preserving(), *OTHERS}
    assert {*SHAPES_OF, *SIZES_OF, *(name for name, _ in (*EXCEPTIONS, *DEEP))} <= known


@pytest.mark.parametrize("name", preserving())
def test_a_pass(name: str) -> None:
    for shape in share(SHAPES_OF.get(name, MOST), one_in=3, of=name):
        check(name, shape, partial(sampled, name))


@pytest.mark.parametrize("name", OTHERS)
def test_a_pass_of_its_own_kind(name: str) -> None:
    for shape in share(SHAPES_OF.get(name, FEW), one_in=2, of=name):
        check(name, shape, OTHERS[name])
