"""The standing order of passes for a program that is to run as it is, by opt level."""

from typing import Any

from .infrastructure.sequential import Sequential
from .layout.alter_op_layout import AlterOpLayout
from .operators.canonicalize_ops import CanonicalizeOps
from .operators.combine_parallel import CombineParallelConv2D, CombineParallelDense
from .operators.fast_math import FastMath
from .operators.fold_scale_axis import FoldScaleAxis
from .operators.simplify_inference import SimplifyInference
from .partition.fuse_ops import FuseOps
from .simplification.canonicalize_bindings import CanonicalizeBindings
from .simplification.canonicalize_cast import CanonicalizeCast
from .simplification.dead_code_elimination import DeadCodeElimination
from .simplification.eliminate_common_subexpr import EliminateCommonSubexpr
from .simplification.fold_constant import FoldConstant
from .structure.infer_type import InferType

# The level from which each optimization of the catalogue runs, as Relay has it.
OPT_PASS_LEVEL = {
    "SimplifyInference": 0,
    "FuseOps": 1,
    "FoldConstant": 2,
    "FoldScaleAxis": 3,
    "AlterOpLayout": 3,
    "CanonicalizeOps": 3,
    "CanonicalizeCast": 3,
    "EliminateCommonSubexpr": 3,
    "CombineParallelConv2D": 4,
    "CombineParallelDense": 4,
    "FastMath": 4,
}

_STAGES: tuple[Any, ...] = (  # passes, which pyright knows under two names of their package
    InferType(),
    SimplifyInference(),
    CanonicalizeOps(),
    EliminateCommonSubexpr(),
    CombineParallelConv2D(),
    CombineParallelDense(),
    FoldConstant(),
    FoldScaleAxis(),
    AlterOpLayout(),
    FastMath(),
    FoldConstant(),
    CanonicalizeBindings(),
    DeadCodeElimination(),
    CanonicalizeCast(),
    FuseOps(),
)


def standard_pipeline(opt_level: int = 2) -> Sequential:
    """The passes of a level, 0 to 4, in one straight list.

    Every level does all that the lower ones do; level 4 changes results within stated bounds
    (FastMath). A `PassContext` of the same level leaves none of them out:

        with PassContext(opt_level=3):
            mod = standard_pipeline(3)(mod)
    """
    if opt_level not in range(5):
        raise ValueError(f"`opt_level` must be 0, 1, 2, 3 or 4, found {opt_level!r}")
    passes = [stage for stage in _STAGES if stage.info.opt_level <= opt_level]
    return Sequential(passes, name=f"standard_pipeline_{opt_level}")
