"""Backward programs as the planner of memory gets them: legalised, and no value computed twice."""

from parsing import parse_main

from relaxjax.ir.module import IRModule
from relaxjax.ops.platform import PLATFORM
from relaxjax.passes import (
    CanonicalizeBindings,
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    SimplifyGradient,
)


def legal_adjoint(mod: IRModule) -> IRModule:
    return EliminateCommonSubexpr()(LegalizeOps()(Gradient("main")(mod)))


def adjoint_for(platform: str, mod: IRModule) -> IRModule:
    """What it is here, and said to be for another platform."""
    return legal_adjoint(mod).with_attr(PLATFORM, platform)


def prepared(mod: IRModule) -> IRModule:
    """A module with an adjoint, as trainers have it."""
    for one in (SimplifyGradient(), LegalizeOps(), EliminateCommonSubexpr()):
        mod = one(mod)
    return CanonicalizeBindings()(mod)


def loop_of_layers(length: int) -> IRModule:
    """A step stacks what it gets, and what it gives."""
    body = f"""
        with R.dataflow():
            @R.function
            def step(carry: R.Tuple(R.Tensor((512, 64), "float32")), x: R.Tuple()):
                with R.dataflow():
                    h = R.tanh(R.matmul(carry[0], w))
                    R.output(h)
                return ((h,), ())
            ys = R.scan(step, (x,), (), length={length})
            loss = R.sum(ys[0][0])
            R.output(loss)
        return loss
    """
    return parse_main(body, x=(512, 64), w=(64, 64))
