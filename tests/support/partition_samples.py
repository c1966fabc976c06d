"""Samples of the passes that partition programs, for the tests of all passes."""

from collections.abc import Callable
from typing import Any

from relaxjax.dpl import is_op, wildcard
from relaxjax.ir import BlockBuilder, Call, Expr, IRModule, TensorType
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.function import Binding
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.passes import (
    AnnotateTarget,
    FuseOpsByPattern,
    GroupByVDevice,
    MergeCompilerRegions,
    MergeComposite,
    MergeCompositeFunctions,
    PartitionGraph,
    PassContext,
    RealizeVDevice,
    RewriteAnnotatedOps,
    RunCodegen,
    Sequential,
    UpdateVDevice,
    module_pass,
)
from relaxjax.passes.infrastructure.kinds import Pass

_PRODUCT = is_op("relax.multiply")(wildcard(), wildcard())
_SUM = is_op("relax.add")(wildcard(), wildcard())
_PATTERNS = [
    ("numpy.product_and_more", is_op("relax.add")(_PRODUCT, wildcard())),
    ("numpy.product", _PRODUCT),
    ("numpy.sum", _SUM),
    ("other.sine", is_op("relax.sin")(wildcard()) | is_op("relax.exp")(wildcard())),
]
_MARKED = [AnnotateTarget(["numpy"]), MergeCompilerRegions()]


@module_pass(opt_level=0)
def hinted(mod: IRModule, context: PassContext) -> IRModule:
    """Every third value with a hint on one of two devices, which the module lists."""
    count = 0

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        nonlocal count
        value = binding.value
        if not isinstance(value, Call) or not isinstance(binding.var.ty, TensorType):
            return None
        if not isinstance(value.op, Op) or not value.op.pure:
            return None
        count += 1
        return (
            get_op("relax.hint_on_device")(value, f"llvm:{count % 2}") if count % 3 == 0 else None
        )

    functions = {n: expand_bindings(f, rule) for n, f in mod.relax_functions().items()}
    infos = {"vdevice": (VDevice("llvm"), VDevice("llvm", 1))}
    return replace(mod.with_functions(functions), global_infos={**mod.global_infos, **infos})


PARTITION_SAMPLES: dict[str, Callable[[Any], Pass]] = {
    "AnnotateTarget": lambda case: AnnotateTarget("numpy"),
    "FuseOpsByPattern": lambda case: FuseOpsByPattern(_PATTERNS, bind_constants=False),
    "GroupByVDevice": lambda case: Sequential([hinted, RealizeVDevice(), GroupByVDevice()]),
    "MergeCompilerRegions": lambda case: Sequential(_MARKED),
    "MergeComposite": lambda case: MergeComposite(_PATTERNS),
    "MergeCompositeFunctions": lambda case: Sequential(
        [FuseOpsByPattern(_PATTERNS), MergeCompositeFunctions()]
    ),
    "PartitionGraph": lambda case: Sequential([*_MARKED, PartitionGraph()]),
    "RealizeVDevice": lambda case: Sequential([hinted, RealizeVDevice()]),
    "RewriteAnnotatedOps": lambda case: Sequential([hinted, RewriteAnnotatedOps("llvm:2")]),
    "RunCodegen": lambda case: Sequential([*_MARKED, PartitionGraph(), RunCodegen()]),
    "UpdateVDevice": lambda case: Sequential(
        [hinted, RealizeVDevice(), UpdateVDevice(VDevice("llvm", 3), 0)]
    ),
}
