"""Groups that patterns make: which, under what names, and with what attributes."""

from typing import Any

import pytest
from parsing import parse_flow, parse_functions, parse_main
from partition_programs import ADJOINT, MLP, check_gradient, check_same_results

from relaxjax.dpl import (
    FusionPattern,
    PatternCheckContext,
    is_op,
    make_fused_bias_activation_pattern,
    wildcard,
)
from relaxjax.ir import Call, Expr, IRModule, assert_structural_equal, well_formed
from relaxjax.passes import FuseOpsByPattern, MergeComposite, MergeCompositeFunctions

x, y = wildcard(), wildcard()
LAYER = ("mine.layer", make_fused_bias_activation_pattern("relax.matmul", True, "relax.nn.relu"))
PRODUCT = ("mine.product", is_op("relax.matmul")(x, y))

LAYERS_FUSED = """
    @R.function(private=True)
    def fused_relax_matmul_relax_add_relax_nn_relu(
        x: R.Tensor((4, 3), "float32"),
        w0: R.Tensor((3, 5), "float32"),
        b0: R.Tensor((5,), "float32"),
    ) -> R.Tensor((4, 5), "float32"):
        R.func_attr({"Composite": "mine.layer", "Primitive": True})
        with R.dataflow():
            h0 = R.matmul(x, w0)
            h1 = R.add(h0, b0)
            h2 = R.nn.relu(h1)
            R.output(h2)
        return h2

    @R.function(private=True)
    def fused_relax_matmul(
        h2: R.Tensor((4, 5), "float32"), w1: R.Tensor((5, 2), "float32")
    ) -> R.Tensor((4, 2), "float32"):
        R.func_attr({"Composite": "mine.product", "Primitive": True})
        with R.dataflow():
            h3 = R.matmul(h2, w1)
            R.output(h3)
        return h3

    @R.function
    def main(
        x: R.Tensor((4, 3), "float32"),
        w0: R.Tensor((3, 5), "float32"),
        b0: R.Tensor((5,), "float32"),
        w1: R.Tensor((5, 2), "float32"),
        b1: R.Tensor((2,), "float32"),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            h2 = Module.fused_relax_matmul_relax_add_relax_nn_relu(x, w0, b0)
            h3 = Module.fused_relax_matmul(h2, w1)
            h4 = R.add(h3, b1)
            h5 = R.tanh(h4)
            loss = R.sum(h5)
            R.output(loss)
        return loss
"""


def composites(mod: IRModule) -> dict[str, str]:
    """The composite functions of a module, and the patterns that made them."""
    functions = mod.relax_functions().items()
    return {name: f.attrs["Composite"] for name, f in functions if "Composite" in f.attrs}


@pytest.mark.parametrize("larger_first", [True, False])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("z = R.clip(y, 0, 6)", ["fused_relax_matmul_relax_add_relax_clip"]),
        ("z = R.exp(y)", ["fused_relax_matmul_relax_add"]),
        ("z = R.clip(R.exp(y), 0, 6)", ["fused_relax_matmul_relax_add"]),
        (
            "c = R.clip(y, 0, 6); d = R.add(R.matmul(c, w), c); z = R.clip(d, 0, 6)",
            ["fused_relax_matmul_relax_add_relax_clip"],
        ),
    ],
)
def test_the_larger_side_of_an_or_pattern_is_taken_where_it_fits(
    larger_first: bool, body: str, expected: list[str]
) -> None:
    layer = is_op("relax.add")(is_op("relax.matmul")(x, y), wildcard())
    clipped = is_op("relax.clip")(layer, wildcard(), wildcard())
    mod = parse_functions(f"""
        @R.function
        def main(x: R.Tensor((3, 3), "float32"), w: R.Tensor((3, 3), "float32")):
            with R.dataflow():
                y = R.add(R.matmul(x, w), x)
                {"; ".join([body])}
                R.output(z)
            return z
        """)
    pattern = clipped | layer if larger_first else layer | clipped
    fused = FuseOpsByPattern([("mine.either", pattern)])(mod)
    well_formed(fused)
    assert [var.name for var in fused.functions if var.name != "main"] == expected


def test_a_check_that_refuses_the_larger_side_leaves_the_smaller_one() -> None:
    product = is_op("relax.matmul")(x, y)
    either = is_op("relax.nn.relu")(product) | product
    mod = parse_flow("y = R.nn.relu(R.matmul(x, w))\nreturn y", x=(3, 3), w=(3, 3))

    def is_product(context: PatternCheckContext) -> bool:
        return "matmul" in str(context.matched_expr)

    fused = FuseOpsByPattern([("mine.either", either, {}, is_product)])(mod)
    assert [var.name for var in fused.functions if var.name != "main"] == ["fused_relax_matmul"]


def test_earlier_patterns_go_first() -> None:
    fused = FuseOpsByPattern([LAYER, PRODUCT])(MLP)
    assert_structural_equal(fused, parse_functions(LAYERS_FUSED))
    assert_structural_equal(MergeComposite([LAYER, PRODUCT])(MLP), fused)
    assert set(composites(FuseOpsByPattern([PRODUCT, LAYER])(MLP)).values()) == {"mine.product"}


def test_groups_are_not_grouped_again_and_nothing_to_do_is_no_change() -> None:
    fused = FuseOpsByPattern([LAYER])(MLP)
    assert FuseOpsByPattern([LAYER])(fused) is fused
    assert FuseOpsByPattern([("mine.sine", is_op("relax.sin")(x))])(MLP) is MLP
    assert FuseOpsByPattern([])(MLP) is MLP
    assert MergeCompositeFunctions()(MLP) is MLP


def test_an_adjoint_keeps_its_results() -> None:
    fused = FuseOpsByPattern([LAYER, PRODUCT])(ADJOINT)
    assert list(composites(fused).values()).count("mine.product") > 4
    check_same_results(ADJOINT, fused, "main_adjoint")
    check_gradient(fused)
    check_gradient(MergeCompositeFunctions()(fused))


CONSTANT = """
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.add(x, R.const(1.0, "float32"))
            R.output(a)
        return a
"""


def test_constants_stay_inside_or_are_handed_in() -> None:
    mod, pattern = parse_functions(CONSTANT), ("mine.add", is_op("relax.add")(x, y))
    inside = FuseOpsByPattern([pattern])(mod)
    assert len(inside["fused_relax_add"].params) == 1
    handed = FuseOpsByPattern([pattern], bind_constants=False)(mod)
    assert_structural_equal(
        handed,
        parse_functions("""
            @R.function(private=True)
            def fused_relax_add(x: R.Tensor((2,), "float32"), param_0: R.Tensor((), "float32")):
                R.func_attr({"Composite": "mine.add", "Primitive": True})
                with R.dataflow():
                    a = R.add(x, param_0)
                    R.output(a)
                return a

            @R.function
            def main(x: R.Tensor((2,), "float32")):
                with R.dataflow():
                    a = Module.fused_relax_add(x, R.const(1.0, "float32"))
                    R.output(a)
                return a
            """),
    )
    for changed in (inside, handed):
        check_same_results(mod, changed)


def test_annotate_codegen_makes_each_group_a_region() -> None:
    mod = parse_functions(CONSTANT)
    pattern = ("mine.add", is_op("relax.add")(x, y))
    changed = FuseOpsByPattern([pattern], annotate_codegen=True)(mod)
    assert_structural_equal(
        changed,
        parse_functions("""
            @R.function
            def fused_relax_add_mine(x: R.Tensor((2,), "float32")):
                R.func_attr({"Codegen": "mine"})

                @R.function
                def local_func(x1: R.Tensor((2,), "float32")):
                    R.func_attr({"Composite": "mine.add"})
                    with R.dataflow():
                        a = R.add(x1, R.const(1.0, "float32"))
                        R.output(a)
                    return a

                output = local_func(x)
                return output

            @R.function
            def main(x: R.Tensor((2,), "float32")):
                with R.dataflow():
                    a = Module.fused_relax_add_mine(x)
                    R.output(a)
                return a
            """),
    )
    check_same_results(mod, changed)


LEAKING = """
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.nn.relu(a)
            c = R.multiply(b, a)
            R.output(c)
        return c
"""
LEAK = is_op("relax.nn.relu")(is_op("relax.add")(x, y))


def test_a_group_gives_all_that_others_need() -> None:
    mod = parse_functions(LEAKING)
    fused = FuseOpsByPattern([("mine.relu", LEAK)])(mod)
    assert_structural_equal(
        fused,
        parse_functions("""
            @R.function(private=True)
            def fused_relax_add_relax_nn_relu(
                x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")
            ):
                R.func_attr({"Composite": "mine.relu", "Primitive": True})
                with R.dataflow():
                    a = R.add(x, y)
                    b = R.nn.relu(a)
                    R.output(a, b)
                return (a, b)

            @R.function
            def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
                with R.dataflow():
                    pair = Module.fused_relax_add_relax_nn_relu(x, y)
                    a = pair[0]
                    b = pair[1]
                    c = R.multiply(b, a)
                    R.output(c)
                return c
            """),
    )
    check_same_results(mod, fused)


def test_a_group_that_would_need_itself_is_none() -> None:
    mod = parse_functions(LEAKING)
    around = is_op("relax.multiply")(wildcard(), is_op("relax.add")(x, y))
    assert FuseOpsByPattern([("mine.around", around)])(mod) is mod


def test_checks_see_the_match_and_what_is_around_it() -> None:
    mod = parse_functions(LEAKING)
    root, seen = LEAK, list[PatternCheckContext]()

    def check(context: PatternCheckContext) -> bool:
        seen.append(context)
        return False

    def attrs(annotated: dict[str, Expr]) -> dict[str, Any]:
        return {"data": str(annotated["data"])}

    pattern = FusionPattern("mine.relu", root, {"data": x, "root": root}, check, attrs)
    assert FuseOpsByPattern([pattern])(mod) is mod
    (context,) = seen
    assert isinstance(context.matched_expr, Call)
    assert context.annotated_expr["root"] is context.matched_expr
    assert str(context.annotated_expr["data"]) == "x"
    assert [var.name for var in context.matched_bindings] == ["a", "b"]
    usages = {var.name: [u.name for u in users] for var, users in context.var_usages.items()}
    assert usages == {"x": ["a"], "y": ["a"], "a": ["b", "c"], "b": ["c"], "c": []}
    assert context.value_to_bound_var[context.matched_expr].name == "b"
    assert context.leaks, "c needs a, too"
    taken = FusionPattern("mine.relu", root, {"data": x}, lambda context: True, attrs)
    function = FuseOpsByPattern([taken])(mod)["fused_relax_add_relax_nn_relu"]
    assert function.attrs["data"] == "x"


def test_a_check_tells_equal_values_apart() -> None:
    """Each value is looked at under its own name, though another is computed alike."""
    mod = parse_flow("a = R.exp(x)\nb = R.exp(x)\nc = R.add(a, b)\nreturn c", x=(2,))
    seen = []

    def check(context: PatternCheckContext) -> bool:
        seen.append((context.value_to_bound_var[context.matched_expr].name, context.leaks))
        return False

    FuseOpsByPattern([("mine.exp", is_op("relax.exp")(wildcard()), {}, check)])(mod)
    assert seen == [("a", False), ("b", False)]


def test_a_table_of_composites_has_checks_of_the_call() -> None:
    wide = ("mine.product", PRODUCT[1], lambda call: call.ty.dims[-1] > 2)
    assert len(composites(MergeComposite([wide])(MLP))) == 1
    with pytest.raises(TypeError, match=r"the check of `mine\.product` must be a function of"):
        MergeComposite([("mine.product", PRODUCT[1], 3)])(MLP)


def test_only_the_functions_that_are_named() -> None:
    fused = FuseOpsByPattern([PRODUCT], entry_functions=["main"])(ADJOINT)
    assert fused["main_adjoint"] is ADJOINT["main_adjoint"]
    assert fused["main"] is not ADJOINT["main"]


def test_only_dataflow_blocks() -> None:
    mod = parse_main("a = R.exp(x)\nreturn a", x=(2,))
    assert FuseOpsByPattern([("mine.exp", is_op("relax.exp")(x))])(mod) is mod


@pytest.mark.parametrize("entry", [("a",), (), ("a", "exp"), ("a", x, {}, None, None, 1)])
def test_what_is_no_pattern(entry: Any) -> None:
    with pytest.raises(TypeError, match=r"a pattern to fuse by is a FusionPattern, or a tuple"):
        FuseOpsByPattern([entry])(MLP)


def test_what_another_block_computes_is_no_part_of_a_match() -> None:
    """A group could not hold it, and would go by the name of a pattern that it is not."""
    body = """
        product = R.matmul(x, w)
        if c:
            with R.dataflow():
                result = R.nn.relu(product)
                R.output(result)
            out = result
        else:
            out = product
        return out
    """
    module = parse_main(body, x=(2, 3), w=(3, 4), c='R.Tensor((), "bool")')
    pattern = ("mine.matmul_relu", is_op("relax.nn.relu")(is_op("relax.matmul")(x, y)))
    assert FuseOpsByPattern([pattern])(module) is module
