"""Sums that were written slice by slice are sums of whole tensors again."""

from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_main

from relaxjax.ir import Call, IRModule
from relaxjax.ir.function import Function
from relaxjax.ir.op import operator_name
from relaxjax.lowering import to_jax
from relaxjax.passes import ReduceBySlices
from relaxjax.passes.memory.batch.whole_sums import with_whole_sums

ON_CPU = jax.default_backend() == "cpu" and jax.device_count() == 1


def names(mod: IRModule) -> list[str | None]:
    values = [binding.value for binding in mod["main"].body.bindings()]
    return [operator_name(value) for value in values if isinstance(value, Call)]


def with_whole(mod: IRModule) -> IRModule:
    function = mod["main"]
    assert isinstance(function, Function)
    return mod.with_function("main", with_whole_sums(function))


@pytest.mark.skipif(not ON_CPU, reason="other platforms keep the sums")
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 20, 1000), [0]), ((61, 17000), [0]), ((2, 3, 17000), [0, 1]), ((6000, 3), [1])],
    ids=["a few", "in slabs", "over two axes", "of coordinates"],
)
def test_of_all_slices(shape: tuple[int, ...], axes: list[int]) -> None:
    mod = parse_main(f"y = L.reduce_sum(x, axes={axes})\nreturn y", x=shape)
    sliced = ReduceBySlices()(mod)
    assert "lax.slice" in names(sliced)
    whole = with_whole(sliced)
    assert set(names(whole)) <= {"lax.reshape", "lax.reduce_sum"}
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    y: Any = to_jax(whole, "main")(x)
    np.testing.assert_allclose(y, x.sum(tuple(axes)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("places", [(0, 1), (0, 1, 1)], ids=["not of all", "one twice"])
def test_of_others_not(places: tuple[int, ...]) -> None:
    assert "lax.reduce_sum" not in names(with_whole(added(places)))


def test_what_is_added_beside_all_stays() -> None:
    found = names(with_whole(added((0, 1, 2, 2))))
    assert found == ["lax.reduce_sum", "lax.reshape", "lax.slice", "lax.add"]


def added(places: tuple[int, ...]) -> IRModule:
    """The rows of a matrix of three at some places, added up from the first to the last."""
    lines, total = list[str](), ""
    for i, at in enumerate(places):
        lines.append(f"s{i} = L.slice(x, start_indices=[{at}, 0], limit_indices=[{at + 1}, 4])")
        lines += [f"t{i} = L.add({total}, s{i})"] if total else []
        total = f"t{i}" if total else f"s{i}"
    return parse_main("\n".join([*lines, f"return {total}"]), x=(3, 4))


@pytest.mark.parametrize(
    "second",
    ["start_indices=[1, 0], limit_indices=[2, 3]", "start_indices=[0, 1], limit_indices=[2, 2]"],
    ids=["of a part of a row", "along another axis"],
)
def test_of_slices_that_do_not_lie_along_one_axis(second: str) -> None:
    first = second.replace("[1, 0]", "[0, 0]").replace("[2, 3]", "[1, 3]")
    first = first.replace("[0, 1]", "[0, 0]").replace("[2, 2]", "[2, 1]")
    mod = parse_main(
        f"a = L.slice(x, {first})\nb = L.slice(x, {second})\ny = L.add(a, b)\nreturn y", x=(2, 4)
    )
    assert "lax.reduce_sum" not in names(with_whole(mod))
