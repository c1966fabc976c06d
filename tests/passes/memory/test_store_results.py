"""What an adjoint gives besides, and reads itself, is stored for both."""

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from parsing import parse_flow

import relaxjax
from relaxjax.ir import IRModule
from relaxjax.ir.expr import Call
from relaxjax.ir.op import get_op
from relaxjax.ops.platform import chosen_platform, lowering_for
from relaxjax.passes import StoreResults
from relaxjax.training import Trainer

SHAPE = (128, 64)
FLAT = f"flat = L.reshape(a, new_sizes=[{128 * 64}])"


def parsed(body: str) -> IRModule:
    return parse_flow(body.replace("; ", "\n"), x=SHAPE, b=SHAPE, row=(64,))


def stored(mod: IRModule) -> list[str]:
    """The names of what is stored once."""
    bindings = StoreResults("main")(mod)["main"].body.bindings()
    calls = [(b.var.name, b.value) for b in bindings if isinstance(b.value, Call)]
    return [name for name, value in calls if value.op is get_op("relax.grad.once")]


READ: dict[str, tuple[str, list[str]]] = {
    "one that is read": ("a = L.add(x, b); y = L.exp(a); return (y, a)", ["a"]),
    "in a tuple": ("a = L.add(x, b); y = L.exp(a); z = (y, a); return z", ["a"]),
    "in another shape": (f"a = L.add(x, b); y = L.exp(a); {FLAT}; return (y, flat)", ["a"]),
    "one that nothing reads": ("a = L.add(x, b); y = L.exp(b); return (y, a)", []),
    "what is given": ("y = L.exp(x); z = (y, x); return z", []),
    "what is no result": ("a = L.add(x, b); y = L.exp(a); z = L.sin(a); return (y, z)", []),
    "a product, which is stored anyway": (
        (
            "a = L.dot_general(x, b, dimension_numbers=[[[1], [1]], [[], []]]); y = L.exp(a);"
            " return (y, a)"
        ),
        [],
    ),
    "whole numbers": (
        'a = L.convert_element_type(x, new_dtype="int32"); y = L.neg(a); return (y, a)',
        [],
    ),
    "what is made of less": (
        (
            'h = L.convert_element_type(x, new_dtype="float16"); c = L.neg(h);'
            ' a = L.convert_element_type(c, new_dtype="float32"); y = L.exp(a); return (y, a)'
        ),
        [],
    ),
    "few": ("a = L.add(row, row); y = L.exp(a); return (y, a)", []),
}


@pytest.mark.skipif(chosen_platform() != "cpu", reason="other platforms keep the program")
@pytest.mark.parametrize(("body", "names"), READ.values(), ids=READ)
def test_what_is_stored(body: str, names: list[str]) -> None:
    mod = parsed(body)
    assert stored(mod) == names
    assert names or StoreResults("main")(mod) is mod


def test_on_other_platforms_the_program_stays() -> None:
    mod = parsed(READ["one that is read"][0])
    with lowering_for("cuda"):
        assert StoreResults("main")(mod) is mod


def loss(params: Any, batch: Any) -> Any:
    logits = jnp.tanh(batch @ params["w"]) + params["b"][None]
    return -jax.nn.log_softmax(logits)[:, 0].mean(), logits


PARAMS = {"w": np.full((8, 64), 0.1, "float32"), "b": np.linspace(0, 1, 64, dtype="float32")}
BATCH = np.linspace(-1, 1, 32 * 8, dtype="float32").reshape(32, 8)


def test_logits_beside_a_loss_are_those_of_jax() -> None:
    found = relaxjax.value_and_grad(loss, has_aux=True)
    text = jax.jit(found).lower(PARAMS, BATCH).as_text()
    # The quotient by 1 is what has XLA store a value.
    stored = re.search(r"stablehlo.divide .*tensor<32x64xf32>", text) is not None
    assert stored == (chosen_platform() == "cpu")
    wanted = jax.value_and_grad(loss, has_aux=True)(PARAMS, BATCH)
    chex.assert_trees_all_close(found(PARAMS, BATCH), wanted, rtol=1e-4)


def test_a_step_gives_them_as_well() -> None:
    trainer = Trainer.from_jax(loss, PARAMS, optax.sgd(0.1), BATCH, has_aux=True)
    stored = "R.grad.once" in trainer.mod["backbone_loss_adjoint"].script()
    assert stored == (chosen_platform() == "cpu")
