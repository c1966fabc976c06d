"""What is made of random numbers alone is stored for those that read it."""

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
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import StoreDraws
from relaxjax.training import Trainer

SHAPE = (128, 64)
FLOAT = 'L.convert_element_type(mask, new_dtype="float32")'
FLOATS = f'a = {FLOAT}; b = L.mul(a, R.const(2.0, "float32"))'
BITS = f"bits = L.random_bits(key, bit_width=32, shape={[*SHAPE]})"
MASK = f'{BITS}; mask = L.lt(bits, R.const(3000000000, "uint32"))'
ZERO = 'R.const(0.0, "float32")'
ZEROS = f"zeros = L.broadcast_in_dim({ZERO}, shape={[*SHAPE]}, broadcast_dimensions=[])"
ONES = f"{ZEROS}; ones = L.exp(zeros)"


def parsed(body: str) -> IRModule:
    body = body.replace("; ", "\n")
    return parse_flow(body, x=SHAPE, row=SHAPE[1:], key='R.Tensor((), "key<fry>")')


def stored(mod: IRModule) -> list[str]:
    """The names of what is stored once."""
    bindings = StoreDraws()(mod)["main"].body.bindings()
    calls = [(b.var.name, b.value) for b in bindings if isinstance(b.value, Call)]
    return [name for name, value in calls if value.op is get_op("relax.grad.once")]


READ: dict[str, tuple[str, list[str]]] = {
    "a mask": (f"{MASK}; y = L.select_n(mask, L.neg(x), x); z = L.select_n(mask, y, x)", ["mask"]),
    "a mask that is a result": (
        f"{MASK}; y = L.select_n(mask, L.neg(x), x); return (y, mask)",
        ["mask"],
    ),
    "the mask, not the numbers that are made of it": (
        f"{MASK}; {FLOATS}; y = L.mul(x, b); z = L.mul(y, b)",
        ["mask"],
    ),
    "numbers": (
        f"{BITS}; {FLOATS}; y = L.add(x, b); z = L.mul(y, b)".replace("mask", "bits"),
        ["b"],
    ),
    "beside constants that have names": (
        f"{MASK}; {ONES}; b = L.select_n(mask, zeros, ones); y = L.mul(x, b); z = L.mul(y, b)",
        ["mask"],
    ),
    "one reader": (f"{MASK}; y = L.select_n(mask, L.neg(x), x)", []),
    "a mask of something else as well": (
        f"{MASK}; b = L.and_(mask, L.lt(x, {ZERO})); y = L.select_n(b, L.neg(x), x); z = L.not_(b)",
        [],
    ),
    "a mask that is read as a whole as well": (
        f"{MASK}; a = {FLOAT}; t = L.reduce_sum(a, axes=[0, 1]); y = L.mul(x, a); z = L.div(y, t)",
        ["mask"],
    ),
    "whole numbers": (
        (
            f'{BITS}; a = L.convert_element_type(bits, new_dtype="int32"); b = L.neg(a);'
            " c = L.cumsum(b, axis=0, reverse=False); d = L.cumsum(b, axis=1, reverse=False)"
        ),
        [],
    ),
    "few that two read": (
        f"{MASK}; a = {FLOAT}; b = L.mul(row, a); c = L.div(row, a)".replace(
            str([*SHAPE]), f"[{SHAPE[1]}]"
        ),
        [],
    ),
    "few": (f"{MASK}; a = {FLOAT}; return (a, mask)".replace(str([*SHAPE]), "[64]"), []),
}


@pytest.mark.parametrize(("body", "names"), READ.values(), ids=READ)
def test_what_is_stored(body: str, names: list[str]) -> None:
    assert stored(parsed(body)) == names


def test_on_other_platforms_the_program_stays() -> None:
    mod = parsed(READ["a mask"][0])
    with lowering_for("cuda"):
        assert StoreDraws()(mod) is mod


def layers(weights: Any, x: Any, key: Any) -> Any:
    for place, (up, down) in enumerate(weights):
        hidden = jnp.tanh(x @ up)
        mask = jax.random.bernoulli(jax.random.fold_in(key, place), 0.9, hidden.shape)
        x = x + jnp.where(mask, hidden / 0.9, 0) @ down
    return jnp.sum(x * x)


WEIGHTS = [(np.full((16, 64), 0.1, "float32"), np.full((64, 16), 0.1, "float32"))] * 3
ROWS = np.linspace(-1, 1, 256 * 16, dtype="float32").reshape(256, 16)


ARGS = (WEIGHTS, ROWS, jax.random.key(0))


def test_a_dropout_of_jax_is_as_before_and_takes_less_memory() -> None:
    loss = relaxjax.value_and_grad(layers, memory_policy="none")
    plain = jax.jit(jax.value_and_grad(layers)).lower(*ARGS).compile()
    chex.assert_trees_all_close(loss(*ARGS), plain(*ARGS), rtol=1e-4, atol=1e-4)
    mod = loss.module(*ARGS)
    masks = [b for b in mod["loss_adjoint"].body.bindings() if "_drawn" in b.var.name]
    assert len(masks) == 3
    bits = 3 * 256 * 64 * 8  # two words for each element, until the backward part
    taken: Any = plain.memory_analysis()
    assert temporary_bytes(mod, "loss_adjoint") < taken.temp_size_in_bytes - bits // 2


def test_a_training_step_stores_masks() -> None:
    def loss(weights: Any, batch: Any, key: Any) -> Any:
        return layers(weights, batch, key)

    trainer = Trainer.from_jax(loss, WEIGHTS, optax.sgd(0.1), ROWS, key=jax.random.key(0))
    names = [b.var.name for b in trainer.mod["backbone_loss_adjoint"].body.bindings()]
    assert len([name for name in names if name.endswith("_drawn")]) == 3


def test_the_largest_numbers_that_are_drawn_stay() -> None:
    key, x = jax.random.key(0), np.ones(4096, "float32")

    def loss(x: Any, key: Any) -> Any:
        bits = jax.random.bits(key, x.shape, "uint8")
        return jnp.sum(x * x * (bits / 255).astype("float32")), bits

    value_and_grad = jax.jit(relaxjax.value_and_grad(loss, has_aux=True))
    text = str(relaxjax.value_and_grad(loss, has_aux=True).module(x, key))
    assert re.search(r'"uint8"\) = R.grad.once', text)
    assert jax.random.bits(key, x.shape, "uint8").max() == 255
    wanted = jax.value_and_grad(loss, has_aux=True)(x, key)
    chex.assert_trees_all_close(value_and_grad(x, key), wanted, rtol=1e-5)
