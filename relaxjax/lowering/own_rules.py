"""Functions with derivatives of their own, as JAX is to differentiate them.

A written program takes what stands here along: it needs nothing but jax and one another.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def with_own_rules(
    run: Callable[..., Any],
    smooth: Sequence[int],
    gradient: Callable[..., Any] | None = None,
    forward: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """`run` with its rules for JAX: `jvp` where there is one.

    They are as CustomGradient describes them: `gradient(*args, cotangent)` and
    `jvp(*args, *tangents)`, for the arguments that can vary, those at the places `smooth`. A
    gradient takes what `forward(*args)` saves beside the result, if that is there. What is no
    array, such as a shape, is bound before.
    """

    def call(*args: Any) -> Any:
        places = [place for place, arg in enumerate(args) if _holds_arrays(arg)]
        varying = [index for index, place in enumerate(places) if place in smooth]
        still = [None if place in places else arg for place, arg in enumerate(args)]

        def bound(rule: Callable[..., Any]) -> Callable[..., Any]:
            def on_arrays(*arrays: Any) -> Any:
                given = dict(enumerate(still)) | dict(zip(places, arrays, strict=False))
                return rule(*given.values(), *arrays[len(places) :])

            return on_arrays

        arrays = [args[place] for place in places]
        if jvp is not None:
            return _by_jvp(bound(run), bound(jvp), varying)(*arrays)
        assert gradient is not None
        first = None if forward is None else bound(forward)
        return _by_gradient(bound(run), bound(gradient), first, varying)(*arrays)

    return call


def _by_jvp(
    run: Callable[..., Any], jvp: Callable[..., Any], varying: Sequence[int]
) -> Callable[..., Any]:
    function = jax.custom_jvp(run)

    @function.defjvp
    def moved(primals: Any, tangents: Any) -> Any:
        given = [jax.tree.map(_with_numbers, tangents[i], primals[i]) for i in varying]
        result, tangent = jvp(*primals, *given)
        return result, jax.tree.map(_without_numbers, tangent, result)

    return function


def _by_gradient(
    run: Callable[..., Any],
    gradient: Callable[..., Any],
    first: Callable[..., Any] | None,
    varying: Sequence[int],
) -> Callable[..., Any]:
    function = jax.custom_vjp(run)

    def forward(*arrays: Any) -> Any:
        if first is None:
            return run(*arrays), (arrays, ())
        result, saved = first(*arrays)
        return result, (arrays, (saved,))

    def backward(kept: Any, cotangent: Any) -> Any:
        arrays, saved = kept
        results = jax.eval_shape(run, *arrays)
        found = gradient(*arrays, *saved, jax.tree.map(_with_numbers, cotangent, results))
        adjoints = dict(zip(varying, found, strict=True))
        return tuple(
            jax.tree.map(_without_numbers, adjoints[i], array) if i in adjoints else None
            for i, array in enumerate(arrays)
        )

    function.defvjp(forward, backward)
    return function


def _holds_arrays(arg: Any) -> bool:
    leaves = jax.tree.leaves(arg)
    return bool(leaves) and all(hasattr(leaf, "dtype") for leaf in leaves)


def _with_numbers(derivative: Any, value: Any) -> Any:
    """JAX's derivative of a value as one of the IR: zeros of its dtype where it cannot vary."""
    return derivative if _varies(value) else jnp.zeros(value.shape, value.dtype)


def _without_numbers(derivative: Any, value: Any) -> Any:
    """A derivative of the IR as JAX has it."""
    return derivative if _varies(value) else jnp.zeros(value.shape, jax.dtypes.float0)


def _varies(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))
