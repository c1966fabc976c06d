"""Gradient rules as TVM calls them, one operator at a time."""

from typing import Any

import jax
import numpy as np
import pytest

import relaxjax.tvm
from relaxjax import to_jax

tvm: Any = relaxjax.tvm  # whose names are those of the table
relax: Any = tvm.relax
R: Any = tvm.script.relax
RANDOM = np.random.default_rng(0)


def adjoints(name: str, shapes: list[tuple[int, ...]], **attrs: Any) -> tuple[Any, Any]:
    """What the rule of an operator gives for random tensors, and what JAX gives."""
    op = tvm.ir.Op.get(f"relax.{name}")
    params = [relax.Var(f"x{i}", R.Tensor(shape, "float32")) for i, shape in enumerate(shapes)]
    call = op(*params, **attrs)
    grad = relax.Var("g", call.ty)
    rule = op.get_attr("FPrimalGradient")

    builder = relax.BlockBuilder()
    with builder.function("main", [*params, grad]):
        value = builder.emit(call)
        given = [builder.normalize(part) for part in rule(value, call, grad, builder)]
        builder.emit_func_output(relax.Tuple(given))
    forward = relax.BlockBuilder()
    with forward.function("main", params):
        forward.emit_func_output(forward.emit(call))

    *arrays, g = (
        np.asarray(RANDOM.normal(size=shape), "float32") for shape in (*shapes, call.ty.dims)
    )
    vm = relax.VirtualMachine(relax.build(builder.get(), "llvm"))
    _, back = jax.vjp(to_jax(forward.get(), "main"), *arrays)
    return vm["main"](*arrays, g), back(g)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("multiply", [(2, 3), (3,)], {}),
        ("tanh", [(3,)], {}),
        ("matmul", [(2, 3), (3, 2)], {}),
        ("sum", [(2, 3)], {"axis": 1}),
        ("nn.log_softmax", [(2, 3)], {}),
    ],
)
def test_rules_give_the_gradients_of_jax(name: str, shapes: Any, attrs: Any) -> None:
    ours, expected = adjoints(name, shapes, **attrs)
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


def test_several_results_and_arguments() -> None:
    op = tvm.ir.Op.get("relax.split")
    x = relax.Var("x", R.Tensor((2, 4), "float32"))
    call = op(x, 2, axis=1)
    (adjoint,) = op.get_attr("FPrimalGradient")(
        relax.Var("y", call.ty), call, relax.Var("g", call.ty), None
    )
    assert adjoint.ty == x.ty
    concat = tvm.ir.Op.get("relax.concat")
    joined = concat((x, x), axis=0)
    (adjoint,) = concat.get_attr("FPrimalGradient")(
        relax.Var("y", joined.ty), joined, relax.Var("g", joined.ty), None
    )
    assert adjoint.ty == relax.TupleType([x.ty, x.ty])


def test_arguments_without_a_gradient_are_marked() -> None:
    x, i = relax.Var("x", R.Tensor((4,), "float32")), relax.Var("i", R.Tensor((2,), "int64"))
    op = tvm.ir.Op.get("relax.take")
    call = op(x, i, axis=0)
    given = op.get_attr("FPrimalGradient")(
        relax.Var("y", call.ty), call, relax.Var("g", call.ty), None
    )
    assert str(given[1]) == "R.grad.no_grad(i)"
    floor = tvm.ir.Op.get("relax.floor")
    call = floor(x)
    given = floor.get_attr("FPrimalGradient")(relax.Var("y", call.ty), call, x, None)
    assert [str(part) for part in given] == ["R.grad.no_grad(x)"]


def test_what_is_known_of_operators() -> None:
    assert tvm.ir.Op.get("relax.add").get_attr("FPurity") is True
    assert tvm.ir.Op.get("relax.print").get_attr("FPurity") is False
    assert tvm.ir.Op.get("relax.make_closure").get_attr("FPrimalGradient") is None
    with pytest.raises(ValueError, match=r"no attribute `FLegal`; there are FPrimalGradient, FPur"):
        tvm.ir.Op.get("relax.add").get_attr("FLegal")
