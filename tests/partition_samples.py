"""Samples of the passes that partition programs, for the tests of all passes."""

from collections.abc import Callable
from typing import Any

from relaxjax.dpl import is_op, wildcard
from relaxjax.passes import (
    AnnotateTarget,
    FuseOpsByPattern,
    MergeCompilerRegions,
    MergeComposite,
    MergeCompositeFunctions,
    PartitionGraph,
    RunCodegen,
    Sequential,
)
from relaxjax.passes.kinds import Pass

_PRODUCT = is_op("relax.multiply")(wildcard(), wildcard())
_SUM = is_op("relax.add")(wildcard(), wildcard())
_PATTERNS = [
    ("numpy.product_and_more", is_op("relax.add")(_PRODUCT, wildcard())),
    ("numpy.product", _PRODUCT),
    ("numpy.sum", _SUM),
    ("other.sine", is_op("relax.sin")(wildcard()) | is_op("relax.exp")(wildcard())),
]
_MARKED = [AnnotateTarget(["numpy"]), MergeCompilerRegions()]

PARTITION_SAMPLES: dict[str, Callable[[Any], Pass]] = {
    "AnnotateTarget": lambda case: AnnotateTarget("numpy"),
    "FuseOpsByPattern": lambda case: FuseOpsByPattern(_PATTERNS, bind_constants=False),
    "MergeCompilerRegions": lambda case: Sequential(_MARKED),
    "MergeComposite": lambda case: MergeComposite(_PATTERNS),
    "MergeCompositeFunctions": lambda case: Sequential(
        [FuseOpsByPattern(_PATTERNS), MergeCompositeFunctions()]
    ),
    "PartitionGraph": lambda case: Sequential([*_MARKED, PartitionGraph()]),
    "RunCodegen": lambda case: Sequential([*_MARKED, PartitionGraph(), RunCodegen()]),
}
