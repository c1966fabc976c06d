"""Passes that place a model on a mesh: what they write, and what they refuse."""

import re
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from parsing import parse_functions

from relaxjax.ir import IRModule, TensorType
from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.passes import (
    AnnotateSharding,
    DataParallel,
    FullySharded,
    Pass,
    PropagateSharding,
    SequenceParallel,
    Sequential,
    TensorParallel,
)

MESH = {"data": 2, "model": 4}

BLOCK = parse_functions("""
    I.module_attrs({"param_num": 9, "state_num": 1})

    @R.function
    def backbone(
        x: R.Tensor(("n", 8, 16), "float32"),
        scale: R.Tensor((), "float32"),
        gain: R.Tensor((16,), "float32"),
        q: R.Tensor((16, 8), "float32"),
        k: R.Tensor((16, 8), "float32"),
        v: R.Tensor((8, 16), "float32"),
        o: R.Tensor((8, 16), "float32"),
        up: R.Tensor((16, 32), "float32"),
        up_bias: R.Tensor((32,), "float32"),
        down: R.Tensor((32, 16), "float32"),
        head: R.Tensor((16, 5), "float32"),
        mean: R.Tensor((16,), "float32"),
    ):
        with R.dataflow():
            c = R.multiply(R.subtract(x, mean), scale)
            n = R.nn.rms_norm(c, gain, axes=[-1])
            a = R.matmul(n, q)
            b = R.matmul(n, k)
            turned = R.permute_dims(v)
            d = R.matmul(n, turned)
            e = R.matmul(R.nn.softmax(R.matmul(a, R.permute_dims(b, [0, 2, 1]))), d)
            f = R.add(x, R.matmul(e, o))
            g = R.nn.rms_norm(f, gain, axes=[-1])
            h = R.nn.relu(R.add(up_bias, R.matmul(g, up)))
            i = R.add(f, R.matmul(h, down))
            j = R.matmul(i, head)
            R.output(j)
        return j
""")


def placements(mod: IRModule, name: str = "backbone") -> dict[str, str]:
    """The placements of the parameters that have one."""
    return {
        param.name: param.ty.placement.text
        for param in mod[name].params
        if isinstance(param.ty, TensorType) and param.ty.placement is not None
    }


WHOLE = dict.fromkeys(("gain", "q", "k", "v", "o", "up", "up_bias", "down", "head", "mean"), "R, R")
BATCH = {"x": "S[0], R", "scale": "R, R", **WHOLE}
PAIRS = {
    "q": "R, S[1]",
    "k": "R, S[1]",
    "v": "R, S[0]",
    "o": "R, S[0]",
    "up": "R, S[1]",
    "up_bias": "R, S[0]",
    "down": "R, S[0]",
}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (DataParallel(MESH), BATCH),
        (DataParallel({"data": 2}), {name: text[:-3] for name, text in BATCH.items()}),
        (TensorParallel(MESH), PAIRS),
        (Sequential([DataParallel(MESH), TensorParallel()]), {**BATCH, **PAIRS}),
        (Sequential([TensorParallel(MESH), DataParallel()]), {**BATCH, **PAIRS}),
        (
            FullySharded(MESH),
            {
                **BATCH,
                **dict.fromkeys(("gain", "q", "k", "up_bias", "down", "head"), "S[0], R"),
                **dict.fromkeys(("v", "o", "up"), "S[1], R"),
            },
        ),
        (
            Sequential([TensorParallel(MESH), FullySharded(axis="data")]),
            {
                **BATCH,
                "gain": "S[0], R",
                "q": "S[0], S[1]",
                "k": "S[0], S[1]",
                "v": "S[1], S[0]",
                "o": "S[1], S[0]",
                "up": "S[0], S[1]",
                "up_bias": "R, S[0]",
                "down": "S[1], S[0]",
                "head": "S[0], R",
            },
        ),
        (
            AnnotateSharding({"up*": "R, R", "?": ("data",)}, MESH),
            {**dict.fromkeys("xqkvo", "S[0], R"), "up": "R, R", "up_bias": "R, R"},
        ),
    ],
)
def test_where_parameters_lie(made: Pass, expected: dict[str, str]) -> None:
    mod = made(BLOCK)
    assert placements(mod) == expected
    assert len(mod.global_infos["mesh"]) == 1
    assert made(mod) is mod


def test_a_batch_of_sequences_lies_in_parts_of_both() -> None:
    mod = Sequential([DataParallel(MESH), SequenceParallel()])(BLOCK)
    assert placements(mod)["x"] == "S[0], S[1]"
    text = mod.script()
    assert text.count('device_mesh="mesh[0]", placement="S[0], S[1]")') == 2
    assert "g: R.DTensor((n, 8, 16)" in text


def test_what_has_no_equal_parts_stays_whole() -> None:
    mod = TensorParallel({"model": 3})(BLOCK)
    assert placements(mod) == {}
    found = placements(FullySharded({"data": 5})(BLOCK))
    assert found == {**dict.fromkeys(BATCH, "R"), "x": "S[0]", "head": "S[1]"}


@pytest.mark.parametrize(
    "mesh",
    [
        DeviceMesh((1,), [0], ("data",)),
        {"data": 1},
        Mesh(np.array(jax.devices("cpu")[:1]), ("data",)),
    ],
)
def test_meshes_by_several_names(mesh: Any) -> None:
    mod = AnnotateSharding({"x": PartitionSpec("data")}, mesh)(BLOCK)
    assert mod.global_infos["mesh"] == (DeviceMesh((1,), [0], ("data",)),)
    assert placements(mod) == {"x": "S[0]"}


BARE = parse_functions("""
    @R.function
    def f(x: R.Tensor((6, 4), "float32"), t: R.Tuple(R.Tensor((2,), "float32"))):
        return x
""")


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (AnnotateSharding({"x": "R"}), ValueError, "the module lists 0 meshes: say which, as by"),
        (AnnotateSharding({"x": "R"}, 3), TypeError, "`mesh` must be R.device_mesh(...), {"),
        (
            AnnotateSharding({"x": "R"}, {"a": "2"}),
            ValueError,
            "the axis `a` of the mesh must have 1 device or more: '2'",
        ),
        (
            AnnotateSharding({"x": 0}, {"a": 2}),
            TypeError,
            'a placement is a text such as "S[0], R", or has the axes of the mesh for each dimen',
        ),
        (AnnotateSharding({"y": "R"}, {"a": 2}), ValueError, "no parameter is called `y`"),
        (
            AnnotateSharding({"x": ("b",)}, {"a": 2}),
            ValueError,
            "the mesh has no axis `b`, but ['a']",
        ),
        (
            AnnotateSharding({"x": (("b", "a"),)}, {"a": 2, "b": 3}),
            ValueError,
            "along ['b', 'a'], but a placement goes by the order of the mesh: ['a', 'b']",
        ),
        (AnnotateSharding({"x": ("a", "a")}, {"a": 2}), ValueError, "names the axis `a` twice"),
        (
            AnnotateSharding({"x": "S[0]"}, {"a": 4}),
            ValueError,
            "the parameter `x`: 4 devices along the axis `a` of the mesh do not divide dimension 0",
        ),
        (DataParallel({"a": 2}), ValueError, "neither `backbone` nor `main`: give the name"),
        (
            DataParallel({"a": 2}, func_name="f"),
            ValueError,
            "which parameters of `f` are inputs, the module must say",
        ),
        (DataParallel({"a": 2}, "b", "f"), ValueError, "the mesh has no axis `b`"),
        (PropagateSharding({"a": 1}), ValueError, "neither `backbone` nor `main`"),
    ],
)
def test_what_is_refused(made: Pass, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        made(BARE)


def test_a_tuple_of_tensors_lies_alike() -> None:
    mod = AnnotateSharding({"t": "S[0]"}, {"a": 2})(BARE)
    assert 't: R.Tuple(R.DTensor((2,), "float32", "mesh[0]", "S[0]"))' in mod.script()
