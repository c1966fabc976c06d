"""The backward program of a loss: how it is written, and kept for the next call of such a loss."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import jax

from relaxjax.ir.expr import Call, ExternFunc
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.structural import structural_equal, structural_hash
from relaxjax.ir.walk import post_order
from relaxjax.ops.lax import matmul_precision, x64_enabled
from relaxjax.ops.nn.accelerated_attention import gpu_here
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes import (
    CanonicalizeBindings,
    ChannelsLast,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    FuseProductLoss,
    Gradient,
    InlinePrivateFunctions,
    LegalizeOps,
    MultiplyRowsOnce,
    PassContext,
    RaiseOps,
    Rematerialize,
    SimplifyGradient,
)
from relaxjax.passes.infrastructure.kept_results import kept_or_made
from relaxjax.passes.memory.planning.budget import Budget, check_memory_options
from relaxjax.passes.memory.rematerialize import AUTO
from relaxjax.passes.training.fast_forms import fast_forms

from .shared_values import share_values

LOSS, ADJOINT = "loss", "loss_adjoint"

MOST_KEPT = 32  # as many programs, the last that were asked for


@dataclass(frozen=True)
class Memory:
    """How much memory the backward program may take, as `Rematerialize` has it."""

    budget: Budget | None
    policy: str | None

    @staticmethod
    def of(budget: Budget | None, policy: str | None) -> "Memory":
        """As people say it, who may say nothing."""
        check_memory_options(budget, policy)
        return Memory(budget, AUTO if budget is None is policy else policy)


def written(mod: IRModule, wanted: Sequence[int], memory: Memory) -> IRModule:
    """The backward program by some parameters: simplified, legalised, its memory planned.

    Before that the loss is raised, so that operators choose their forms as those of Relax do, and
    images get the layout in which they are computed fastest. Kernels keep theirs: they are the
    user's, and to rearrange them costs more than it gains.
    """
    params = [mod[LOSS].params[place] for place in wanted]
    for one in (
        FoldConstant(),
        share_values(),
        RaiseOps(),
        MultiplyRowsOnce(),
        FuseProductLoss(),
        ChannelsLast(),
        Gradient(LOSS, params, lazy=True),
        DeadCodeElimination([ADJOINT]),
        InlinePrivateFunctions(differentiated=True),
        SimplifyGradient(),
        LegalizeOps(),
        CanonicalizeBindings(),
        FoldConstant(),
        EliminateCommonSubexpr(),
        CanonicalizeBindings(),
        *fast_forms(ADJOINT),
    ):
        mod = one(mod)
    return Rematerialize(ADJOINT, memory.budget, memory.policy)(mod)


def kept_or_written(mod: IRModule, wanted: Sequence[int], memory: Memory) -> IRModule:
    """The backward program, written only if that of no such loss is there.

    What it is kept by is the program of the loss, traced anew at each call: a function may use
    variables that have changed. Nothing of the user's is kept with it, no function and no array. A
    program that asks Python for values names functions of one call, and passes that somebody
    watches are to run.
    """
    context = PassContext.current()
    is_watched = context.instruments or context.trace is not None or context.config
    names = list(_names(mod))
    if is_watched or any(isinstance(name, ExternFunc) for name in names):
        return written(mod, wanted, memory)

    def made() -> IRModule:
        goes_by = tuple(wanted), memory
        return kept_or_made(mod, lambda: goes_by, lambda: written(mod, wanted, memory))[0]

    settings = (
        x64_enabled(),
        matmul_precision(),
        chosen_platform(),
        gpu_here(),
        jax.sharding.get_abstract_mesh(),
    )
    key = structural_hash(mod), tuple(names), tuple(wanted), repr(memory), settings
    known = _KEPT.get(key)
    if known is None or not structural_equal(known[0], mod):
        known = mod, made()
    with _LOCK:
        _KEPT.pop(key, None)
        _KEPT[key] = known
        while len(_KEPT) > MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return known[1]


_KEPT: dict[Hashable, tuple[IRModule, IRModule]] = {}
_LOCK = Lock()


def _names(mod: IRModule) -> Iterator[Hashable]:
    """What programs that are equal may differ in, which errors and profiles show of them."""
    for name, function in mod.relax_functions().items():
        yield name
        for expr in post_order(function):
            if isinstance(expr, Function):
                yield tuple(param.name for param in expr.params)
            elif isinstance(expr, SeqExpr):
                yield tuple((binding.var.name, binding.span) for binding in expr.bindings())
            elif isinstance(expr, Call) and isinstance(expr.op, Op):
                yield expr.op  # another primitive of the user's may have the name of a former one
            elif isinstance(expr, ExternFunc):
                yield expr
