"""Placed models on eight devices: values, gradients, what is communicated, and what each keeps."""

from pathlib import Path

from several_devices import printed_lines

PROGRAM = """
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np

sys.path[:0] = PATHS
from test_placing_passes import BLOCK, MESH

from relaxjax.lowering import build, to_jax
from relaxjax.passes import (
    BindSymbolicVars, DataParallel, FullySharded, Gradient, PropagateSharding,
    Sequential, SequenceParallel, TensorParallel,
)
from relaxjax.script import from_source

mod = BindSymbolicVars({"n": 4}, "backbone")(BLOCK)
rng = np.random.default_rng(0)
args = [rng.normal(size=p.ty.dims).astype("float32") * 0.5 for p in mod["backbone"].params]
wanted = [p.name for p in mod["backbone"].params[2:11]]


def adjoint_of(mod):
    return Gradient("backbone", wanted, cotangent=True)(mod)


cotangent = np.ones((4, 8, 5), "float32")
value, gradients = build(adjoint_of(mod))["backbone_adjoint"](*args, cotangent)
for passes in (
    [DataParallel(MESH)],
    [FullySharded({"data": 4})],
    [DataParallel(MESH), TensorParallel(), SequenceParallel()],
    [TensorParallel(MESH), FullySharded(axis="data")],
):
    placed = Sequential(passes)(mod)
    adjoint = adjoint_of(placed)
    run = build(adjoint)["backbone_adjoint"]
    found, partials = run(*args, cotangent)
    for one, other in zip((found, *partials), (value, *gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)
    kept = sum(p.addressable_shards[0].data.nbytes for p in partials)
    text = build(placed)["backbone"].lowered(args).compile().as_text()
    print(kept, len(re.findall(r"= .*all-reduce\\(", text)))
print(sum(g.nbytes for g in gradients))
shown = PropagateSharding()(Sequential([DataParallel(MESH), TensorParallel()])(mod))
lies = dict(re.findall(r'(\\w+): R.DTensor[^\\n]*"(S[^"]*)"\\) = ', shown.script()))
print("; ".join(f"{name} {lies[name]}" for name in "nabdehij"))
assert PropagateSharding()(shown) is shown
try:
    PropagateSharding()(DataParallel(MESH)(BLOCK))
except ValueError as error:
    print(error)
"""


def test_placed_models_on_eight_devices() -> None:
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "support")]
    *counts, whole, decided, refused = printed_lines(PROGRAM.replace("PATHS", repr(folders)), 8)
    kept, reduced = zip(*(map(int, line.split()) for line in counts), strict=True)
    total = int(whole)
    assert kept == (total, total // 4, 1952, 992)
    # In a pair of products one each; a third one for the scores of the only head, which is parted.
    assert reduced == (0, 0, 3, 3)
    assert decided == (
        "n S[0], R; a S[0], S[2]; b S[0], S[2]; d S[0], S[2]; e S[0], S[2]; h S[0], S[2]; "
        "i S[0], R; j S[0], R"
    )
    assert refused.startswith("`backbone`: the sizes of `x` must be numbers, found R.DTensor((n, 8")
