"""How JAX itself calls its primitives: where parameters may be left out, and where names hide.

A primitive takes every parameter at each call, even those that nobody sets: `exp` has an
`accuracy`, `iota` a `sharding`. Which they are differs between releases of JAX. So each entry here
is a small public program, traced when it is first asked for: the parameters that are None in it are
left out of attributes and filled in again. The same programs lead to the primitives that have no
public name.
"""

from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jax.extend.core import primitives as named_primitives

from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import counted

_ONE = 1.0


def _vector() -> Any:
    return lax.iota(jnp.float32, 4)


def _matrix() -> Any:
    return lax.broadcast(_vector(), (4,))


def _complex_vector() -> Any:
    return lax.complex(_vector(), _vector())


def _key() -> Any:
    return jax.random.key(0)


def _image() -> Any:
    return lax.reshape(_vector(), (1, 1, 2, 2))


def _ragged() -> Any:
    sizes = lax.full((2,), 2, jnp.int32)
    return lax.ragged_dot(_matrix(), lax.broadcast(_matrix(), (2,)), sizes)


def _sparse() -> Any:
    from jax.experimental import sparse  # which takes a while to import

    places, starts = lax.iota(jnp.int32, 4), lax.iota(jnp.int32, 5)
    return sparse.BCSR((_vector(), places, starts), shape=(4, 4)) @ _matrix()


def _of(name: str, *args: Any) -> Any:
    return getattr(lax, name)(*args)


def _one_device() -> Any:
    return jax.sharding.SingleDeviceSharding(jax.devices()[0])


def _branch(x: Any) -> Any:
    return x


_UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bessel_i1e"),
    *("cbrt", "ceil", "cos", "cosh", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1"),
    *("floor", "is_finite", "lgamma", "log", "log1p", "log2", "logistic", "neg", "rsqrt"),
    *("sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
)
_BINARY = (
    *("add", "atan2", "complex", "div", "eq", "ge", "gt", "igamma", "igammac", "le", "lt", "max"),
    *("min", "mul", "ne", "nextafter", "polygamma", "rem", "sub", "zeta"),
)
_OF_INTEGERS = ("shift_left", "shift_right_arithmetic", "shift_right_logical")

_PROGRAMS: dict[str, Callable[[], Any]] = {
    **{name: partial(_of, name, _ONE) for name in _UNARY},
    **{name: partial(_of, name, _ONE, _ONE) for name in _BINARY},
    **{name: partial(_of, name, 1, 1) for name in _OF_INTEGERS},
    **{name: partial(_of, f"bitwise_{name}", True, True) for name in ("and", "or", "xor")},
    **{name: partial(_of, name, 1) for name in ("clz", "population_count")},
    **{name: partial(_of, name, 1j) for name in ("conj", "imag", "real")},
    "not": lambda: lax.bitwise_not(True),
    "broadcast_in_dim": lambda: lax.broadcast(_ONE, (2,)),
    "conv_general_dilated": lambda: lax.conv(_image(), _image(), (1, 1), "VALID"),
    "convert_element_type": lambda: lax.convert_element_type(_vector(), jnp.int32),
    "dot_general": lambda: lax.dot(_matrix(), _vector()),
    "gather": lambda: _vector().at[lax.iota(jnp.int32, 2)].get(),
    "iota": lambda: lax.iota(jnp.float32, 4),
    "reduce_max": lambda: lax.reduce_max(_vector(), (0,)),
    "reduce_min": lambda: lax.reduce_min(_vector(), (0,)),
    "reduce_prod": lambda: lax.reduce_prod(_vector(), (0,)),
    "reduce_sum": lambda: lax.reduce_sum(_vector(), (0,)),
    "reduce_and": lambda: lax.reduce_and(_vector() > 0, (0,)),
    "reduce_or": lambda: lax.reduce_or(_vector() > 0, (0,)),
    "reshape": lambda: lax.reshape(_vector(), (2, 2)),
    "rng_bit_generator": lambda: lax.rng_bit_generator(lax.full((4,), 0, jnp.uint32), (2,)),
    "sharding_constraint": lambda: lax.with_sharding_constraint(_vector(), _one_device()),
    "slice": lambda: lax.slice(_vector(), (0,), (2,)),
    "ragged_dot_general": _ragged,
    "svd": lambda: lax.linalg.svd(_matrix()),
    "eigh": lambda: lax.linalg.eigh(_matrix()),
    "eig": lambda: lax.linalg.eig(_matrix()),
    "qr": lambda: lax.linalg.qr(_matrix()),
    "schur": lambda: lax.linalg.schur(_matrix()),
    "lu_pivots_to_permutation": lambda: lax.linalg.lu_pivots_to_permutation(
        lax.iota(jnp.int32, 2), 2
    ),
    "symmetric_product": lambda: lax.linalg.symmetric_product(_matrix(), _matrix()),
    "fft": lambda: lax.fft(_complex_vector(), "FFT", (4,)),
    "random_wrap": lambda: jax.random.wrap_key_data(
        lax.full((2,), 0, jnp.uint32), impl="threefry2x32"
    ),
    "random_unwrap": lambda: jax.random.key_data(_key()),
    "random_clone": lambda: jax.random.clone(_key()),
    "platform_index": lambda: lax.platform_dependent(_ONE, cpu=_branch, default=_branch),
    "bcsr_dot_general": _sparse,
    "one_minus_square": lambda: jax.grad(jnp.tanh)(_ONE),
    "empty": lambda: lax.empty((2,), jnp.float32),
}


def prototype_names() -> tuple[str, ...]:
    """The primitives that have a program here."""
    return tuple(_PROGRAMS)


# Primitives that JAX does not expose, or of the user's own, by their names.
LEARNED: dict[str, core.Primitive] = {}


def learn_primitive(primitive: core.Primitive) -> None:
    """Remember a primitive, so that it is found by name even if JAX does not expose it."""
    LEARNED[primitive.name] = primitive


def find_primitive(name: str) -> core.Primitive:
    """The primitive called `name`."""
    if name in LEARNED:
        return LEARNED[name]
    if name in public_primitives():
        return public_primitives()[name]
    traced = _traced(name)
    if traced is None:
        raise ValueError(f"this release of JAX, {jax.__version__}, has no primitive `{name}`")
    primitive: core.Primitive = traced.primitive
    return primitive


@cache
def public_primitives() -> dict[str, core.Primitive]:
    """The primitives that JAX exposes, by their own names."""
    found = (
        getattr(space, name)
        for space in (lax, lax.linalg, named_primitives)
        for name in dir(space)
        if name.endswith("_p")
    )
    return {item.name: item for item in found if isinstance(item, core.Primitive)}


@cache
def optional_params(name: str) -> frozenset[str]:
    """The parameters of a primitive that JAX leaves at None unless somebody sets them."""
    eqn = _traced(name)
    if eqn is None:
        return frozenset()
    return frozenset(param for param, value in eqn.params.items() if value is None)


def check_call(name: str, given: Collection[str], count: int) -> None:
    """Raise where a primitive has no such parameters, or needs more than `count` arguments.

    Many ignore what they do not know, so JAX itself does not always say it.
    """
    eqn = _traced(name)
    if eqn is None:
        return
    for param in given:
        if param not in eqn.params:
            hint = did_you_mean(param, list(eqn.params))
            raise TypeError(f"there is no argument `{param}`{hint}")
    if count < len(eqn.invars):
        raise TypeError(f"it takes {counted(len(eqn.invars), 'argument')}, but {count} were given")


@cache
def _traced(name: str) -> Any:
    """The equation of a primitive in its program, None where this release of JAX has none."""
    try:
        with jax.default_matmul_precision(None):  # or products would have the user's
            traced = jax.make_jaxpr(_PROGRAMS[name])()
    except (KeyError, AttributeError):
        return None
    return next((eqn for eqn in _equations(traced.jaxpr) if eqn.primitive.name == name), None)


def _equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a program and of all programs inside it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for param in eqn.params.values():
            inner = getattr(param, "jaxpr", param)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)
