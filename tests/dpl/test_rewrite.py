"""Rewriting: script in, script out, forward and backward."""

import chex
import jax
import numpy as np
import pytest
from parsing import parse_flow, parse_function
from rewritten_functions import TWICE, chain, check_function, doubled, x, y

import relaxjax.dpl.rewrite
from relaxjax.dpl import (
    DFPattern,
    ExprPatternRewriter,
    OrRewriter,
    PatternContext,
    is_op,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from relaxjax.ir import Expr, Function, IRModule, Var, well_formed
from relaxjax.lowering import to_jax
from relaxjax.passes import Gradient
from relaxjax.script import relax as R


def test_each_value_that_fits_is_replaced() -> None:
    f = parse_function("""
        @R.function
        def f(a: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
            with R.dataflow():
                b = R.add(a, a)
                c = R.add(b, a)
                d = R.add(c, c)
                R.output(d)
            if flag:
                e = R.add(d, d)
                g = R.exp(e)
            else:
                g = R.exp(d)
            return g
        """)

    check_function(
        rewrite_call(TWICE, doubled, f),
        """
        @R.function
        def f(a: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
            with R.dataflow():
                b = R.multiply(a, R.const(2.0, "float32"))
                c = R.add(b, a)
                d = R.multiply(c, R.const(2.0, "float32"))
                R.output(d)
            if flag:
                e = R.multiply(d, R.const(2.0, "float32"))
                g = R.exp(e)
            else:
                g = R.exp(d)
            return g
        """,
    )


def test_rewriting_goes_on_until_nothing_fits_and_leaves_no_dead_code() -> None:
    inner = wildcard()
    pattern = is_op("relax.negative")(is_op("relax.negative")(inner))
    check_function(
        rewrite_call(pattern, lambda expr, found: found[inner], chain),
        """
        @R.function
        def chain(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            with R.dataflow():
                f = R.exp(a)
                R.output(f)
            return f
        """,
    )


def test_a_value_that_has_a_name_is_not_computed_again() -> None:
    """What a rewriter is handed are values; where it uses them their variables stand."""
    inner = is_op("relax.negative")(wildcard())
    pattern = is_op("relax.exp")(inner)

    def rewriter(expr: Expr, found: dict[DFPattern, Expr]) -> Expr:
        shared: Expr = R.abs(found[inner])
        return shared * shared

    check_function(
        rewrite_call(pattern, rewriter, chain),
        """
        @R.function
        def chain(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            with R.dataflow():
                b = R.negative(a)
                c = R.negative(b)
                d = R.negative(c)
                e = R.negative(d)
                lv = R.abs(e)
                f = R.multiply(lv, lv)
                R.output(f)
            return f
        """,
    )


def test_nothing_to_do_gives_the_very_function() -> None:
    assert rewrite_call(TWICE, doubled, chain) is chain
    assert rewrite_call(is_op("relax.exp")(x), lambda expr, found: expr, chain) is chain
    with PatternContext() as context:
        is_op("relax.add")(wildcard(), wildcard())
    assert rewrite_bindings(context, lambda found, values: {}, chain) is chain
    with PatternContext() as context:
        is_op("relax.exp")(wildcard())
    assert rewrite_bindings(context, lambda found, values: {}, chain) is chain


def test_what_cannot_be_seen_is_not_used() -> None:
    """The argument of the product is hidden in its block, so the value after it stays."""

    f = parse_function("""
        @R.function
        def f(a: R.Tensor((2,), "float32")):
            with R.dataflow():
                hidden = R.exp(a)
                product = R.multiply(hidden, a)
                R.output(product)
            return R.nn.relu(product)
        """)

    pattern = is_op("relax.nn.relu")(is_op("relax.multiply")(x, y))
    assert rewrite_call(pattern, lambda expr, found: R.add(found[x], found[y]), f) is f


def other_variables() -> tuple[Function, dict[str, Var]]:
    f = parse_function("""
        @R.function
        def f(a: R.Tensor((2,), "float32")):
            with R.dataflow():
                one = R.exp(a)
                two = R.log(one)
                R.output(two)
            three = R.negative(two)
            return three
        """)
    known = {binding.var.name: binding.var for binding in f.body.bindings()}
    return f, {**known, "free": Var("free", f.params[0].ty)}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("free", "which the function does not have"),
        ("one", "which is not bound before it"),
        ("two", "which is not bound before it"),
        ("three", "which is not bound before it"),
    ],
)
def test_a_rewriter_that_uses_a_variable_which_cannot_be_seen(name: str, why: str) -> None:
    f, known = other_variables()

    def scaled(expr: Expr, found: dict[DFPattern, Expr]) -> Expr:
        product: Expr = R.multiply(found[x], known[name])
        return product

    message = f"gives a value that uses `{name}`, {why}: a value can use what"
    with pytest.raises(ValueError, match=message):
        rewrite_call(is_op("relax.exp")(x), scaled, f)
    with pytest.raises(ValueError, match=message):
        ExprPatternRewriter(is_op("relax.exp")(x), scaled)(IRModule.from_expr(f))


def test_a_rewriter_that_uses_a_variable_which_is_gone() -> None:
    f, known = other_variables()
    (a,) = f.params
    rewriter = OrRewriter(
        ExprPatternRewriter(is_op("relax.negative")(y), lambda expr, found: R.exp(a)),
        ExprPatternRewriter(
            is_op("relax.exp")(x), lambda expr, found: R.multiply(found[x], known["two"])
        ),
    )
    with pytest.raises(ValueError, match="`two`, which a rewrite before has replaced or left"):
        rewriter(f)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("free", "`free` is not defined"),
        ("one", "`one` is used before it is defined"),
        ("three", "`three` is used before it is defined"),
    ],
)
def test_new_bindings_that_use_a_variable_which_cannot_be_seen(name: str, why: str) -> None:
    f, known = other_variables()
    with PatternContext() as context:
        exponential = is_op("relax.exp")(wildcard())

    def scaled(found: dict[DFPattern, Expr], values: dict[Var, Expr]) -> dict[Var, Expr]:
        (one, *_) = values
        assert found[exponential] is one
        return {one: R.multiply(f.params[0], known[name])}

    with pytest.raises(ValueError, match=f"gives a value for which {why}: a value can use"):
        rewrite_bindings(context, scaled, f)


def test_a_rewriter_of_the_wrong_kind() -> None:
    pattern = is_op("relax.exp")(x)
    with pytest.raises(TypeError, match="must give an expression, found `None`; to leave a value"):
        rewrite_call(pattern, lambda expr, found: None, chain)  # type: ignore[arg-type, return-value]  # what the test is about
    with pytest.raises(TypeError, match=r"gives R.Tensor\(\(\).* in the place of a value of type"):
        rewrite_call(pattern, lambda expr, found: R.sum(found[x]), chain)


def test_operands_that_stand_in_the_order_asked_for_already() -> None:
    f = parse_function("""
        @R.function
        def f(a: R.Tensor((2, 2), "float32"), b: R.Tensor((2,), "float32")):
            with R.dataflow():
                c = R.matmul(a, a)
                d = R.add(c, b)
                R.output(d)
            return d
        """)
    product = is_op("relax.matmul")(x, y)
    bias = wildcard()
    pattern = is_op("relax.add")(product, bias)  # fits either order
    check_function(
        rewrite_call(pattern, lambda expr, found: R.add(found[bias], found[product]), f),
        """
        @R.function
        def f(a: R.Tensor((2, 2), "float32"), b: R.Tensor((2,), "float32")):
            with R.dataflow():
                c = R.matmul(a, a)
                d = R.add(b, c)
                R.output(d)
            return d
        """,
    )


def test_a_rewriter_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxjax.dpl.rewrite, "MOST_REWRITES", 20)
    with pytest.raises(RecursionError, match="rewrite_call: after 20 rewrites of `f` and of"):
        rewrite_call(is_op("relax.exp")(x), lambda expr, found: R.exp(R.exp(found[x])), chain)
    with PatternContext() as context:
        value = wildcard()
        whole = is_op("relax.exp")(value)

    def again(found: dict[DFPattern, Expr], values: dict[Var, Expr]) -> dict[Var, Expr]:
        var = found[whole]
        assert isinstance(var, Var)
        return {var: R.exp(R.exp(found[value]))}

    with pytest.raises(RecursionError, match="rewrite_bindings: after 20 rewrites of `f` and"):
        rewrite_bindings(context, again, chain)


def test_more_bindings_than_one_may_be_rewritten_times() -> None:
    """Whether the rewriter is handed their values, or several bindings at once."""
    count = relaxjax.dpl.rewrite.MOST_REWRITES + 10
    lines = "\n".join(f"            b{i} = R.add(b{i - 1}, b{i - 1})" for i in range(1, count))
    f = parse_function(f"""
    @R.function
    def f(b0: R.Tensor((2,), "float32")):
        with R.dataflow():
{lines}
            R.output(b{count - 1})
        return b{count - 1}
    """)
    with PatternContext() as context:
        twice = is_op("relax.add")(x, x)

    def several(found: dict[DFPattern, Expr], values: dict[Var, Expr]) -> dict[Var, Expr]:
        var = found[twice]
        assert isinstance(var, Var)
        return {var: found[x] * 2.0}

    for changed in (rewrite_call(TWICE, doubled, f), rewrite_bindings(context, several, f)):
        assert changed.script().count("R.multiply") == count - 1


branches = parse_function("""
    @R.function
    def branches(
        a: R.Tensor((2, 3), "float32"),
        w0: R.Tensor((3, 4), "float32"),
        w1: R.Tensor((3, 4), "float32"),
    ) -> R.Tensor((2, 4), "float32"):
        with R.dataflow():
            one = R.matmul(a, w0)
            used = R.exp(one)
            late = R.nn.relu(w1)
            other = R.matmul(a, late)
            both = R.multiply(used, other)
            R.output(both)
        return both
    """)


def merged() -> tuple[PatternContext, relaxjax.dpl.rewrite.BindingsRewriter]:
    with PatternContext() as context:
        data, left, right = wildcard(), wildcard(), wildcard()
        one, other = is_op("relax.matmul")(data, left), is_op("relax.matmul")(data, right)

    def rewriter(found: dict[DFPattern, Expr], values: dict[Var, Expr]) -> dict[Var, Expr]:
        product = R.matmul(found[data], R.concat([found[left], found[right]], axis=1))
        parts = R.split(product, 2, axis=1)
        first, second = found[one], found[other]
        assert isinstance(first, Var)
        assert isinstance(second, Var)
        return {first: parts[0], second: parts[1]}

    return context, rewriter


def test_several_bindings_at_once_are_put_in_order_and_share_what_they_need() -> None:
    context, rewriter = merged()
    check_function(
        rewrite_bindings(context, rewriter, branches),
        """
        @R.function
        def branches(
            a: R.Tensor((2, 3), "float32"),
            w0: R.Tensor((3, 4), "float32"),
            w1: R.Tensor((3, 4), "float32"),
        ) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                late = R.nn.relu(w1)
                lv = R.concat((w0, late), axis=1)
                lv1 = R.matmul(a, lv, out_dtype=None)
                lv2 = R.split(lv1, indices_or_sections=2, axis=1)
                one = lv2[0]
                used = R.exp(one)
                other = lv2[1]
                both = R.multiply(used, other)
                R.output(both)
            return both
        """,
    )


def test_rewriting_an_adjoint_keeps_its_results() -> None:
    """The derivative of the product above, whose two matmuls by the transposed input are merged."""
    loss = rewrite_call(is_op("relax.exp")(x), lambda expr, found: expr, branches)

    body = """
        one = R.matmul(a, w0)
        other = R.matmul(a, w1)
        both = R.multiply(R.exp(one), other)
        total = R.sum(both)
    """
    Model = parse_flow(body, a=(2, 3), w0=(3, 4), w1=(3, 4))

    assert loss is branches
    adjoint = Gradient("main")(Model)
    context, rewriter = merged()
    changed = rewrite_bindings(context, rewriter, adjoint["main_adjoint"])
    assert changed is not adjoint["main_adjoint"]
    mod = adjoint.with_function("main_adjoint", changed)
    well_formed(mod)
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s).astype("float32") for s in ((2, 3), (3, 4), (3, 4))]
    value, gradients = to_jax(mod, "main_adjoint")(*args)
    expected = jax.value_and_grad(to_jax(Model, "main"), argnums=(0, 1, 2))(*args)
    chex.assert_trees_all_close((value, tuple(gradients)), expected, rtol=1e-5)


def test_values_for_bindings_that_cannot_be() -> None:
    context, _ = merged()
    (first, *_) = branches.params

    with pytest.raises(ValueError, match="gives a value for `a`, which the block does not bind"):
        rewrite_bindings(context, lambda found, values: {first: R.exp(first)}, branches)

    def circular(found: dict[DFPattern, Expr], values: dict[Var, Expr]) -> dict[Var, Expr]:
        one, *_, both = values
        return {one: R.exp(both)}

    match = "no order for `one`, `used`, `both`: they would need each other"
    with pytest.raises(ValueError, match=match):
        rewrite_bindings(context, circular, branches)
