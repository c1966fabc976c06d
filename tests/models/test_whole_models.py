"""Whole models: what `Gradient` writes for them is what JAX computes, and trains them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import chex
import jax
import numpy as np
import pytest
from whole_model import WholeModel
from whole_models import MODELS

from relaxjax.ir.check import well_formed
from relaxjax.ir.expr import Call
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.walk import post_order
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, LegalizeOps, SimplifyGradient
from relaxjax.script import from_source

# Little work to compile, because each program runs once or twice.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
# How far a gradient may lie from that of JAX, relative to its largest number.
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}

by_name = pytest.mark.parametrize("name", MODELS)


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
def compiled(name: str, dtype: str) -> Callable[..., Any]:
    """The adjoint, to be called many times."""
    return jax.jit(to_jax(adjoint(name, dtype), "main_adjoint"), compiler_options=QUICK)


def arguments(given: WholeModel) -> tuple[Any, ...]:
    return (*given.params, *given.inputs)


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
    with jax.numpy_rank_promotion("allow"):
        gradients, result = jax.jit(gradient, compiler_options=QUICK)(*arguments(given))
    return result, gradients


def check_values(found: Any, expected: Any, tolerance: float) -> None:
    """Each array is what is expected, up to its largest number times the tolerance."""
    chex.assert_trees_all_equal_shapes_and_dtypes(found, expected)
    found, expected = jax.tree.map(np.asarray, (found, expected))
    paths = jax.tree_util.tree_leaves_with_path(expected)
    for one, (path, other) in zip(jax.tree.leaves(found), paths, strict=True):
        largest = np.max(np.abs(other))
        assert 0 < largest < np.inf, path
        where = jax.tree_util.keystr(path)
        np.testing.assert_allclose(one, other, 0, tolerance * largest, err_msg=where)


@by_name
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_loss_and_every_gradient_are_those_of_jax(name: str, dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        found = compiled(name, dtype)(*arguments(model(name, dtype)))
        check_values(found, by_jax(name, dtype), TOLERANCE[dtype])


@by_name
def test_the_adjoint_is_a_program_like_others(name: str) -> None:
    """It is well-formed, and its text parses back to it."""
    module = adjoint(name, "float32")
    well_formed(module)
    assert_structural_equal(from_source(module.script()), module)


@by_name
def test_simplified_and_legalized_it_has_the_same_values(name: str) -> None:
    """And simplifying adds no product, be it of matrices or a convolution."""
    plain = adjoint(name, "float64")
    simplified = SimplifyGradient()(plain)
    assert 0 < products(simplified) <= products(plain)
    legalized = LegalizeOps()(simplified)
    well_formed(legalized)
    with jax.enable_x64(True):
        run = jax.jit(to_jax(legalized, "main_adjoint"), compiler_options=QUICK)
        found = run(*arguments(model(name, "float64")))
        check_values(found, by_jax(name, "float64"), TOLERANCE["float64"])


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
        result, gradients = compiled(name, "float32")(*params, *given.inputs)
        losses.append(float(loss_of(result)))
        params = jax.tree.map(lambda p, g: p - np.float32(0.1) * g, params, gradients)
    assert losses[0] > losses[1] > losses[2]
