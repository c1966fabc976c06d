"""Programs that the tests of partitioning share, and a comparison of what they compute."""

from typing import Any

import chex
import jax
import numpy as np
from parsing import parse_flow

from relaxjax.ir import IRModule, TensorType, well_formed
from relaxjax.lowering import build, to_jax
from relaxjax.passes import Gradient

MLP = parse_flow(
    """
    h0 = R.matmul(x, w0)
    h1 = R.add(h0, b0)
    h2 = R.nn.relu(h1)
    h3 = R.matmul(h2, w1)
    h4 = R.add(h3, b1)
    h5 = R.tanh(h4)
    loss = R.sum(h5)
    """,
    x=(4, 3),
    w0=(3, 5),
    b0=(5,),
    w1=(5, 2),
    b1=(2,),
)
ADJOINT = Gradient("main")(MLP)


def arguments(mod: IRModule, name: str = "main") -> list[Any]:
    """Random arguments for a function of tensors of known shapes."""
    rng = np.random.default_rng(0)
    types = [param.ty for param in mod[name].params]
    assert all(isinstance(ty, TensorType) for ty in types)
    return [rng.normal(size=ty.dims).astype(ty.dtype) for ty in types]


def check_same_results(before: IRModule, after: IRModule, name: str = "main") -> None:
    """Two modules compute the same, compiled as one program."""
    well_formed(after)
    args = arguments(before, name)
    expected = build(before, legalized=False)[name](*args)
    chex.assert_trees_all_close(build(after, legalized=False)[name](*args), expected, rtol=1e-5)


def check_gradient(mod: IRModule) -> None:
    """The adjoint that a module holds gives what `jax.grad` makes of its forward program."""
    well_formed(mod)
    args = arguments(MLP)
    wanted = tuple(range(len(args)))
    value, gradient = jax.value_and_grad(to_jax(MLP, "main"), argnums=wanted)(*args)
    found = build(mod, legalized=False)["main_adjoint"](*args)
    chex.assert_trees_all_close(found, (value, tuple(gradient)), rtol=1e-5)
