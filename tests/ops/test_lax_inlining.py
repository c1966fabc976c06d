"""Jaxprs inside of jaxprs: what results depend on, which are inlined, and which refused."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.experimental import compute_on, hijax, xla_metadata

import relaxjax
from relaxjax.ops.lax import UnsupportedPrimitiveError, depends_on_inputs


@jax.jit
def _apart(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x * 2, y + 1


def _in_a_call(x: jax.Array) -> list[Any]:
    """A call that takes the input, one result of which is made without it."""
    return list(_apart(x, jnp.zeros(2)))


def _with_an_effect(x: jax.Array) -> list[Any]:
    jax.debug.print("{}", x)
    return [jnp.zeros(2), x]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: [x, x + 1, jnp.zeros_like(x), 3.0], [True, True, False, False]),
        (_in_a_call, [True, False]),
        (_with_an_effect, [True, True]),
    ],
)
def test_a_result_depends_on_what_it_is_made_of(
    function: Callable[[jax.Array], list[Any]], wanted: list[bool]
) -> None:
    assert depends_on_inputs(jax.make_jaxpr(function)(jnp.ones(2))) == wanted


def _with_metadata(function: Callable[..., Any]) -> Callable[..., Any]:
    if not hasattr(xla_metadata, "xla_metadata_call2"):
        pytest.skip("this JAX has no such calls")
    made: Callable[..., Any] = xla_metadata.xla_metadata_call2({"a": "b"}, ad_metadata="drop")(
        function
    )
    return made


def _in_order(function: Callable[..., Any], enforce: bool) -> Callable[..., Any]:
    overlap = pytest.importorskip("jax.experimental.overlap")
    if not hasattr(overlap, "program_order"):
        pytest.skip("this JAX has no such calls")
    made: Callable[..., Any] = overlap.program_order(function, enforce=enforce)
    return made


@pytest.mark.parametrize(
    "marked", [_with_metadata, partial(_in_order, enforce=False), partial(_in_order, enforce=True)]
)
def test_calls_that_say_how_to_compile_are_inlined(
    marked: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    def loss(x: jax.Array, y: jax.Array) -> jax.Array:
        scaled = marked(lambda x: jnp.sin(x) * y)
        in_a_loop = jax.lax.scan(lambda carry, row: (carry + scaled(row), None), y, x)[0]
        return jnp.sum(jax.vmap(scaled)(x) @ in_a_loop)

    x, y = np.linspace(0, 1, 6, dtype="float32").reshape(3, 2), np.array([1, 2], "float32")
    found = relaxjax.value_and_grad(loss, argnums=(0, 1))(x, y)
    expected = jax.value_and_grad(loss, argnums=(0, 1))(x, y)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), found, expected)


def test_what_is_computed_on_the_host_is_refused() -> None:
    mark: Any = getattr(compute_on, "compute_on2", compute_on.compute_on)
    run = mark(jnp.sin, compute_type="device_host", out_memory_spaces=jax.memory.Space.Device)
    message = "`compute_on` has no form in the IR: .*Leave out `jax.experimental.compute_on`"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        relaxjax.from_jax(run, np.ones(2, "float32"))


def test_a_program_that_was_exported_is_refused() -> None:
    x = np.ones(2, "float32")
    exported = export.export(jax.jit(jnp.sin))(x)
    message = "`call_exported` has no form in the IR: .*Call the function that was exported, or"
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        relaxjax.grad(lambda x: jnp.sum(exported.call(x)))(x)


@dataclass(frozen=True)
class _PairType(hijax.HiType):
    """The type of two arrays in one value, as newer JAX lets a user define."""

    part: Any

    def to_tangent_aval(self) -> Any:
        return self


@dataclass(frozen=True)
class _Pair:
    first: Any
    second: Any


hijax.register_hitype(_Pair, lambda pair: _PairType(jax.typeof(pair.first)))
_Primitive: Any = getattr(hijax, "HiPrim", None) or hijax.VJPHiPrimitive


class _Paired(_Primitive):  # type: ignore[misc]
    def __init__(self, part: Any) -> None:
        self.in_avals, self.out_aval = (part,), _PairType(part)
        self.params: dict[str, Any] = {}
        super().__init__()

    def expand(self, x: Any) -> _Pair:
        return _Pair(x, 2 * x)


class _Second(_Primitive):  # type: ignore[misc]
    def __init__(self, part: Any) -> None:
        self.in_avals, self.out_aval = (_PairType(part),), part
        self.params: dict[str, Any] = {}
        super().__init__()

    def expand(self, pair: _Pair) -> Any:
        return pair.second


@pytest.mark.parametrize("read", [relaxjax.from_jax, lambda f, x: relaxjax.value_and_grad(f)(x)])
def test_values_of_types_that_a_user_defines_are_refused(read: Callable[..., Any]) -> None:
    def loss(x: jax.Array) -> jax.Array:
        part = jax.typeof(x)
        return jnp.sum(_Second(part)(_Paired(part)(x)))

    message = (
        "in _(Paired|Second), a value is of type _PairType, which is no array. Hand its arrays from"
    )
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        read(loss, np.ones(2, "float32"))


def test_a_composite_is_what_it_is_made_of() -> None:
    wave: Callable[..., jax.Array] = jax.lax.composite(jnp.sin, "mine.wave")

    @jax.custom_jvp
    def differentiated(x: jax.Array) -> jax.Array:
        return wave(x)

    differentiated.defjvps(lambda tangent, result, x: tangent * jnp.cos(x))

    def loss(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum(differentiated(x) * wave(y))

    x, y = np.linspace(0, 1, 6, dtype="float32").reshape(2, 3)
    found = relaxjax.value_and_grad(loss)(x, y)
    expected = jax.value_and_grad(loss)(x, y)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), found, expected)
