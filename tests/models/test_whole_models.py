"""Whole models: what `Gradient` writes for them is what JAX computes, and trains them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import chex
import jax
import numpy as np
import pytest
from full import FULL
from quickly_compiled_programs import QUICK
from whole_model import WholeModel
from whole_models import MODELS

from relaxjax import from_source, to_jax
from relaxjax.ir import Call, IRModule, Op, assert_structural_equal, well_formed
from relaxjax.ir.walk import post_order
from relaxjax.passes import Gradient, LegalizeOps, SimplifyGradient

# How far a gradient may lie from that of JAX in 64 bits, relative to its largest number.
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
# What 32 bits lose in fifty layers: there JAX computes in the same dtype.
DEEP = {"ResNet-50"}

by_name = pytest.mark.parametrize("name", MODELS)
# What takes longest is tried on these if `RELAXJAX_FULL` is set.
LARGE = set() if FULL else {"ResNet-18", "ResNet-50"}


@cache
def model(name: str, dtype: str) -> WholeModel:
    return MODELS[name](dtype)


@cache
def adjoint(name: str, dtype: str) -> IRModule:
    """The model with its adjoint."""
    given = model(name, dtype)
    params = given.module["main"].params[: len(given.params)]
    return Gradient("main", require_grads=params)(given.module)


@cache
def compiled(name: str) -> Callable[..., Any]:
    """The adjoint in 32 bits, to be called many times."""
    return jax.jit(to_jax(adjoint(name, "float32"), "main_adjoint"), compiler_options=QUICK)


def arguments(name: str, dtype: str) -> Any:
    """The numbers of 32 bits that the model is tried on, in a dtype."""
    given = model(name, "float32")
    return in_dtype((*given.params, *given.inputs), dtype)


def in_dtype(values: Any, dtype: str) -> Any:
    """The floats among arrays in a dtype."""
    arrays = jax.tree.map(np.asarray, values)
    return jax.tree.map(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a, arrays)


def loss_of(result: Any) -> Any:
    """The loss in the result of a model, which may have new states beside it."""
    return result[0] if isinstance(result, tuple) else result


@cache
def by_jax(name: str, dtype: str) -> Any:
    """The result of the plain model, and the gradients of its loss by all parameters."""
    given = model(name, dtype)

    def target(*args: Any) -> Any:
        result = given.plain(*args)
        return loss_of(result), result

    gradient = jax.grad(target, tuple(range(len(given.params))), has_aux=True)
    with jax.enable_x64(dtype == "float64"), jax.numpy_rank_promotion("allow"):
        run = jax.jit(gradient, compiler_options=QUICK)
        gradients, result = run(*arguments(name, dtype))
    return result, gradients


def check_values(found: Any, name: str, dtype: str) -> None:
    """Each array is that of JAX, up to its largest number times the tolerance."""
    expected = in_dtype(by_jax(name, dtype if name in DEEP else "float64"), dtype)
    chex.assert_trees_all_equal_shapes_and_dtypes(found, expected)
    found = jax.tree.map(np.asarray, found)
    paths = jax.tree_util.tree_leaves_with_path(expected)
    for one, (path, other) in zip(jax.tree.leaves(found), paths, strict=True):
        largest = np.max(np.abs(other))
        assert 0 < largest < np.inf, path
        where = jax.tree_util.keystr(path)
        np.testing.assert_allclose(one, other, 0, TOLERANCE[dtype] * largest, err_msg=where)


@by_name
def test_the_loss_and_every_gradient_are_those_of_jax(name: str) -> None:
    found = compiled(name)(*arguments(name, "float32"))
    check_values(found, name, "float32")


@by_name
def test_the_adjoint_is_a_program_like_others(name: str) -> None:
    """It is well-formed, and its text parses back to it."""
    module = adjoint(name, "float32")
    well_formed(module)
    assert_structural_equal(from_source(module.script()), module)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LARGE])
def test_simplified_and_legalized_it_has_the_same_values(name: str) -> None:
    """To 64 bits; and simplifying adds no product, be it of matrices or a convolution."""
    plain = adjoint(name, "float64")
    simplified = SimplifyGradient()(plain)
    assert 0 < products(simplified) <= products(plain)
    legalized = LegalizeOps()(simplified)
    well_formed(legalized)
    with jax.enable_x64(True):
        run = jax.jit(to_jax(legalized, "main_adjoint"), compiler_options=QUICK)
        found = run(*arguments(name, "float64"))
    check_values(found, name, "float64")


def products(module: IRModule) -> int:
    """How many products of matrices and convolutions there are in the text of a module."""
    return sum(
        isinstance(node, Call) and isinstance(node.op, Op) and node.op.fusion == "out_fusable"
        for function in module.relax_functions().values()
        for node in post_order(function)
    )


@by_name
def test_steps_down_the_gradient_lower_the_loss(name: str) -> None:
    given = model(name, "float32")
    params, losses = given.params, []
    for _ in range(3):
        result, gradients = compiled(name)(*params, *given.inputs)
        losses.append(float(loss_of(result)))
        params = jax.tree.map(lambda p, g: p - np.float32(0.1) * g, params, gradients)
    assert losses[0] > losses[1] > losses[2]
