"""Every pass keeps what a program says of where values lie, and what it computes."""

from collections import Counter
from collections.abc import Iterator

import chex
import numpy as np
import pytest
from parsing import parse_functions
from pass_samples import Case, preserving, sample

from relaxjax.ir import Call, IRModule, TensorType, TupleType, Type
from relaxjax.ir.device_mesh import Placement
from relaxjax.ir.walk import post_order
from relaxjax.losses import MSELoss
from relaxjax.lowering import build, to_jax
from relaxjax.ops.distributed import annotate_sharding, placement_in, redistribute
from relaxjax.optim import Adam
from relaxjax.passes import Gradient, Rematerialize, RollBlocks, SetupTrainer
from relaxjax.testing.equations import run

MODEL = parse_functions("""
    I.module_global_infos({
        "mesh": [R.device_mesh((2, 2), I.Range(0, 4), axes=["data", "model"])],
        "vdevice": [I.vdevice("llvm")],
    })

    @R.function
    def main(
        x: R.DTensor((4, 2, 6, 6), "float32", "mesh[0]", "S[0], R"),
        k: R.DTensor((4, 2, 3, 3), "float32", "mesh[0]", "R, S[0]"),
        w: R.DTensor((64, 8), "float32", "mesh[0]", "S[0], S[1]"),
        b: R.Tensor((8,), "float32"),
    ) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            c = R.nn.conv2d(x, k)
            d = R.dist.annotate_sharding(c, device_mesh="mesh[0]", placement="S[0], S[1]")
            e = R.nn.relu(d)
            f = R.reshape(e, R.shape([4, 64]))
            g = R.dist.annotate_sharding(f, device_mesh="mesh[0]", placement="S[0], R")
            h = R.matmul(g, w)
            ones = R.dist.annotate_sharding(
                R.const([1.0, 2.0], "float32"), device_mesh="mesh[0]", placement="S[0], R"
            )
            s = R.sum(ones)
            j = R.dist.redistribute(h, device_mesh="mesh[0]", placement="S[0], S[0]")
            i = R.add(R.multiply(j, s), b)
            o = R.dist.annotate_sharding(i, device_mesh="mesh[0]", placement="R, S[1]")
            R.output(o)
        return o
""")
ARGS = tuple(
    np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape)
    for shape in ((4, 2, 6, 6), (4, 2, 3, 3), (64, 8), (8,))
)
# What says otherwise where values lie.
OTHER_PROGRAMS = {"AnnotateSharding"}
LAYOUTS = ("AlterOpLayout", "ConvertLayout")


def annotations(mod: IRModule) -> Counter[str]:
    """How often values are to lie as each placement says."""
    return Counter(placement.text for placement in _annotated(mod))


def _annotated(mod: IRModule) -> Iterator[Placement]:
    for function in mod.relax_functions().values():
        for expr in post_order(function):
            if isinstance(expr, Call) and expr.op in (annotate_sharding, redistribute):
                yield placement_in(expr.attrs)


def placed_params(mod: IRModule, name: str) -> Counter[str]:
    return Counter(text for param in mod[name].params for text in _texts(param.ty))


def _texts(ty: Type | None) -> Iterator[str]:
    match ty:
        case TensorType(placement=Placement() as placement):
            yield placement.text
        case TupleType(fields=fields):
            for field in fields:
                yield from _texts(field)


@pytest.mark.parametrize("name", [n for n in preserving() if n not in OTHER_PROGRAMS])
def test_a_pass_keeps_where_values_lie(name: str) -> None:
    """In the forward program, which the adjoint begins with, and in the backward one."""
    entry, args = "main_adjoint", (*ARGS, np.ones((4, 8), "float32"))
    mod = Gradient("main", cotangent=True)(MODEL)
    made, given = sample(name, Case(mod, entry, args))
    after = made(mod)
    kept = annotations(after)
    if name in LAYOUTS:  # the channels are the last dimension there
        kept["S[0], S[1]"] += kept.pop("S[0], S[3]")
    assert not annotations(mod) - kept
    if name != "BindParams":  # which binds the last one
        assert placed_params(after, entry) == placed_params(mod, entry)
    assert after.global_infos["mesh"] == mod.global_infos["mesh"]
    found, expected = run(to_jax(after, entry), *given), run(to_jax(mod, entry), *args)
    tolerance = 1e-2 if name == "ToMixedPrecision" else 1e-5
    chex.assert_trees_all_close(found, expected, rtol=tolerance, atol=tolerance * 100)


def layers(count: int) -> IRModule:
    """A network of equal layers, their weights and activations placed alike."""
    params = ", ".join(
        f'w{i}: R.DTensor((8, 8), "float32", "mesh[0]", "R, S[1]")' for i in range(count)
    )
    body = "\n".join(
        f"""            h{i} = R.matmul(a{i}, w{i})
            p{i} = R.dist.annotate_sharding(h{i}, device_mesh="mesh[0]", placement="S[0], R")
            a{i + 1} = R.tanh(p{i})"""
        for i in range(count)
    )
    return parse_functions(f"""
    I.module_attrs({{"param_num": {count}, "state_num": 0}})
    I.module_global_infos({{"mesh": [R.device_mesh((2, 2), I.Range(0, 4))]}})

    @R.function
    def backbone(a0: R.DTensor((4, 8), "float32", "mesh[0]", "S[0], R"), {params}):
        with R.dataflow():
{body}
            R.output(a{count})
        return a{count}
""")


def test_rolled_layers_keep_where_their_values_lie() -> None:
    rolled = RollBlocks(min_repeats=4)(layers(4))
    assert "R.scan" in rolled.script()
    assert annotations(rolled) == Counter({"S[0], R": 1})
    assert placed_params(rolled, "backbone") == Counter({"S[0], R": 1, "R, S[1]": 4})


def test_what_is_recomputed_lies_where_it_did() -> None:
    mod = Gradient("backbone", cotangent=True)(layers(3))
    less = Rematerialize("backbone_adjoint", must_recompute=["a1"])(mod)
    assert less is not mod
    assert not annotations(mod) - annotations(less)


@pytest.mark.parametrize("roll", [False, True])
def test_a_training_step_has_its_parameters_and_states_where_the_model_says(roll: bool) -> None:
    """Parameters of equal layers in one stack, too, whose first dimension is that of the layers."""
    out = TensorType((4, 8), "float32")
    mod = SetupTrainer(MSELoss(), Adam(0.01), [out, out], roll_blocks=roll)(layers(4))
    part = {"R, S[2]": 1} if roll else {"R, S[1]": 4}
    params, states, optim_states, *_ = mod["train_step"].params
    assert Counter(_texts(params.ty)) == Counter(part)
    assert Counter(_texts(optim_states.ty)) == Counter({text: 2 * n for text, n in part.items()})
    assert Counter(_texts(mod["optimizer"].ret_ty.fields[0])) == Counter(part)
    assert not list(_texts(states.ty))


VIEW = parse_functions("""
    I.module_global_infos({"mesh": [R.device_mesh((1, 1), [0], axes=["data", "model"])]})

    @R.function(private=True)
    def part(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 2), "float32")):
        y = R.matmul(R.tanh(x), w)
        z = R.ccl.allreduce(y, mesh_axes="model")
        a = R.ccl.allgather(z, 1, axis=1, mesh_axes="data")
        return (z, a)

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 2), "float32")):
        both = R.dist.call_local_view(
            Module.part, (x, w), "mesh[0]", ["S[0], S[1]", "R, S[0]"], ["S[0], R", "S[0], R"]
        )
        s = R.add(both[0], both[1])
        return s
""")


@pytest.mark.parametrize("name", [n for n in preserving() if n not in OTHER_PROGRAMS])
def test_a_pass_keeps_what_each_device_runs(name: str) -> None:
    mod = Gradient("main", cotangent=True)(VIEW)
    args = tuple(
        np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape)
        for shape in ((4, 8), (8, 2), (4, 2))
    )
    made, given = sample(name, Case(mod, "main_adjoint", args))
    after = made(mod)
    found = build(after)["main_adjoint"](*given)
    expected = build(mod)["main_adjoint"](*args)
    chex.assert_trees_all_close(found, expected, rtol=1e-2, atol=1e-2)
    for told in ("R.ccl.allreduce(", "R.ccl.allgather(", "R.ccl.reduce_scatter("):
        assert after.script().count(told) >= 1
