"""The operators of the dialect: their table, their types, their lowerings."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters.ad import defjvp
from jax.interpreters.mlir import lower_fun, register_lowering
from refusals import t as tensor

from relaxjax import from_jax, to_jax, value_and_grad
from relaxjax.ir import ObjectType, ShapeType, SymbolicVar, TensorType, TupleType, Var, const
from relaxjax.ir.op import OPS, get_op
from relaxjax.ops import OpError
from relaxjax.ops.lax import lax_op, prototypes
from relaxjax.ops.lax.prototypes import find_primitive, optional_params, prototype_names
from relaxjax.passes import Gradient, GradientError

N, M = SymbolicVar("n"), SymbolicVar("m")


def L(name: str, *args: Any, **attrs: Any) -> Any:
    return get_op(f"lax.{name}")(*args, **attrs)


def test_there_is_an_operator_for_each_primitive() -> None:
    names = {name.removesuffix("_p") for name in dir(lax) if name.endswith("_p")}
    programs = {"scan", "while", "cond", "linear_solve", "reduce", "reduce_window", "stage"}
    other = {"select_and_scatter", "dce_sink", "create_token", "after_all"}
    keywords = {"and", "or", "not"}
    for name in names - programs - other - keywords:
        assert f"lax.{name}" in OPS


def test_names_are_identifiers() -> None:
    """Hyphens and keywords of Python would not parse."""
    assert all(
        part.isidentifier() for name in OPS for part in name.split(".") if name.startswith("lax.")
    )
    assert {"lax.scatter_add", "lax.and_", "lax.or_", "lax.not_"} <= set(OPS)


def test_every_prototype_shows_its_primitive() -> None:
    """Those that this release of JAX does not have are not there."""
    missing = {name for name in prototype_names() if not _has_primitive(name)}
    assert missing <= {"one_minus_square", "log2", "random_clone"}


def test_optional_parameters_are_those_that_jax_leaves_at_none() -> None:
    assert optional_params("exp") == {"accuracy"}
    assert {"precision", "preferred_element_type"} <= optional_params("dot_general")
    assert optional_params("reshape") >= {"dimensions"}
    assert optional_params("add") == frozenset()


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_prototypes_are_the_same_whatever_random_generator_is_the_default(impl: str) -> None:
    """What is noted of a primitive at its first use is for all later ones."""
    program = vars(prototypes)["_PROGRAMS"]["random_wrap"]
    with jax.default_prng_impl(impl):
        key = jax.eval_shape(lambda: program())  # a function that JAX has not traced yet
    assert str(key.dtype) == "key<fry>"


@pytest.mark.parametrize("name", ["dot_general", "conv_general_dilated"])
def test_what_is_optional_does_not_depend_on_the_default_precision(name: str) -> None:
    """It is noted at the first use, and a program read later would have `precision=None`."""
    with jax.default_matmul_precision("highest"):
        eqn = vars(prototypes)["_traced"].__wrapped__(name)
    assert eqn.params["precision"] is None


def test_an_unknown_primitive_is_an_error() -> None:
    with pytest.raises(ValueError, match=f"JAX, {jax.__version__}, has no primitive `sine`"):
        find_primitive("sine")


@pytest.mark.parametrize(
    ("call", "ty"),
    [
        (L("add", tensor(2, 3), tensor(2, 3)), TensorType((2, 3), "float32")),
        (L("exp", tensor(N, 3)), TensorType((N, 3), "float32")),
        (L("eq", tensor(N), tensor(N)), TensorType((N,), "bool")),
        (L("reduce_sum", tensor(N, 3), axes=(1,)), TensorType((N,), "float32")),
        (L("concatenate", tensor(N), tensor(M), dimension=0), TensorType((N + M,), "float32")),
        (L("reshape", tensor(N, 4), new_sizes=(N * 4,)), TensorType((N * 4,), "float32")),
        (L("iota", dtype="int64", shape=(N,), dimension=0), TensorType((N,), "int64")),
        (L("convert_element_type", tensor(2), new_dtype="float64"), TensorType((2,), "float64")),
        (L("neg", tensor(2, dtype="int64")), TensorType((2,), "int64")),
        (
            L("sort", tensor(3), tensor(3, dtype="int32"), dimension=0, is_stable=True, num_keys=1),
            TupleType((TensorType((3,), "float32"), TensorType((3,), "int32"))),
        ),
        (L("random_split", tensor(dtype="key<fry>"), shape=(2,)), TensorType((2,), "key<fry>")),
        (L("dim_as_value", dim=N, dtype="int32"), TensorType((), "int32")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_types_are_the_abstract_evaluation(call: Any, ty: Any) -> None:
    assert call.ty == ty


@pytest.mark.parametrize(
    ("arg", "ty"),
    [
        (Var("x", TensorType(None, "float32", 2)), TensorType(None, "float32", 1)),
        (Var("x", TensorType(None, "float32")), ObjectType()),
        (Var("x", TensorType((2, 3))), ObjectType()),
    ],
    ids=["unknown shape", "unknown rank", "unknown dtype"],
)
def test_types_say_what_is_known(arg: Var, ty: Any) -> None:
    assert L("reduce_sum", arg, axes=(1,)).ty == ty


def test_unknown_shapes_that_may_not_fit_say_nothing() -> None:
    unknown = Var("x", TensorType(None, "float32", 1))
    assert L("add", unknown, tensor(3)).ty == ObjectType()


def test_untyped_arguments_leave_a_call_untyped() -> None:
    assert L("exp", Var("x")).ty is None


def test_errors_of_jax_name_the_operator() -> None:
    with pytest.raises(OpError, match=r"lax.add: add got incompatible shapes.*\(2,\), \(3,\)"):
        L("add", tensor(2), tensor(3))


def test_names_that_a_primitive_would_ignore_are_refused() -> None:
    with pytest.raises(OpError, match=r"lax.reduce_sum: there is no argument `keepdims`"):
        L("reduce_sum", tensor(2), axes=[0], keepdims=True)
    with pytest.raises(OpError, match="no argument `axis`; did you mean `axes`"):
        L("reduce_max", tensor(2), axis=[0], axes=[0])
    with pytest.raises(OpError, match=r"lax.and_: there is no argument `out`"):
        L("and_", tensor(2), tensor(2), out=1)


def test_arguments_that_are_missing_are_counted() -> None:
    with pytest.raises(OpError, match=r"lax.add: it takes 2 arguments, but 1 were given"):
        L("add", tensor(2))


def test_arguments_must_be_tensors() -> None:
    message = "lax.exp: argument 1 must be a tensor, but `x` is of type R.Shape"
    with pytest.raises(OpError, match=message):
        L("exp", Var("x", ShapeType((2,))))


def test_arguments_must_be_expressions() -> None:
    message = r"lax.add: argument 2 must be a Relax expression, but `1.0` of type float was given"
    with pytest.raises(TypeError, match=message):
        L("add", tensor(2), 1.0)


def test_lowerings_bind_the_primitive() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    lower = get_op("lax.dot_general").lower
    assert lower is not None
    result = jax.jit(lambda x: lower(x, x, dimension_numbers=(((1,), (1,)), ((), ()))))(x)
    chex.assert_trees_all_close(result, x @ x.T)


def test_lowerings_give_tuples_for_several_results() -> None:
    lower = get_op("lax.top_k").lower
    assert lower is not None
    params = jax.make_jaxpr(lambda x: lax.top_k(x, 2))(np.ones(3, "float32")).jaxpr.eqns[0].params
    result = lower(jnp.asarray([1.0, 3.0, 2.0]), **params)
    chex.assert_trees_all_equal(result, (jnp.asarray([3.0, 2.0]), jnp.asarray([1, 2])))


def test_a_primitive_of_the_users_own_becomes_an_operator() -> None:
    own = Primitive("users_own_square")
    own.def_impl(lambda x: x * x)
    own.def_abstract_eval(lambda x: x)
    try:
        operator = lax_op(own)
        assert operator is get_op("lax.users_own_square")
        assert lax_op(own) is operator
        assert operator(const([1.0, 2.0])).ty == TensorType((2,), "float32")
    finally:
        OPS.pop("lax.users_own_square", None)


def power(exponent: int, name: str = "users_own_power") -> Primitive:
    """A primitive of a cell that is run again."""
    own = Primitive(name)
    own.def_impl(lambda x: x**exponent)
    own.def_abstract_eval(lambda x: x)
    register_lowering(own, lower_fun(lambda x: x**exponent, multiple_results=False))
    defjvp(own, lambda t, x: t * exponent * x ** (exponent - 1))
    return own


def test_another_primitive_of_the_users_takes_the_place_of_the_first() -> None:
    """It was taken for the first, and its value and derivative with it."""
    x, first = np.full(3, 2.0, "float32"), power(2)
    try:
        module = from_jax(lambda x: first.bind(x).sum(), np.ones(3, "float32"))
        for own, value, slope in ((first, 12.0, 4.0), (power(3), 24.0, 12.0), (first, 12.0, 4.0)):
            found, gradient = value_and_grad(lambda x, own=own: own.bind(x).sum())(x)
            assert float(found) == value
            np.testing.assert_allclose(gradient, slope)
        assert lax_op(power(4)) is get_op("lax.users_own_power")
        assert float(to_jax(module, "main")(x)) == 12.0  # as it was made
        match = r"`.*`: the operator lax\.users_own_power, which was"
        with pytest.raises(GradientError, match=match):
            Gradient("main")(module)
    finally:
        OPS.pop("lax.users_own_power", None)


@pytest.mark.parametrize("name", ["sin", "relu6", "scatter_add"])
def test_a_primitive_of_the_users_is_not_taken_for_one_of_jax(name: str) -> None:
    message = f"a primitive that is none of JAX's is called `{name}`, as one of JAX's is: give it"
    with pytest.raises(OpError, match=message):
        lax_op(power(2, name))


def _has_primitive(name: str) -> bool:
    try:
        return find_primitive(name).name == name
    except ValueError:
        return False
