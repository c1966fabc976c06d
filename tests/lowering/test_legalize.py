"""Operators spelt out as calls of jax.lax: the text, the names, and what stays as it is."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.core import Tracer
from parsing import parse_functions, parse_main

from relaxjax.ir import Call, IRModule, TensorType, Var, assert_structural_equal
from relaxjax.ir.op import OPS, Op
from relaxjax.ir.walk import post_order
from relaxjax.lowering import LoweringError, legalize, to_jax
from relaxjax.lowering.tracing import _traced
from relaxjax.ops import OpError, op
from relaxjax.script import from_source

X = np.arange(6, dtype="float32").reshape(2, 3) + 1
W, B = X.T * np.float32(0.5), np.array([-20.0, 1.0], "float32")

MLP = parse_functions("""
@R.function
def main(
    x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32"), b: R.Tensor((2,), "float32")
) -> R.Tensor(("n", 2), "float32"):
    n = T.int64()
    with R.dataflow():
        lv0 = R.matmul(x, w)
        lv1 = R.add(lv0, b)
        out = R.nn.relu(lv1)
        R.output(out)
    return out
""")

LEGALISED_MLP = parse_functions("""
@R.function
def main(
    x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 2), "float32"), b: R.Tensor((2,), "float32")
) -> R.Tensor(("n", 2), "float32"):
    n = T.int64()
    with R.dataflow():
        lv0: R.Tensor((n, 2), "float32") = L.dot_general(
            x, w, dimension_numbers=[[[1], [0]], [[], []]], preferred_element_type="float32"
        )
        lv1_broadcast_in_dim: R.Tensor((1, 2), "float32") = L.broadcast_in_dim(
            b, shape=[1, 2], broadcast_dimensions=[1]
        )
        lv1: R.Tensor((n, 2), "float32") = L.add(lv0, lv1_broadcast_in_dim)
        out_broadcast_in_dim: R.Tensor((n, 2), "float32") = L.broadcast_in_dim(
            R.const(0.0, "float32"), shape=[n, 2], broadcast_dimensions=[]
        )
        out: R.Tensor((n, 2), "float32") = L.max(lv1, out_broadcast_in_dim)
        R.output(out)
    return out
""")


def test_the_text_of_an_mlp() -> None:
    assert_structural_equal(legalize(MLP), LEGALISED_MLP)


def test_variables_keep_their_identity_and_their_lines() -> None:
    before = list(MLP["main"].body.bindings())
    after = list(legalize(MLP)["main"].body.bindings())
    assert [b.var for b in after if b.var in {b.var for b in before}] == [b.var for b in before]
    lines = {b.span.line for b in before if b.span is not None}
    assert {b.span.line for b in after if b.span is not None} == lines
    assert all(b.span is not None for b in after)


def test_new_variables_have_names_of_their_own() -> None:
    module = parse_main("y_exp = R.nn.softmax(x)\ny = R.nn.softmax(y_exp)\nreturn y", x=(2, 3))
    names = [b.var.name for b in legalize(module)["main"].body.bindings()]
    assert len(set(names)) == len(names)
    assert {"y_exp", "y_exp_exp", "y_exp1", "y_sub", "y"} <= set(names)


def test_a_legalised_module_prints_parses_and_runs() -> None:
    module = legalize(MLP)
    assert_structural_equal(from_source(module.script()), module)
    for size in (1, 2):
        x = X[:size]
        expected = to_jax(MLP, "main")(x, W, B)
        chex.assert_trees_all_close(jax.jit(to_jax(module, "main"))(x, W, B), expected)


def test_nothing_to_do_gives_the_very_module() -> None:
    module = legalize(MLP)
    assert legalize(module) is module
    assert legalize(MLP, skip_ops=["relax.matmul", "relax.add", "relax.nn.relu"]) is MLP


def test_the_rest_of_a_module_stays_the_same() -> None:
    both = MLP.with_functions(
        {"second": LEGALISED_MLP["main"].with_attr("global_symbol", "second")}
    )
    module = legalize(both.with_attr("param_num", 2))
    assert module["second"] is both["second"]
    assert module.attrs["param_num"] == 2
    assert module["main"].attrs == MLP["main"].attrs


def test_branches_closures_and_calls() -> None:
    module = parse_functions("""
@R.function(private=True)
def square(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    y = R.multiply(x, x)
    return y

@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
    @R.function
    def add(a: R.Tensor((2, 3), "float32")):
        s = R.add(a, x)
        return s
    if c:
        y = R.exp(x)
        z = add(y)
    else:
        z = Module.square(x)
    return z
""")
    legal = legalize(module)
    assert _operators(legal) == {"lax.mul", "lax.exp", "lax.add"}
    for condition in (True, False):
        args = (jnp.asarray(condition), X)
        expected = to_jax(module, "main")(*args)
        chex.assert_trees_all_close(jax.jit(to_jax(legal, "main"))(*args), expected)
    assert_structural_equal(from_source(legal.script()), legal)


def test_tuples_shapes_and_constants() -> None:
    module = parse_functions("""
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
    with R.dataflow():
        parts = R.split(x, 2, axis=1)
        first = parts[0]
        joined = R.concat((first, first), axis=0)
        flat = R.reshape(joined, R.shape([n * 4]))
        ones = R.zeros(R.shape([n, 2]), "float32")
        R.output(parts, flat, ones)
    return (parts, flat, ones)
""")
    legal = legalize(module)
    assert all(name.startswith("lax.") for name in _operators(legal))
    x = np.arange(8, dtype="float32").reshape(2, 4)
    chex.assert_trees_all_close(to_jax(legal, "main")(x), to_jax(module, "main")(x))


def test_other_lowerings() -> None:
    """A JAX function with the operator's parameters, attributes by name."""

    def matmul(x1: Any, x2: Any, out_dtype: str | None) -> Any:
        assert out_dtype is None
        return lax.neg(x1) @ lax.neg(x2)

    module = legalize(MLP, customize_map={"relax.matmul": matmul})
    assert [b.var.name for b in module["main"].body.bindings()][:3] == [
        "lv0_neg",
        "lv0_neg1",
        "lv0",
    ]
    chex.assert_trees_all_close(to_jax(module, "main")(X, W, B), to_jax(MLP, "main")(X, W, B))


def test_skipped_operators_stay() -> None:
    operators = _operators(legalize(MLP, skip_ops=["relax.nn.relu"]))
    assert operators == {"lax.dot_general", "lax.broadcast_in_dim", "lax.add", "relax.nn.relu"}


@pytest.mark.parametrize(
    "options", [{"skip_ops": ["relax.nn.rely"]}, {"customize_map": {"relax.nn.rely": jnp.sin}}]
)
def test_unknown_operators_are_errors(options: Any) -> None:
    message = "there is no operator `relax.nn.rely`; did you mean `relax.nn.relu`"
    with pytest.raises(KeyError, match=message):
        legalize(MLP, **options)


def test_effects_and_unknown_shapes_stay() -> None:
    module = parse_functions("""
@R.function(pure=False)
def main(x: R.Tensor(dtype="float32", ndim=2)):
    p = R.print(x, format="{}")
    y = R.exp(x)
    return y

@R.function
def shape(x: R.Tensor((2, 3), "float32")):
    s = R.shape_of(x)
    return s
""")
    assert legalize(module) is module


def test_what_depends_on_sizes_stays_until_they_are_known() -> None:
    """Whether `n` and `m` broadcast cannot be told before a call."""
    module = parse_main("s = R.add(x, y)\nt = R.exp(x)\nreturn (s, t)", x=("n",), y=("m",))
    legal = legalize(module)
    assert _operators(legal) == {"relax.add", "lax.exp"}
    row = X[0]
    chex.assert_trees_all_close(to_jax(legal, "main")(row, row[:1]), (row + row[0], np.exp(row)))


def _operator(name: str, lower: Any) -> tuple[Op, IRModule]:
    """A new operator on vectors, and a module that calls it."""

    @op(name, lower=lower)
    def operator(x: TensorType) -> TensorType:
        """An operator for a test."""
        return x

    x = "x: R.Tensor((3,), 'float32')"
    module = parse_functions(f"@R.function\ndef main({x}):\n    y = {_call(name)}\n    return y\n")
    return operator, module


def _call(name: str) -> str:
    return f"R.{name.removeprefix('relax.')}(x)"


def reverse_if_positive(x: Any) -> Any:
    return x[::-1] if x.sum() > 0 else x


def reverse_if_known(x: Any) -> Any:
    if isinstance(x, Tracer):
        raise OpError("the values must be known")
    return x[::-1]


@pytest.mark.parametrize("reverse_if_positive", [reverse_if_positive, reverse_if_known])
def test_what_needs_values_stays(reverse_if_positive: Any) -> None:
    operator, module = _operator("relax.test_reverse", reverse_if_positive)
    try:
        assert legalize(module) is module
        chex.assert_trees_all_close(to_jax(module, "main")(X[0]), X[0, ::-1])
    finally:
        OPS.pop(operator.name)


def test_what_cannot_be_written_stays() -> None:
    def host_sine(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    operator, module = _operator("relax.test_host_sine", host_sine)
    try:
        assert legalize(module) is module
    finally:
        OPS.pop(operator.name)


@pytest.mark.parametrize(
    ("lower", "found"),
    [(lambda x: x.astype("int32"), "a result of type R.Tensor"), (lambda x: (x, x), "2 results")],
)
def test_a_lowering_of_another_type_is_an_error(lower: Any, found: str) -> None:
    operator, module = _operator("relax.test_wrong", lower)
    try:
        with pytest.raises(LoweringError, match=f"the lowering of relax.test_wrong gives {found}"):
            legalize(module)
    finally:
        OPS.pop(operator.name)


def test_an_error_in_a_lowering_names_the_line() -> None:
    def broken(x: Any) -> Any:
        raise ZeroDivisionError("nothing to divide by")

    operator, module = _operator("relax.test_broken", broken)
    try:
        with pytest.raises(ZeroDivisionError) as caught:
            legalize(module)
        assert "y = R.test_broken(x)" in "".join(caught.value.__notes__)
    finally:
        OPS.pop(operator.name)


def test_a_platform_decides() -> None:
    def by_platform(x: Any) -> Any:
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, default=jnp.tan)

    operator, module = _operator("relax.test_by_platform", by_platform)
    try:
        chosen = [_operators(legalize(module, target)) for target in ("llvm", "cuda", "tpu")]
        assert chosen == [{"lax.sin"}, {"lax.cos"}, {"lax.tan"}]
        for undecided in (None, "gpu"):
            assert "lax.platform_dependent" in _operators(legalize(module, undecided))
    finally:
        OPS.pop(operator.name)


def test_a_module_may_be_made_for_a_platform_that_is_no_target() -> None:
    """JAX lowers for platforms of plugins too: what is made for another one is legalised again."""

    def by_platform(x: Any) -> Any:
        return lax.platform_dependent(x, cpu=jnp.sin, default=jnp.tan)

    operator, module = _operator("relax.test_by_platform", by_platform)
    try:
        assert _operators(legalize(module.with_attr("platform", "metal"))) == {"lax.tan"}
    finally:
        OPS.pop(operator.name)


def test_operators_are_traced_once() -> None:
    """The same operator on the same types, in one function or in another."""
    module = parse_functions("""
@R.function
def first(x: R.Tensor((7, 3), "float32")):
    y = R.nn.softmax(x)
    return R.nn.softmax(y)

@R.function
def second(x: R.Tensor((7, 3), "float32")):
    return R.nn.softmax(x)
""")
    before = _traced.cache_info()
    legalize(module)
    after = _traced.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)


def test_64_bit_dtypes_stay_what_they_are() -> None:
    module = parse_main('i = R.argmax(x, axis=1)\nj = R.astype(i, "float64")\nreturn j', x=(2, 3))
    legal = legalize(module)
    last = list(legal["main"].body.bindings())[-1]
    assert last.value.ty == TensorType((2,), "float64")
    with jax.enable_x64(True):
        found = to_jax(legal, "main")(X)
        chex.assert_trees_all_equal(found, np.array([2.0, 2.0]))


def test_products_are_as_exact_as_jax_is_set() -> None:
    """However they were legalised before."""
    module = parse_main(
        "y = R.matmul(x, x)\nreturn R.nn.conv2d(y, w)", x=(1, 2, 4, 4), w=(2, 2, 3, 3)
    )

    def count() -> int:
        return str(legalize(module).script()).count("HIGHEST")

    before = count()
    with jax.default_matmul_precision("highest"):
        inside = count()
    assert [before, inside, count()] == [0, 4, 0]


def test_a_result_that_is_an_argument() -> None:
    module = parse_main('y = R.astype(x, "float32")\nz = R.exp(y)\nreturn z', x=(2, 3))
    first = next(iter(legalize(module)["main"].body.bindings()))
    assert isinstance(first.value, Var)


def _operators(module: IRModule) -> set[str]:
    """The names of all operators that a module calls."""
    return {
        expr.op.name
        for function in module.relax_functions().values()
        for expr in post_order(function)
        if isinstance(expr, Call) and isinstance(expr.op, Op)
    }
