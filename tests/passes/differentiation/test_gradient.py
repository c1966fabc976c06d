"""The backward program that `Gradient` writes: as text, in numbers, and where it must refuse."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from adjoint_checks import array, float_places
from parsing import parse_flow, parse_functions, parse_main

from relaxjax.ir import BlockBuilder, GlobalVar, IRModule, TensorType, Var, assert_structural_equal
from relaxjax.ir.op import get_op
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient, GradientError, ToGraphNormalForm, parse_pipeline

MLP = parse_flow("""
    h = R.matmul(x, w)
    z = R.add(h, b)
    y = R.tanh(z)
    loss = R.sum(y)
    """, x=(2, 3), w=(3, 4), b=(4,))  # fmt: skip

MLP_ADJOINT = parse_functions("""
    @R.function
    def main_adjoint(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")
    ):
        with R.dataflow():
            h = R.matmul(x, w)
            z = R.add(h, b)
            y = R.tanh(z)
            loss = R.sum(y)
            loss_adjoint = R.ones(R.shape([]), "float32")
            y_adjoint = R.broadcast_to(loss_adjoint, R.shape([2, 4]))
            lv = R.multiply(y, y)
            lv1 = R.subtract(R.const(1, "float32"), lv)
            z_adjoint = R.multiply(y_adjoint, lv1)
            h_adjoint = z_adjoint
            b_adjoint = R.collapse_sum_to(z_adjoint, R.shape([4]))
            lv3 = R.permute_dims(x, axes=[1, 0])
            w_adjoint = R.matmul(lv3, h_adjoint)
            w_adjoint_out = w_adjoint
            b_adjoint_out = b_adjoint
            R.output(loss, w_adjoint_out, b_adjoint_out)
        return (loss, (w_adjoint_out, b_adjoint_out))
""")


def test_the_adjoint_of_an_mlp_as_text() -> None:
    params = MLP["main"].params
    adjoint = Gradient("main", require_grads=params[1:])(MLP)
    assert_structural_equal(adjoint["main_adjoint"], MLP_ADJOINT["main_adjoint"])
    names = [binding.var.name for binding in adjoint["main_adjoint"].body.bindings()]
    assert names[4:6] == ["loss_adjoint", "y_adjoint"]
    assert names[-2:] == ["w_adjoint_out", "b_adjoint_out"]


def test_the_original_function_is_left_alone() -> None:
    adjoint = Gradient("main")(MLP)
    assert adjoint["main"] is MLP["main"]
    assert "main_adjoint" not in MLP


def test_a_global_var_names_the_function_too() -> None:
    by_name = Gradient("main")(MLP)
    assert_structural_equal(Gradient(GlobalVar("main"))(MLP), by_name)


def check_against_jax(module: IRModule, *args: jax.Array, target_index: int = 0) -> None:
    """Compare the emitted gradients of all parameters, in parts and written out, with JAX's."""
    forward = to_jax(module, "main")

    def target(*inputs: jax.Array) -> Any:
        result = forward(*inputs)
        return result[target_index] if isinstance(result, tuple) else result

    floats = float_places(args)
    expected = jax.grad(target, argnums=floats)(*args)
    for lazy in (True, False):
        adjoint = Gradient("main", target_index=target_index, lazy=lazy)(module)
        value, gradients = to_jax(adjoint, "main_adjoint")(*args)
        found = tuple(gradients[i] for i in floats)
        chex.assert_trees_all_close(value, forward(*args), rtol=1e-6)
        chex.assert_trees_all_close(found, expected, rtol=1e-5, atol=1e-6)


def test_values_agree_with_jax() -> None:
    check_against_jax(MLP, array(2, 3), array(3, 4, seed=1), array(4, seed=2))


def test_a_variable_used_twice_adds_its_adjoints() -> None:
    module = parse_flow("y = R.multiply(x, x)\nloss = R.sum(R.add(y, x))", x=(2, 3))
    check_against_jax(module, array(2, 3))


def test_broadcasting_is_undone() -> None:
    module = parse_flow("loss = R.sum(R.multiply(R.divide(x, y), z))", x=(2, 3), y=(3,), z=(2, 1))
    check_against_jax(module, array(2, 3), array(3, seed=1), array(2, 1, seed=2))


def test_tuples_nest_and_share_fields() -> None:
    """Fields are taken from several levels, one of them twice, one never."""
    body = """
c = (x, (R.exp(x), (x, x)))
a = c[0]
d = c[1]
e = d[0]
f = d[1]
g = f[0]
loss = R.sum(R.add(R.multiply(a, e), R.multiply(g, d[0])))
"""
    check_against_jax(parse_flow(body, x=(2, 3)), array(2, 3))


def test_a_tuple_parameter_has_a_tuple_gradient() -> None:
    params = 't: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))'
    module = parse_flow("a = t[0]\nloss = R.sum(R.multiply(a, a))", params)
    gradients = to_jax(Gradient("main")(module), "main_adjoint")((array(3), array(3)))[1]
    chex.assert_trees_all_close(gradients, ((2 * array(3), jnp.zeros(3)),))


def test_an_intermediate_variable_can_require_a_gradient() -> None:
    module = parse_flow("y = R.exp(x)\nloss = R.sum(R.multiply(y, y))", x=(2, 3))
    y = next(iter(module["main"].body.bindings())).var
    gradients = to_jax(Gradient("main", require_grads=y)(module), "main_adjoint")(array(2, 3))[1]
    chex.assert_trees_all_close(gradients, (2 * jnp.exp(array(2, 3)),), rtol=1e-6)


def test_an_integer_parameter_has_a_gradient_of_zeros_in_its_place() -> None:
    params = 'i: R.Tensor((2,), "int32"), x: R.Tensor((2, 3), "float32")'
    module = parse_flow("loss = R.sum(R.take(x, i, axis=1))", params)
    indices = jnp.array([0, 2], jnp.int32)
    gradients = to_jax(Gradient("main")(module), "main_adjoint")(indices, array(2, 3))[1]
    chex.assert_trees_all_equal(gradients[0], jnp.zeros(2, jnp.int32))
    chex.assert_trees_all_close(gradients[1], jnp.array([[1.0, 0, 1], [1, 0, 1]]))


def test_a_parameter_that_the_target_does_not_use_has_a_gradient_of_zeros() -> None:
    module = parse_flow("loss = R.sum(x)", x=(2, 3), y=(4,))
    gradients = to_jax(Gradient("main")(module), "main_adjoint")(array(2, 3), array(4))[1]
    chex.assert_trees_all_equal(gradients[1], jnp.zeros(4))


@pytest.mark.parametrize("cotangent", [True, False])
def test_a_number_has_a_gradient_of_zeros(cotangent: bool) -> None:
    """What folds constants may leave nothing else of a loss."""
    module = parse_main('return R.const(2.0, "float32")', x=(3,))
    adjoint = Gradient("main", cotangent=cotangent)(module)
    seeds = [jnp.ones(())] if cotangent else []
    value, gradients = to_jax(adjoint, "main_adjoint")(array(3), *seeds)
    chex.assert_trees_all_equal((value, gradients), (jnp.float32(2), (jnp.zeros(3),)))


def test_several_blocks_and_plain_bindings_make_one_backward_program() -> None:
    module = parse_functions("""
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.multiply(a, x)
            R.output(b)
        c = R.sin(b)
        with R.dataflow():
            loss = R.sum(c)
            R.output(loss)
        return loss
""")
    check_against_jax(module, array(2, 3))


def test_symbolic_dimensions_stay_symbolic() -> None:
    module = parse_flow("loss = R.sum(R.tanh(R.add(x, b)))", x=("n", 3), b=(3,))
    check_against_jax(module, array(5, 3), array(3))
    check_against_jax(module, array(2, 3), array(3))


PAIR = parse_flow("y = R.exp(x)\nloss = R.sum(y)\nreturn (y, loss)", x=(3,))


def test_the_second_of_two_results_can_be_the_target() -> None:
    check_against_jax(PAIR, array(3), target_index=1)


def test_half_precision_keeps_its_dtype() -> None:
    module = parse_flow("loss = R.sum(R.multiply(x, x))", 'x: R.Tensor((3,), "bfloat16")')
    gradients = to_jax(Gradient("main")(module), "main_adjoint")(jnp.ones(3, jnp.bfloat16))[1]
    chex.assert_trees_all_equal(gradients, (jnp.full(3, 2, jnp.bfloat16),))


def test_the_gradient_of_the_gradient() -> None:
    """The adjoint is an ordinary function: a scalar made of it can be differentiated again."""
    module = parse_flow(
        "loss = R.sum(R.multiply(x, R.multiply(x, x)))", 'x: R.Tensor((3,), "float32")'
    )
    adjoint = Gradient("main")(module)["main_adjoint"]
    gradient = adjoint.body.body.fields[1].fields[0]
    builder = BlockBuilder(IRModule())
    with builder.function("norm", adjoint.params):
        for binding in adjoint.body.bindings():
            builder.emit_binding(binding)
        builder.emit_func_output(builder.emit(get_op("relax.sum")(gradient)))
    gradients = to_jax(Gradient("norm")(builder.get()), "norm_adjoint")(array(3))[1]
    chex.assert_trees_all_close(gradients, (6 * array(3),), rtol=1e-6)


def test_backward_bindings_know_the_line_they_come_from() -> None:
    spans = {b.var.name: b.span for b in MLP["main"].body.bindings()}
    adjoint = Gradient("main")(MLP)["main_adjoint"]
    found = {b.var.name: b.span for b in adjoint.body.bindings()}
    assert found["z_adjoint"].line == spans["y"].line
    assert found["b_adjoint"].line == spans["z"].line


WITHOUT_GRADIENT = """
    @R.function(private=True)
    def inner(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.call_pure_packed("inside", x, ty_args=R.Tensor((3,), "float32"))
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        y = Module.inner(x)
        r = R.call_pure_packed("outside", y, ty_args=R.Tensor((3,), "float32"))
        loss = R.sum(r)
        return loss
"""


def test_everything_without_a_gradient_is_listed_with_its_line() -> None:
    """The functions that are called are searched too, and nothing is emitted before."""
    with pytest.raises(GradientError) as error:
        Gradient("main")(parse_functions(WITHOUT_GRADIENT))
    text = str(error.value)
    assert text.startswith("no gradient is known for:")
    for part in ("`y`: the call of `inside`", "`r`: the call of `outside`", '("outside", y'):
        assert part in text


def test_what_the_target_does_not_depend_on_needs_no_gradient() -> None:
    """The packed call sees only `i`, which has no gradient anyway."""
    params = 'x: R.Tensor((3,), "float32"), i: R.Tensor((3,), "int32")'
    body = (
        'm = R.call_pure_packed("mystery", i, ty_args=R.Tensor((3,), "float32"))\n'
        "loss = R.sum(R.multiply(x, m))"
    )
    module = parse_flow(body, params)
    assert "main_adjoint" in Gradient("main", require_grads=module["main"].params[0])(module)


SCALAR = 'x: R.Tensor((3,), "float32")'


PAIRS = parse_main("return ((x, x), x)", x=())


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (
            MLP,
            {"target_index": 1},
            "`main` has one result: `target_index` can only be 0, found 1(?!;)",
        ),
        (
            parse_flow("loss = (x, x)", SCALAR),
            {"target_index": 1, "cotangent": True},
            "found 1; to choose among the fields of `loss`, write them out",
        ),
        (
            parse_flow("loss = R.exp(x)", SCALAR),
            {},
            "the target must be a scalar .* but `loss` is of type R.Tensor\\(\\(3,\\)",
        ),
        (
            parse_flow('loss = R.sum(R.astype(x, "int32"))', SCALAR),
            {},
            r'of floating-point dtype, but `loss` is of type R.Tensor\(\(\), dtype="int32"\)(?!:)',
        ),
        (parse_flow("loss = (x, x)", SCALAR), {}, "the target must be a scalar"),
        (PAIRS, {}, r"the target must be a variable or a number, found `\(x, x\)`\n"),
        (
            ToGraphNormalForm()(parse_flow("loss = R.exp(x)", SCALAR)),
            {},
            r"the target must be a variable or a number, found `.*`: bind it to one, as ToANormalF",
        ),
        (
            MLP,
            {"require_grads": Var("q", TensorType((3,), "float32"))},
            "there is no variable `q` in the function `main`",
        ),
        (
            MLP,
            {"require_grads": [MLP["main"].params[0]] * 2},
            "the variable `x` appears more than once",
        ),
    ],
)
def test_what_cannot_be_differentiated(module: IRModule, options: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(GradientError, match=message):
        Gradient("main", **options)(module)


def test_only_floats_can_require_gradients() -> None:
    params = 'x: R.Tensor((3,), "float32"), i: R.Tensor((3,), "int32")'
    module = parse_flow("loss = R.sum(x)", params)
    with pytest.raises(GradientError, match="but `i` is of type"):
        Gradient("main", require_grads=module["main"].params[1])(module)


def test_variables_can_be_given_by_name() -> None:
    w = MLP["main"].params[1]
    assert_structural_equal(
        Gradient("main", require_grads=["w"])(MLP), Gradient("main", require_grads=w)(MLP)
    )
    assert "main_adjoint" in parse_pipeline("Gradient{func=main,require=[w,b]}")(MLP)


def test_names_must_be_of_the_function_and_its_own() -> None:
    with pytest.raises(GradientError, match=r"no variable `losss` .* did you mean `loss`"):
        Gradient("main", require_grads="losss")(MLP)
    other = Var("w", TensorType((3,), "float32"))
    message = r'`w` in `require_grads` is another .* as `mod\["main"\].params\[0\]`, or its name'
    with pytest.raises(GradientError, match=message):
        Gradient("main", require_grads=other)(MLP)
    module = parse_flow("x = R.exp(x)\nloss = R.sum(x)", x=(2, 3))
    with pytest.raises(GradientError, match="`main` has 2 variables called `x`: give the variable"):
        Gradient("main", require_grads="x")(module)
    match = "`require_grads` must be Var or str or a list of Var or str"
    with pytest.raises(TypeError, match=match):
        Gradient("main", require_grads=[3])(MLP)  # type: ignore[list-item]  # what is tested


def test_an_error_names_the_function() -> None:
    with pytest.raises(GradientError) as error:
        Gradient("main", target_index=3)(MLP)
    assert "in the function `main`" in error.value.__notes__


@pytest.mark.parametrize("index", [-1, 2])
def test_the_target_index_must_be_that_of_a_result(index: int) -> None:
    with pytest.raises(GradientError, match=rf"in \[0, 2\), the number .* found {index}"):
        Gradient("main", target_index=index)(PAIR)


def test_an_unknown_function_is_an_error_with_the_candidates() -> None:
    with pytest.raises(ValueError, match=r"no function `mian`.*did you mean `main`"):
        Gradient("mian")(MLP)
