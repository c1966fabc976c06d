"""What devices tell each other: types of results, and what is refused."""

import re
from typing import Any

import numpy as np
import pytest
from parsing import parse_functions, parse_main, parse_module

from relaxjax import IRModule, ShapeType, TensorType, Var, build, to_jax
from relaxjax.ir.op import get_op
from relaxjax.ops import OpError
from relaxjax.passes import FoldConstant, Gradient, Jvp, LegalizeOps
from relaxjax.script.errors import ScriptError

X = Var("x", TensorType((4, 6), "float32"))


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("ccl.allreduce", ("max",), (4, 6)),
        ("ccl.allgather", (2,), (8, 6)),
        ("ccl.allgather", (2, True, -1), (4, 12)),
        ("ccl.reduce_scatter", (2,), (2, 6)),
        ("ccl.reduce_scatter", (3, 1), (4, 2)),
        ("ccl.all_to_all", (2, 0, 1), (2, 12)),
        ("ccl.all_to_all", (2, 1, 1), (4, 6)),
        ("ccl.broadcast_from_worker0", (), (4, 6)),
        ("ccl.reduce_to_worker0", (), (4, 6)),
        ("ccl.scatter_from_worker0", (4,), (1, 6)),
        ("ccl.gather_to_worker0", (4,), (16, 6)),
        ("ccl.permute", ([(0, 1)],), (4, 6)),
        ("dist.redistribute_replica_to_shard", (2, 1), (4, 3)),
        ("dist.redistribute_replica_to_shard", (4, -2), (1, 6)),
        ("dist.shard_among_zeros", (2, -1), (4, 12)),
    ],
)
def test_the_type_of_the_result(name: str, args: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    op = get_op(f"relax.{name}")
    assert op(X, *args).ty == TensorType(shape, "float32")
    open_ty = op(Var("x", TensorType(None, "float32", 2)), *args).ty
    assert open_ty == TensorType(None, "float32", 2)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        (
            "ccl.allreduce",
            ("mean",),
            "`op_type` must be one of sum, avg, min, max, prod, found 'mean'",
        ),
        ("ccl.allreduce", ("sum", False), "`in_group` must be True: name the axes of the mesh"),
        ("ccl.allreduce", ("sum", True, 3), "`mesh_axes` must be names of axes of the mesh"),
        ("ccl.allgather", (0,), "`num_workers` must be at least 1, found 0"),
        ("ccl.reduce_scatter", (4, 1), "dimension 1 of size 6 has no 4 equal parts"),
        ("ccl.reduce_scatter", (2, 2), r"`axis` must be in [-2, 2) for 2 dimensions, found 2"),
        ("dist.redistribute_replica_to_shard", (0, 0), "`num_workers` must be at least 1, found 0"),
        (
            "dist.redistribute_replica_to_shard",
            (4, 1),
            "dimension 1 of size 6 has no 4 equal parts",
        ),
        ("dist.shard_among_zeros", (2, 2), r"`axis` must be in [-2, 2) for 2 dimensions, found 2"),
        (
            "ccl.permute",
            ([(0, 1), (0, 2)],),
            "`pairs` must have each device once, but one sends twice",
        ),
        (
            "ccl.permute",
            ([(0, 1), (2, 1)],),
            "`pairs` must have each device once, but one gets twice",
        ),
        (
            "ccl.permute",
            ([0],),
            "`pairs` must be pairs such as [(0, 1), (1, 0)], but [0] was given",
        ),
    ],
)
def test_what_is_refused(name: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        get_op(f"relax.{name}")(X, *args)


def test_the_extremes_of_complex_numbers_are_refused() -> None:
    with pytest.raises(OpError, match="`x` must have a dtype of real numbers"):
        get_op("relax.ccl.allreduce")(Var("x", TensorType((2,), "complex64")), "max")


TEXT = """
@I.ir_module
class Model:
    I.module_global_infos({"mesh": [R.device_mesh((1, 1), [0], axes=["a", "b"])]})

    @R.function(private=True)
    def part(x: R.Tensor(("n", 4), "float32")):
        y = CALL
        return RESULT

    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        y = R.dist.call_local_view(Model.part, (x,), "mesh[0]", INS, OUTS)
        s = R.sum(y)
        return s
"""


def model(call: str, ins: str = '["R, R"]', outs: str = '["R, R"]', result: str = "y") -> IRModule:
    text = TEXT.replace("CALL", call).replace("INS", ins).replace("OUTS", outs)
    return parse_module(text.replace("RESULT", result))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ins": "[]"}, "`in_placements` has 0 placements for 1 argument"),
        ({"outs": '["R, R", "R, R"]'}, "`out_placements` has 2 placements for 1 results"),
        ({"ins": '["S[2], R"]'}, 'argument 0: the placement "S[2], R" parts dimension 2'),
        ({"ins": '["R"]'}, 'the placement "R" is for 1 axes, but the mesh'),
        ({"ins": '"R"'}, '`in_placements` must be a list of texts such as ["S[0]", "R"]'),
        ({"result": "R.shape([2])"}, "each device must give tensors, found R.Shape([2])"),
    ],
)
def test_views_that_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(message)):
        model("R.exp(x)", **given)


def test_arguments_of_a_view_that_are_refused() -> None:
    mod = model("R.exp(x)")
    view, part = get_op("relax.dist.call_local_view"), mod.get_global_var("part")
    mesh = mod.global_infos["mesh"][0]
    for func, arg, message in (
        (X, X, "`func` must be a function of the module, such as cls.f, found `x`"),
        (part, Var("s", ShapeType((2,))), "argument 0 must be a tensor, found R.Shape([2])"),
        (part, Var("i", TensorType((2, 4), "int32")), "on each device, argument 1 of"),
    ):
        with pytest.raises(OpError, match=re.escape(message)):
            view(func, [arg], mesh, ["R, R"], ["R, R"])


def test_a_result_that_devices_may_have_different_is_not_taken_for_one() -> None:
    """Wherever that is found out: where it runs, and where it is differentiated."""
    message = re.escape(
        "devices along `a` may have different values of result 0 of `part`, but its placement "
        '"R, S[0]" says that they have the same: part it along there, or make it the same'
    )
    taken = model("R.dist.redistribute_replica_to_shard(x, 1, 0)", outs='["R, S[0]"]')
    for mod in (model("R.exp(x)", ins='["S[0], R"]', outs='["R, S[0]"]'), taken):
        _refused(mod, message)


def _refused(mod: IRModule, message: str) -> None:
    for make in (build(mod)["main"], to_jax(mod, "main")):
        with pytest.raises(OpError, match=message):
            make(np.ones((2, 4), "float32"))
    for derive in (Gradient("main"), Jvp("main")):
        with pytest.raises(OpError, match=message):
            derive(mod)


@pytest.mark.parametrize(
    ("call", "outs"),
    [
        ('R.ccl.allreduce(x, mesh_axes="a")', "R, R"),
        ('R.ccl.allgather(x, 1, mesh_axes="a")', "R, R"),
        ('R.ccl.broadcast_from_worker0(R.add(x, R.ccl.allreduce(x)), "a")', "R, R"),
        ('R.ccl.reduce_scatter(x, 1, 0, "b")', "S[0], S[1]"),
        ("R.multiply(x, R.ccl.allreduce(R.sum(x)))", "S[0], R"),
        ('R.dist.redistribute_replica_to_shard(R.ccl.allreduce(x), 1, 0, "b")', "R, S[0]"),
    ],
)
def test_what_is_made_the_same_by_telling(call: str, outs: str) -> None:
    mod = model(call, ins='["S[0], R"]', outs=f'["{outs}"]')
    x = np.arange(8, dtype="float32").reshape(2, 4)
    assert np.isfinite(build(Gradient("main")(mod))["main_adjoint"](x)[0])


def test_telling_outside_of_a_view_is_refused() -> None:
    mod = parse_main("y = R.ccl.allreduce(x)\nreturn y", x=(2,))
    with pytest.raises(OpError, match="only inside a function that each of them runs: call the"):
        build(mod)["main"](np.ones(2, "float32"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('R.ccl.allreduce(x, mesh_axes="c")', "`mesh_axes` names axes of the mesh once each"),
        (
            "R.dist.redistribute_replica_to_shard(x, 2, 1)",
            "`num_workers` must be the number of devices, 1, found 2",
        ),
        ("R.ccl.allgather(x, 2)", "`num_workers` must be the number of devices, 1, found 2"),
        ("R.ccl.permute(x, [(0, 1)])", "`pairs` names the devices [1], but there are 1, from 0 on"),
    ],
)
def test_groups_that_are_not_there(call: str, message: str) -> None:
    mod = model(call, outs='["S[0], S[1]"]')
    with pytest.raises(OpError, match=re.escape(message)):
        build(mod)["main"](np.ones((2, 4), "float32"))


@pytest.mark.parametrize("make", [Gradient("main"), Jvp("main")])
def test_products_over_devices_have_no_derivative(make: Any) -> None:
    mod = model('R.ccl.allreduce(x, "prod")')
    x = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], "float32")
    np.testing.assert_allclose(build(mod)["main"](x), 36)
    with pytest.raises(OpError, match=r"use R.ccl.allgather and R.prod"):
        make(mod)


def test_no_pass_computes_ahead_what_devices_tell() -> None:
    mod = model('R.ccl.allreduce(R.const([[1.0] * 4] * 2, "float32"))')
    for changed in (FoldConstant()(mod), LegalizeOps()(mod)):
        assert "R.ccl.allreduce(" in changed.script()
        assert "R.dist.call_local_view(" in changed.script()
        np.testing.assert_allclose(build(changed)["main"](np.ones((2, 4), "float32")), 8)


def test_a_function_with_a_gradient_of_its_own_is_run_on_each_device() -> None:
    """Its rule holds there, and what differentiates it by its body is another function."""
    mod = parse_functions("""
    I.module_global_infos({"mesh": [R.device_mesh((1,), [0])]})

    @R.function(private=True)
    def rule(x: R.Tensor((2,), "float32"), g: R.Tensor((2,), "float32")):
        y = R.multiply(g, R.const(7.0, "float32"))
        return (y,)

    @R.function(private=True)
    def part(x: R.Tensor((2,), "float32")):
        R.func_attr({"custom_gradient": "rule"})
        y = R.exp(x)
        return y

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        y = R.dist.call_local_view(Module.part, (x,), "mesh[0]", ["S[0]"], ["S[0]"])
        s = R.sum(y)
        return s
""")
    x = np.zeros(2, "float32")
    _, (gradient,) = build(Gradient("main")(mod))["main_adjoint"](x)
    np.testing.assert_allclose(gradient, [7, 7])
