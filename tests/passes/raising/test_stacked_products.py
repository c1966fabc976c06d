"""Products with a stack of weights, as einsums in JAX, by each matrix of the stack."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from layers_in_jax import drawn, raised
from parsing import parse_main
from same_results import calls_of

import relaxjax
from relaxjax.ir.tensor_types import known_dims
from relaxjax.lowering import to_jax
from relaxjax.passes import RaiseOps

ROWS, WIDTH, COUNT, WIDE = 5, 6, 3, 8


def einsum(text: str) -> Callable[[Any, Any], Any]:
    return lambda x, w: jnp.einsum(text, jnp.sin(x), w)


def with_weights_in_half(x: Any, w: Any) -> Any:
    return jnp.einsum("nd,edf->nef", jnp.sin(x).astype("bfloat16"), w.astype("bfloat16"))


# A function of rows and weights, and their shapes.
STACKED: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "rows for all": (einsum("nd,edf->nef"), (ROWS, WIDTH), (COUNT, WIDTH, WIDE)),
    "weights first": (einsum("nd,edf->efn"), (ROWS, WIDTH), (COUNT, WIDTH, WIDE)),
    "a batch of rows": (einsum("bnd,edf->bnef"), (1, ROWS, WIDTH), (COUNT, WIDTH, WIDE)),
    "heads": (einsum("nd,cedk->cnek"), (2, WIDTH), (2, COUNT, WIDTH, 4)),
    "columns of two axes": (einsum("nd,edhk->nehk"), (ROWS, WIDTH), (COUNT, WIDTH, 2, 4)),
    "rows of each": (einsum("ned,edf->nef"), (ROWS, COUNT, WIDTH), (COUNT, WIDTH, WIDE)),
    "rows of each, of a batch": (
        einsum("bend,edf->benf"),
        (2, COUNT, ROWS, WIDTH),
        (COUNT, WIDTH, WIDE),
    ),
    "weights turned": (einsum("ned,efd->nef"), (ROWS, COUNT, WIDTH), (COUNT, WIDE, WIDTH)),
    "in half precision": (with_weights_in_half, (ROWS, WIDTH), (COUNT, WIDTH, WIDE)),
}


@pytest.mark.parametrize("name", STACKED)
def test_stacks_are_multiplied_by_each_matrix(name: str) -> None:
    function, x, w = STACKED[name]
    assert len(calls_of(raised(function, drawn(*x), drawn(*w)), "matmul")) == 1


@pytest.mark.parametrize("name", STACKED)
def test_they_and_their_gradients_are_those_of_jax(name: str) -> None:
    function, *shapes = STACKED[name]
    args = [drawn(*shape) for shape in shapes]

    def loss(x: Any, w: Any) -> Any:
        return (function(x, w).astype("float32") ** 2).sum()

    found = jax.jit(relaxjax.value_and_grad(loss, argnums=(0, 1)))(*args)
    wanted = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(*args)
    chex.assert_trees_all_close(found, wanted, rtol=0.05 if "half" in name else 1e-5, atol=1e-4)


KEPT: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "more rows than columns": (einsum("nd,edf->nef"), (WIDE + 1, WIDTH), (COUNT, WIDTH, WIDE)),
    "a stack that lies otherwise": (
        einsum("ned,def->nef"),
        (ROWS, COUNT, WIDTH),
        (WIDTH, COUNT, 2),
    ),
    "two that are computed": (
        lambda x, w: jnp.einsum("nd,edf->nef", jnp.sin(x), jnp.sin(w)),
        (ROWS, WIDTH),
        (COUNT, WIDTH, WIDE),
    ),
    "a precision": (
        lambda x, w: jnp.einsum("nd,edf->nef", jnp.sin(x), w, precision="highest"),
        (ROWS, WIDTH),
        (COUNT, WIDTH, WIDE),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str) -> None:
    function, x, w = KEPT[name]
    assert not calls_of(raised(function, drawn(*x), drawn(*w)), "matmul")


def experts(x: Any, up: Any, gate: Any, bias: Any, down: Any) -> Any:
    inner = jax.nn.silu(jnp.einsum("nd,edf->nef", jnp.sin(x), up) + bias[None])
    return jnp.einsum("nef,efd->ned", inner * jnp.einsum("nd,edf->nef", jnp.sin(x), gate), down)


def test_what_lies_between_two_products_has_the_axes_of_the_first() -> None:
    stacks = [drawn(COUNT, WIDTH, WIDE)] * 2 + [drawn(COUNT, WIDE), drawn(COUNT, WIDE, WIDTH)]
    mod = raised(experts, drawn(ROWS, WIDTH), *stacks)
    assert len(calls_of(mod, "matmul")) == 3
    (activation,) = calls_of(mod, "nn.silu")
    assert known_dims(activation) == (COUNT, ROWS, WIDE)
    dims = [known_dims(call.args[0]) for call in calls_of(mod, "permute_dims")]
    assert (ROWS, COUNT, WIDE) not in dims, "what lies between is moved"


def test_what_others_read_as_it_was_is_put_in_order_for_them() -> None:
    def function(x: Any, up: Any, down: Any) -> Any:
        inner = jnp.tanh(jnp.einsum("nd,edf->nef", jnp.sin(x), up))
        return jnp.einsum("nef,efd->ned", inner, down), inner

    shapes = (ROWS, WIDTH), (COUNT, WIDTH, WIDE), (COUNT, WIDE, WIDTH)
    args = [drawn(*shape) for shape in shapes]
    mod = raised(function, *args)
    assert len(calls_of(mod, "matmul")) == 2
    chex.assert_trees_all_close(to_jax(mod, "main")(*args), function(*args), rtol=1e-5, atol=1e-6)


def test_what_goes_by_its_place_stays_where_it_is() -> None:
    mod = parse_main(
        "y = R.permute_dims(R.tril(R.permute_dims(x, [1, 0])), [1, 0])\nreturn y", x=(ROWS, WIDTH)
    )
    assert len(calls_of(RaiseOps()(mod), "permute_dims")) == 2


def test_what_has_fewer_axes_of_unknown_lengths_is_not_put_back() -> None:
    lines = [
        "n = T.int64()",
        "row = L.broadcast_in_dim(c, shape=[n], broadcast_dimensions=[])",
        "y = R.permute_dims(R.add(R.permute_dims(x, [1, 0]), row), [1, 0])",
        "return y",
    ]
    mod = parse_main("\n".join(lines), x='R.Tensor(("n", 4), "float32")', c=())
    after = RaiseOps()(mod)
    x, c = drawn(ROWS, 4), drawn()
    chex.assert_trees_all_close(to_jax(after, "main")(x, c), x + c)
