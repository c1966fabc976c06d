"""Programs over a mesh: where values lie, what they are, and machines that lack the devices."""

import numpy as np
import pytest
from parsing import parse_module
from several_devices import printed_lines

from relaxjax.lowering import build, to_jax
from relaxjax.ops import OpError
from relaxjax.ops.meshes import jax_mesh
from relaxjax.passes import Gradient, Jvp, LegalizeOps

MODEL = """
@I.ir_module
class Model:
    I.module_global_infos({"mesh": [R.device_mesh((2, 4), I.Range(0, 8), axes=["data", "model"])]})

    @R.function
    def main(
        x: R.DTensor(("n", 16), "float32", "mesh[0]", "S[0], R"),
        p: R.Tuple(
            R.DTensor((16, 8), "float32", "mesh[0]", "R, S[1]"),
            R.DTensor((8, 4), "float32", "mesh[0]", "S[0], S[0]"),
        ),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            h = R.matmul(x, p[0])
            k = R.dist.annotate_sharding(h, device_mesh="mesh[0]", placement="S[0], R")
            a = R.tanh(k)
            b = R.dist.redistribute(a, device_mesh="mesh[0]", placement="R, S[1]")
            o = R.matmul(b, p[1])
            s = R.sum(R.multiply(o, o))
            R.output(s)
        return s
"""

PROGRAM = f'''
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from relaxjax.lowering import build, to_jax
from relaxjax.passes import Gradient, Jvp, LegalizeOps
from relaxjax.script import from_source

model = from_source("""{MODEL}""")
rng = np.random.default_rng(0)
x, w, v = (rng.normal(size=s).astype("float32") for s in ((4, 16), (16, 8), (8, 4)))


def expected(x, p):
    return ((jnp.tanh(x @ p[0]) @ p[1]) ** 2).sum()


def places(tree):
    return [str(a.sharding.spec) for a in jax.tree.leaves(tree)]


value, gradients = jax.value_and_grad(expected, (0, 1))(x, (w, v))
_, moved = jax.jvp(expected, (x, (w, v)), (x, (w, v)))
adjoint = Gradient("main")(model)
for made in (adjoint, LegalizeOps()(adjoint)):
    run = build(made)["main_adjoint"]
    for first in (x, jax.device_put(x, jax.devices()[3]), jnp.asarray(x)):
        found = run(first, (w, v))
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves((value, gradients))):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    print(*places(found))
inside = jax.jit(to_jax(adjoint, "main_adjoint"))(x, (w, v))
print(*places(inside))
found = build(Jvp("main")(model))["main_jvp"](x, (w, v), x, (w, v))
np.testing.assert_allclose(found[1], moved, rtol=1e-4)
text = jax.jit(to_jax(model, "main")).lower(x, (w, v)).as_text()
print(text.count("sdy.sharding_constraint"))
try:
    run(x[:3], (w, v))
except (TypeError, ValueError) as error:
    print(error)
try:
    jax.jit(to_jax(model, "main"))(x[:3], (w, v))
except (TypeError, ValueError) as error:
    print(error)
eager = to_jax(model, "main")(x, (w, v))
np.testing.assert_allclose(eager, value, rtol=1e-4)
'''

GRADIENTS = "P('data',) P(None, 'model') P(('data', 'model'),)"
UNEVEN = (
    "`main_adjoint`: `x` cannot lie as its type says: 2 devices along the axis `data` of the mesh "
    "do not divide dimension 0 of size 3 in equal parts: 1 or 3 would"
)


def test_values_and_gradients_on_eight_devices() -> None:
    """Adjoints lie where their values do; arguments are brought where the types say."""
    *placed, constraints, outside, inside = printed_lines(PROGRAM, 8)
    assert [line.startswith(f"P() {GRADIENTS}") for line in placed] == [True] * 3
    assert constraints == "5"
    assert (outside, inside) == (UNEVEN, UNEVEN.replace("main_adjoint", "main"))


def test_on_one_device_nothing_is_parted() -> None:
    """It has all of all values, so the program gives the same there."""
    mod = Gradient("main")(parse_module(MODEL))
    x, w, v = (np.ones(shape, "float32") for shape in ((4, 16), (16, 8), (8, 4)))
    plain = mod.script().replace('mesh[0]", "S[0], R"', 'mesh[0]", "R, R"')
    for made in (mod, LegalizeOps()(mod), parse_module(plain), Jvp("main")(mod)):
        assert np.isfinite(build(made)["main"](x, (w, v)))
        assert len(build(made)["main_adjoint"](x, (w, v))[1][0].sharding.device_set) == 1


MISSING = '''
from relaxjax import IRModule
from relaxjax.lowering import build
from relaxjax.script import from_source

run = build(IRModule.from_expr(from_source("""
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.dist.annotate_sharding(x, R.device_mesh((4,), I.Range(0, 4)), "S[0]")
    return y
""")))
import numpy as np
try:
    run["main"](np.ones(4, "float32"))
except (TypeError, ValueError) as error:
    print(error)
one = build(IRModule.from_expr(from_source("""
@R.function
def main(x: R.DTensor((3,), "float32", R.device_mesh((1,), [1]), "S[0]")):
    return x
""")))
print(len(one["main"](np.ones(3, "float32")).devices()))
'''


def test_devices_that_are_missing_are_named() -> None:
    """A mesh of one device parts nothing, wherever that is."""
    message, count = printed_lines(MISSING, 2)
    assert "has the devices [2, 3], but there are 2 of the platform cpu, counted from 0" in message
    assert 'jax.config.update("jax_num_cpu_devices", 4)' in message
    assert count == "1"


def test_a_mesh_of_a_platform_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaxjax.ops.meshes.chosen_platform", lambda: "tpu")
    mesh = parse_module(MODEL).global_infos["mesh"][0]
    with pytest.raises(OpError, match="a mesh needs devices of the platform tpu"):
        jax_mesh(mesh)


def test_the_program_reads_the_same_legalised() -> None:
    legal = LegalizeOps()(Gradient("main")(parse_module(MODEL))).script()
    assert legal.count("R.dist.annotate_sharding") == 6
    assert legal.count("R.dist.redistribute") == 3
    assert to_jax(parse_module(legal), "main") is not None
