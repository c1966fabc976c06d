"""Values on devices: names in scripts, what runs, what passes keep, what is refused."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax.ir import Expr, ShapeType, TensorType, Var, assert_structural_equal, const
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.op import get_op
from relaxjax.lowering import build, to_python
from relaxjax.ops.devices import devices_known
from relaxjax.passes import FoldConstant, Gradient, LegalizeOps
from relaxjax.script import ScriptError, from_source
from relaxjax.script import relax as R

MOVING = parse_functions("""
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 1)]})

    @R.function
    def main(x: R.Tensor((3,), "float32", "llvm:0")) -> R.Tensor((), "float32"):
        with R.dataflow():
            there = R.to_vdevice(x, "cuda:1")
            hinted = R.hint_on_device(there, tvm.cuda(1))
            square = R.multiply(hinted, hinted)
            back = R.to_vdevice(square, I.vdevice("llvm"))
            total = R.sum(back)
            R.output(total)
        return total
""")

TYPED = 'R.Tensor((3,), dtype="float32", vdevice="cuda:1:global") = '


def test_the_text_says_where_values_are_and_reads_back() -> None:
    text = MOVING.script()
    assert TYPED + 'R.to_vdevice(x, dst_vdevice="cuda:1:global")' in text
    hint = 'R.hint_on_device(there, dst_vdevice="cuda:1", memory_scope="global")'
    assert TYPED + hint in text
    assert 'R.to_vdevice(square, dst_vdevice="llvm:0:global")' in text
    assert_structural_equal(from_source(text), MOVING)


LISTED = """
    I.module_global_infos({
        "vdevice": [
            I.vdevice("llvm"),
            I.vdevice("cuda", 1),
            I.vdevice("cuda", 2),
            I.vdevice("llvm", 0, "l2"),
        ]
    })

    @R.function
    def main(x: R.Tensor((3,), "float32", DEVICE)):
        return x
"""


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ('"vdevice:0"', "llvm:0:global"),
        ('"vdevice"', "llvm:0:global"),
        ('"vdevice:2"', "cuda:2:global"),
        ('"vdevice:2:global"', "cuda:2:global"),
        ('"cuda:1"', "cuda:1:global"),
        ('"cuda"', "cuda:1:global"),
        ('"llvm:1"', "llvm:0:l2"),
        ('"llvm:0:l2"', "llvm:0:l2"),
        ('"cuda:7"', "cuda:7:global"),
        ('"metal"', "metal:0:global"),
        ('I.vdevice("cuda", 2)', "cuda:2:global"),
    ],
)
def test_devices_by_their_places_in_the_list_of_the_module(device: str, name: str) -> None:
    mod = parse_functions(LISTED.replace("DEVICE", device))
    assert f'x: R.Tensor((3,), dtype="float32", vdevice="{name}")' in mod.script()
    assert_structural_equal(from_source(mod.script()), mod)


def test_moves_and_hints_by_places_in_the_list() -> None:
    """TVM prints the same, but for the hint, which it gives no text that it reads."""
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor((3,), "float32", "vdevice:0")):
        there = R.to_vdevice(x, "vdevice:1")
        hinted = R.hint_on_device(there, "vdevice:1")
        own = R.hint_on_device(there, R.cuda(0))
        return (hinted, own)

    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 1)]})
""")
    text = mod.script()
    assert TYPED + 'R.to_vdevice(x, dst_vdevice="cuda:1:global")' in text
    assert 'R.hint_on_device(there, dst_vdevice="cuda:1", memory_scope="global")' in text
    assert 'R.hint_on_device(there, dst_vdevice="cuda:0", memory_scope="global")' in text
    assert_structural_equal(from_source(text), mod)


@pytest.mark.parametrize("place", ["4", "x", "-1"])
def test_a_place_that_the_list_has_not(place: str) -> None:
    with pytest.raises(ScriptError, match=f'"vdevice:{place}" is none of the 4 devices that the'):
        parse_functions(LISTED.replace("DEVICE", f'"vdevice:{place}"'))


def test_a_place_needs_a_list() -> None:
    with pytest.raises(ValueError, match=r'"vdevice:0" is a place in the list of a module, which'):
        TensorType((2,), vdevice="vdevice:0")


def test_what_is_made_of_a_value_is_on_its_device() -> None:
    number, row = (Var("x", TensorType(dims, vdevice="cuda:1")) for dims in ((), (3,)))
    assert R.full((2, 3), number).ty.vdevice == "cuda:1:global"
    assert [ty.vdevice for ty in R.meshgrid([row, row]).ty.fields] == ["cuda:1:global"] * 2


def test_a_device_that_nobody_knows_is_the_one_where_the_program_runs() -> None:
    x = np.array([1, 2, 3], "float32")
    assert build(MOVING)["main"](x) == 14


def test_values_go_to_the_devices_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[Any] = []

    def put(data: Any, place: Any) -> Any:
        moves.append(place)
        return data

    monkeypatch.setattr("relaxjax.ops.devices.jax.device_put", put)
    lower = get_op("relax.to_vdevice").lower
    assert lower is not None
    here = jax.devices()[0]
    with devices_known({"cuda:1": here}):
        lower(jnp.zeros(2), dst_vdevice="cuda:1:global")
        lower(jnp.zeros(2), dst_vdevice="cuda:0:global")
    lower(jnp.zeros(2), dst_vdevice="cuda:1:global")
    assert moves == [here]


def test_the_adjoint_goes_back_where_the_value_came_from() -> None:
    text = Gradient("main")(MOVING).script()
    there, here = 'vdevice="cuda:1:global") = ', 'vdevice="llvm:0:global") = '
    assert f'{there}R.to_vdevice(back_adjoint, dst_vdevice="cuda:1:global")' in text
    assert f'{there}R.hint_on_device(hinted_adjoint1, dst_vdevice="cuda:1", ' in text
    assert f'{here}R.to_vdevice(there_adjoint, dst_vdevice="llvm:0:global")' in text
    x = np.array([1, 2, 3], "float32")
    _, (gradient,) = build(Gradient("main")(MOVING))["main_adjoint"](x)
    np.testing.assert_array_equal(gradient, 2 * x)


MOVED_CONSTANT = parse_functions("""
    @R.function
    def main() -> R.Tensor((), "float32"):
        y = R.to_vdevice(R.const(1.0, "float32"), "cuda:0")
        return y
""")


def test_legalising_and_folding_keep_what_says_where_a_value_is() -> None:
    assert LegalizeOps()(MOVED_CONSTANT) is MOVED_CONSTANT
    assert FoldConstant()(MOVED_CONSTANT) is MOVED_CONSTANT


def test_plain_jax_leaves_values_where_they_are() -> None:
    text = to_python(MOVING)
    assert "    there = x\n    hinted = there\n" in text


def test_records_of_a_module_name_devices() -> None:
    assert VDevice("cuda", 1).name == "cuda:1:global"
    assert VDevice({"kind": "llvm", "mtriple": "x86_64"}).name == "llvm:0:global"
    assert VDevice("cuda -arch=sm_90", 0, "texture").name == "cuda:0:texture"


def test_a_device_of_jax_names_itself() -> None:
    x = Var("x", TensorType((2,), "float32"))
    call = get_op("relax.hint_on_device")(x, jax.devices("cpu")[0])
    assert call.attrs["dst_vdevice"] == "cpu:0"


def _call(name: str, *args: Any) -> Expr:
    return get_op(f"relax.{name}")(*args)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: _call("to_vdevice", const(1.0), 3),
            '`dst_vdevice` must be a device such as "cuda:0" or I.vdevice("cuda"), but `3` of type',
        ),
        (
            lambda: _call("to_vdevice", const(1.0), "cuda:x"),
            'relax.to_vdevice: `dst_vdevice` a device is written "cuda", "cuda:1"',
        ),
        (
            lambda: _call("to_vdevice", Var("s", ShapeType((2,))), "cuda"),
            "relax.to_vdevice: `data` must be a tensor, but `s` is of type R.Shape([2])",
        ),
        (
            lambda: _call("hint_on_device", const(1.0), 3),
            "relax.hint_on_device: `dst_vdevice` must be a device such as",
        ),
        (
            lambda: _call("hint_on_device", Var("s", ShapeType((2,))), "cuda"),
            "relax.hint_on_device: `data` must be a tensor, but `s` is of type R.Shape([2])",
        ),
        (lambda: R.device(3), "`device_type` must be one of 1 (cpu), 2 (cuda), 10 (rocm), found 3"),
    ],
)
def test_what_is_refused_is_told(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        make()
