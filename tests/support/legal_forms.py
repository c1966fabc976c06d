"""Modules of one operator, and which primitives it becomes for which platform, for tests."""

from collections import Counter
from typing import Any

import chex
import jax
import numpy as np

from relaxjax.ir import Call, IRModule, TensorType, Var
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.walk import post_order
from relaxjax.lowering import to_jax
from relaxjax.ops.platform import PLATFORM
from relaxjax.passes import LegalizeOps

CONVOLUTION, PRODUCT = "conv_general_dilated", "dot_general"


def module_of(name: str, shapes: list[Any], **attrs: Any) -> IRModule:
    """A module that calls one operator on float32 tensors."""
    params = [Var(f"x{i}", TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    builder = BlockBuilder()
    with builder.scope([param.name for param in params]):
        body = builder.sequence(builder.emit(get_op(name)(*params, **attrs)))
    return IRModule({"main": make_function(params, body)})


def primitives(mod: IRModule) -> Counter[str]:
    """How often a module calls each primitive."""
    calls = [expr for expr in post_order(mod["main"]) if isinstance(expr, Call)]
    return Counter(call.op.name.partition(".")[2] for call in calls if isinstance(call.op, Op))


def form_of(target: str, mod: IRModule, name: str) -> IRModule:
    """A call of an operator written out for a platform, also if it stays in legalised programs."""
    lower = get_op(name).lower
    assert lower is not None
    return LegalizeOps(target, customize_map={name: lower})(mod)


def chosen(target: str, name: str, *shapes: Any, **attrs: Any) -> Counter[str]:
    return primitives(form_of(target, module_of(name, list(shapes), **attrs), name))


def run_anywhere(mod: IRModule, name: str) -> Any:
    """A function of a module, where it is made for or not."""
    return to_jax(mod.without_attr(PLATFORM), name)


def both_agree(name: str, *shapes: Any, **attrs: Any) -> None:
    """The forms for a CPU and for a GPU compute the same."""
    mod = module_of(name, list(shapes), **attrs)
    random = np.random.default_rng(0)
    args = [random.normal(size=shape).astype("float32") for shape in shapes]
    found = [
        jax.jit(run_anywhere(form_of(target, mod, name), "main"))(*args)
        for target in ("cpu", "cuda")
    ]
    chex.assert_trees_all_close(*found, rtol=1e-4, atol=1e-4)
