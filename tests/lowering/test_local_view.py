"""What each of several devices runs: values, gradients and tangents beside those of JAX."""

from several_devices import printed_lines

PROGRAM = '''
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, PartitionSpec as P

from relaxjax.lowering import build, to_jax
from relaxjax.passes import Gradient, Jvp, LegalizeOps
from relaxjax.script import from_source

TEXT = """
@I.ir_module
class Model:
    I.module_global_infos({"mesh": [R.device_mesh((2, 2), I.Range(0, 4), axes=["a", "b"])]})

    @R.function(private=True)
    def part(x: R.Tensor((4, 8), "float32"), w: R.Tensor((4, 8), "float32")):
        h = R.sin(R.multiply(x, w))
        y = CALL
        z = R.exp(R.multiply(y, R.const(0.5, "float32")))
        t = R.ccl.allreduce(R.sum(R.multiply(z, z)), "avg")
        return (z, t)

    @R.function
    def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((4, 8), "float32")):
        both = R.dist.call_local_view(
            Model.part, (x, w), "mesh[0]", ["S[0], R", "R, R"], ["OUT", "R, R"]
        )
        s = R.add(R.sum(R.sin(both[0])), both[1])
        return s
"""
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
AB = ("a", "b")
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
first = lambda h, axes: jnp.where(lax.axis_index(axes) == 0, h, 0)
CASES = {
    'R.ccl.allreduce(h)': (lambda h: lax.psum(h, AB), "R, R"),
    'R.ccl.allreduce(h, "avg", mesh_axes="a")': (lambda h: lax.pmean(h, "a"), "R, R"),
    'R.ccl.allreduce(h, "max", mesh_axes="a")': (
        lambda h: lax.all_gather(h, "a").max(0), "R, R"),
    'R.ccl.allreduce(h, "min", mesh_axes=["a"])': (
        lambda h: lax.all_gather(h, "a").min(0), "R, R"),
    'R.ccl.allgather(h, 4)': (lambda h: lax.all_gather(h, AB, tiled=True), "R, R"),
    'R.ccl.allgather(h, 2, axis=-1, mesh_axes="a")': (
        lambda h: lax.all_gather(h, "a", axis=1, tiled=True), "R, R"),
    'R.ccl.reduce_scatter(h, 4)': (
        lambda h: lax.psum_scatter(h, AB, tiled=True), "S[0], S[0]"),
    'R.ccl.reduce_scatter(h, 2, 1, "b")': (
        lambda h: lax.psum_scatter(h, "b", scatter_dimension=1, tiled=True), "S[0], S[1]"),
    'R.ccl.all_to_all(h, 2, 0, 1, "a")': (
        lambda h: lax.all_to_all(h, "a", 0, 1, tiled=True), "S[0], R"),
    'R.ccl.all_to_all(h, 4, 1, 1)': (
        lambda h: lax.all_to_all(h, AB, 1, 1, tiled=True), "S[0], S[1]"),
    'R.ccl.broadcast_from_worker0(h)': (lambda h: lax.psum(first(h, AB), AB), "R, R"),
    'R.ccl.reduce_to_worker0(h, "a")': (lambda h: first(lax.psum(h, "a"), "a"), "S[0], R"),
    'R.ccl.scatter_from_worker0(h, 4)': (
        lambda h: lax.psum_scatter(first(h, AB), AB, tiled=True), "S[0], S[1]"),
    'R.ccl.gather_to_worker0(h, 2, 1, "a")': (
        lambda h: first(lax.all_gather(h, "a", axis=1, tiled=True), "a"), "S[0], R"),
    'R.ccl.permute(h, [(0, 1)], "a")': (lambda h: lax.ppermute(h, "a", [(0, 1)]), "S[0], R"),
    'R.ccl.permute(h, [(0, 3), (3, 1), (1, 0)])': (
        lambda h: lax.ppermute(h, AB, [(0, 3), (3, 1), (1, 0)]), "S[0], S[1]"),
    'R.dist.redistribute_replica_to_shard(h, 4, 1)': (
        lambda h: lax.dynamic_slice(h, (0, 2 * lax.axis_index(AB)), (4, 2)), "S[0], S[1]"),
    'R.dist.redistribute_replica_to_shard(R.ccl.allgather(h, 2, mesh_axes="a"), 2, -2, "b")': (
        lambda h: jnp.split(lax.all_gather(h, "a", tiled=True), 2)[0] * (1 - lax.axis_index("b"))
        + jnp.split(lax.all_gather(h, "a", tiled=True), 2)[1] * lax.axis_index("b"), "R, S[0]"),
    'R.dist.shard_among_zeros(h, 2, 0, "b")': (
        lambda h: jnp.kron(jnp.eye(2)[:, lax.axis_index("b")][:, None], h), "S[0], S[1]"),
}
rng = np.random.default_rng(0)
x, w = (rng.normal(size=s).astype("float32") for s in ((8, 8), (4, 8)))
dx, dw = (rng.normal(size=s).astype("float32") for s in ((8, 8), (4, 8)))
SPECS = {"R, R": P(), "S[0], R": P("a"), "S[0], S[1]": P("a", "b"), "S[0], S[0]": P(AB),
         "R, S[0]": P("b")}


def close(one, other):
    for found, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


for text, (collective, out) in CASES.items():
    model = from_source(TEXT.replace("CALL", text).replace("OUT", out))

    def part(x, w):
        z = jnp.exp(collective(jnp.sin(x * w)) * 0.5)
        return z, lax.pmean((z * z).sum(), AB)

    mapped = jax.shard_map(
        part, mesh=mesh, in_specs=(P("a"), P()), out_specs=(SPECS[out], P()), check_vma=False
    )

    def expected(x, w):
        z, t = mapped(x, w)
        return jnp.sin(z).sum() + t

    adjoint, jvp = Gradient("main")(model), Jvp("main")(model)
    found_gradient, found_moved = to_jax(adjoint, "main_adjoint"), to_jax(jvp, "main_jvp")

    def both(x, w, dx, dw):
        wanted = jax.value_and_grad(expected, (0, 1))(x, w)
        moved = jax.jvp(expected, (x, w), (dx, dw))
        return (found_gradient(x, w), found_moved(x, w, dx, dw)), (wanted, moved)

    found, wanted = jax.jit(both, compiler_options=QUICK)(x, w, dx, dw)
    close(found, wanted)
    from_source(adjoint.script())
close(build(LegalizeOps()(adjoint))["main_adjoint"](x, w), wanted[0])
close(jax.jit(jax.grad(to_jax(model, "main")), compiler_options=QUICK)(x, w), wanted[0][1][0])
print(len(CASES))
'''


def test_collectives_on_four_devices() -> None:
    """Of each a function of its result, parted and whole, and of an average over all devices."""
    assert printed_lines(PROGRAM, 4) == ["19"]
