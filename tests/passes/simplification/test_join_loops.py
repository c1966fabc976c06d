"""A loop and the one back through it, made one where that only sums over the steps."""

from collections.abc import Callable, Iterator
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import signed_array

from relaxjax import from_jax, to_jax
from relaxjax.ir import Function, IRModule, TensorType, TupleType, Type, well_formed
from relaxjax.passes import Gradient, JoinLoops, SimplifyGradient

W = signed_array(3, 3)
X = signed_array(6, 2, 3, seed=1)
SCALES = jnp.arange(1.0, 7.0)


def in_a_loop(of_part: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The values of the parts of x, by a loop that carries nothing."""

    def values(w: Any, x: Any) -> Any:
        return jax.lax.scan(lambda _, part: ((), of_part(w, part)), (), x, **options)[1]

    return values


def part(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w) ** 2)


def twice_in_a_loop(w: Any, x: Any) -> Any:
    return jnp.sum(in_a_loop(lambda w, row: jnp.sum(jnp.sin(row @ w)))(w, x))


def counted(w: Any, x: Any) -> Any:
    """The carry is a count, which has no gradient."""

    def step(count: Any, part: Any) -> Any:
        return count + 1, count * jnp.sum(jnp.sin(part @ w))

    count, values = jax.lax.scan(step, 1, x)
    return jnp.mean(values) + count


def with_rows_of_few(w: Any, x: Any) -> Any:
    """Its weights are large and its rows few: their gradients are summed after the loop."""
    wide = jnp.tile(w, (22, 22))
    return jnp.mean(in_a_loop(part)(wide, jnp.tile(x, (1, 1, 22))))


def recurrent(w: Any, x: Any) -> Any:
    def step(h: Any, part: Any) -> Any:
        h = jnp.tanh(h + part @ w)
        return h, jnp.sum(h)

    return jnp.mean(jax.lax.scan(step, jnp.zeros((2, 3)), x)[1])


def with_a_product_between(w: Any, x: Any) -> Any:
    values = in_a_loop(part)(w, x)
    return jnp.mean(values) + jnp.sum(jnp.outer(values, values) @ jnp.ones((6, 6)))


def adjoints(loss: Callable[..., Any]) -> tuple[IRModule, IRModule]:
    """The adjoint as it is simplified, and without its loops joined."""
    adjoint = Gradient("main", ["w", "x"], lazy=True)(from_jax(loss, W, X))
    return SimplifyGradient()(adjoint), adjoint


@pytest.mark.parametrize(
    ("loss", "loops"),
    [
        (lambda w, x: jnp.mean(in_a_loop(part)(w, x)), 1),
        (lambda w, x: jnp.sum(in_a_loop(part, reverse=True)(w, x) * SCALES), 1),
        (lambda w, x: jnp.mean(in_a_loop(jax.checkpoint(part), unroll=2)(w, x)), 1),
        (lambda w, x: jnp.mean(in_a_loop(twice_in_a_loop)(w, x)), 2),
        (counted, 1),
        (with_rows_of_few, 1),
        (recurrent, 2),
        (lambda w, x: jnp.mean(in_a_loop(part)(w, x)) ** 2, 2),
        (with_a_product_between, 2),
    ],
)
def test_loops_are_one_where_their_adjoints_are_known_before(
    loss: Callable[..., Any], loops: int
) -> None:
    simple, _ = adjoints(loss)
    well_formed(simple)
    assert str(simple["main_adjoint"].script()).count("R.scan(") == loops
    value, gradients = jax.jit(to_jax(simple, "main_adjoint"))(W, X)
    expected = jax.value_and_grad(loss, (0, 1))(W, X)
    chex.assert_trees_all_close((value, tuple(gradients)), expected, rtol=1e-5, atol=1e-6)


def test_nothing_is_computed_twice() -> None:
    simple, plain = adjoints(lambda w, x: jnp.mean(in_a_loop(jax.checkpoint(part))(w, x)))
    texts = [str(mod["main_adjoint"].script(show_all_types=False)) for mod in (simple, plain)]
    assert [text.count("L.tanh(") for text in texts] == [1, 2]


def test_nothing_is_stacked_but_what_is_asked_for() -> None:
    simple, _ = adjoints(lambda w, x: jnp.mean(in_a_loop(part)(w, x)))
    function = simple["main_adjoint"]
    assert isinstance(function, Function)
    (loop,) = (b.value.ty for b in function.body.bindings() if "R.scan(" in str(b.value))
    assert isinstance(loop, TupleType)
    losses, x_adjoint = TensorType((6,), "float32"), TensorType((6, 2, 3), "float32")
    assert list(tensors(loop.fields[1])) == [losses, x_adjoint]


def tensors(ty: Type) -> Iterator[TensorType]:
    for field in ty.fields if isinstance(ty, TupleType) else (ty,):
        if isinstance(field, TensorType):
            yield field
        else:
            yield from tensors(field)


def test_other_programs_stay_as_they_are() -> None:
    module = from_jax(recurrent, W, X)
    assert JoinLoops()(module) is module
