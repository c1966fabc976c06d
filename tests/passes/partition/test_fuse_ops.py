"""Which operators are grouped, and that it changes nothing but that."""

import jax
import numpy as np
import pytest
from parsing import parse_flow, parse_functions
from partition_programs import ADJOINT, MLP, check_gradient, check_same_results

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.lowering import build, to_jax
from relaxjax.passes import FuseOps, LegalizeOps, PassContext


def groups(mod: IRModule, level: int = 2) -> list[list[str]]:
    """The names of the values in each group, in the order of the calls."""
    fused = FuseOps(level)(mod)
    called = [b.value.op.name for b in fused["main"].body.bindings() if hasattr(b.value, "op")]
    return [
        [binding.var.name for binding in fused[name].body.bindings()]
        for name in called
        if name in fused
    ]


def test_an_mlp_becomes_its_layers() -> None:
    after = parse_functions("""
        @R.function(private=True)
        def fused_relax_matmul_relax_add_relax_nn_relu(
            x: R.Tensor((4, 3), "float32"),
            w0: R.Tensor((3, 5), "float32"),
            b0: R.Tensor((5,), "float32"),
        ) -> R.Tensor((4, 5), "float32"):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                h0 = R.matmul(x, w0)
                h1 = R.add(h0, b0)
                h2 = R.nn.relu(h1)
                R.output(h2)
            return h2

        @R.function(private=True)
        def fused_relax_matmul_relax_add_relax_tanh(
            h2: R.Tensor((4, 5), "float32"),
            w1: R.Tensor((5, 2), "float32"),
            b1: R.Tensor((2,), "float32"),
        ) -> R.Tensor((4, 2), "float32"):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                h3 = R.matmul(h2, w1)
                h4 = R.add(h3, b1)
                h5 = R.tanh(h4)
                R.output(h5)
            return h5

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
                h5 = Module.fused_relax_matmul_relax_add_relax_tanh(h2, w1, b1)
                loss = R.sum(h5)
                R.output(loss)
            return loss
        """)
    assert_structural_equal(FuseOps()(MLP), after)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = R.exp(x)\nb = R.sin(a)", [["a", "b"]]),
        ("a = R.exp(x)\nb = R.sum(a)\nc = R.exp(b)", [["a", "b"]]),
        ("a = R.exp(x)\nb = R.sin(a)\nc = R.cos(a)\nd = R.add(b, c)", [["a", "b", "c", "d"]]),
        ("a = R.permute_dims(x)\nb = R.reshape(a, R.shape([9]))", [["a", "b"]]),
        ("a = R.permute_dims(x)\nb = R.matmul(a, x)", []),
        ("a = R.matmul(x, x)\nb = R.matmul(a, a)", []),
        ("a = R.matmul(x, x)\nb = R.sum(a)", []),
        ("a = R.matmul(x, x)\nb = R.exp(a)\nc = R.sum(b)", [["a", "b"]]),
        ("a = R.matmul(x, x)\nb = R.matmul(x, x)\nc = R.add(a, b)", [["a", "c"]]),
        ("a = R.exp(x)\nb = R.sin(a)\nreturn (a, b)", []),
        ("a = R.exp(x)\nb = (a, a)", []),
        ("a = R.exp(x)\nb = R.sin(a)\nc = R.cos(b)\nreturn (b, c)", [["a", "b"]]),
    ],
)
def test_what_is_grouped(body: str, expected: list[list[str]]) -> None:
    mod = parse_flow(body, x=(3, 3))
    assert groups(mod) == expected
    check_same_results(mod, FuseOps(2)(mod))
    if not expected:
        assert FuseOps(2)(mod) is mod


def test_levels() -> None:
    assert groups(MLP, 2) == [["h0", "h1", "h2"], ["h3", "h4", "h5"]]
    assert groups(MLP, 1) == [["h1", "h2"], ["h4", "h5"]]
    assert FuseOps(0)(MLP) is MLP
    with PassContext(opt_level=0):
        assert FuseOps()(MLP) is MLP
    with PassContext(opt_level=1):
        assert_structural_equal(FuseOps()(MLP), FuseOps(1)(MLP))


def test_fusing_again_changes_nothing() -> None:
    for mod in (MLP, ADJOINT):
        fused = FuseOps()(mod)
        assert FuseOps()(fused) is fused


def test_an_adjoint_keeps_its_results() -> None:
    fused = FuseOps()(ADJOINT)
    assert len(fused) > len(ADJOINT)
    check_same_results(ADJOINT, fused, "main_adjoint")
    check_gradient(fused)


def test_values_outside_of_dataflow_blocks_and_in_branches() -> None:
    before = parse_functions("""
        @R.function
        def main(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
            a = R.exp(x)
            b = R.sin(a)
            if flag:
                c = R.cos(b)
                d = R.tanh(c)
            else:
                d = b
            return d
        """)
    after = parse_functions("""
        @R.function(private=True)
        def fused_relax_exp_relax_sin(x: R.Tensor((2,), "float32")):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                a = R.exp(x)
                b = R.sin(a)
                R.output(b)
            return b

        @R.function(private=True)
        def fused_relax_cos_relax_tanh(b: R.Tensor((2,), "float32")):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                c = R.cos(b)
                d = R.tanh(c)
                R.output(d)
            return d

        @R.function
        def main(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
            b = Module.fused_relax_exp_relax_sin(x)
            if flag:
                d = Module.fused_relax_cos_relax_tanh(b)
            else:
                d = b
            return d
        """)
    fused = FuseOps()(before)
    assert_structural_equal(fused, after)
    args = np.array([0.5, -1.0], "float32"), np.array(True)
    np.testing.assert_allclose(
        build(fused)["main"](*args), np.tanh(np.cos(np.sin(np.exp(args[0])))), rtol=1e-6
    )


def test_a_dimension_that_no_tensor_tells_comes_as_a_shape() -> None:
    before = parse_functions("""
        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), y: R.Tensor(("n * 2",), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.exp(y)
                b = R.reshape(a, R.shape([n, 2]))
                R.output(b)
            return R.matmul(x, R.permute_dims(b))
        """)
    after = parse_functions("""
        @R.function(private=True)
        def fused_relax_exp_relax_reshape(
            y: R.Tensor(("n * 2",), "float32"), dims: R.Shape(["n"])
        ) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()
            R.func_attr({"Primitive": True})
            with R.dataflow():
                a = R.exp(y)
                b = R.reshape(a, R.shape([n, 2]))
                R.output(b)
            return b

        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), y: R.Tensor(("n * 2",), "float32")):
            n = T.int64()
            with R.dataflow():
                b = Module.fused_relax_exp_relax_reshape(y, R.shape([n]))
                R.output(b)
            return R.matmul(x, R.permute_dims(b))
        """)
    fused = FuseOps()(before)
    assert_structural_equal(fused, after)
    args = np.ones((3, 2), "float32"), np.arange(6, dtype="float32")
    np.testing.assert_allclose(
        to_jax(fused, "main")(*args), to_jax(before, "main")(*args), rtol=1e-6
    )


def test_a_group_compiles_as_one_region_of_its_name() -> None:
    fused = FuseOps()(MLP)
    args = [np.zeros(param.ty.dims, "float32") for param in MLP["main"].params]
    text = build(fused)["main"].lowered(args).as_text()
    assert "call @fused_relax_matmul_relax_add_relax_nn_relu(" in text
    assert "call @fused_relax_matmul_relax_add_relax_tanh(" in text


def test_a_group_run_by_itself_is_traced_once() -> None:
    """Operator by operator, too: what was traced for one call is there for the next."""
    fused = FuseOps()(MLP)
    args = [np.zeros(param.ty.dims, "float32") for param in MLP["main"].params]
    run = to_jax(fused, "main")
    run(*args)
    with jax.log_compiles(False), jax.no_tracing():
        run(*args)


def test_groups_are_legalized_too() -> None:
    legal = LegalizeOps()(FuseOps()(MLP))
    check_same_results(MLP, legal)


def test_a_long_group_names_its_first_operators() -> None:
    chain = ["a0 = R.exp(x)", *(f"a{i} = R.sin(a{i - 1})" for i in range(1, 9))]
    text = "\n".join(f"        {line}" for line in [*chain, "R.output(a8)"])
    mod = parse_functions(
        f'@R.function\ndef main(x: R.Tensor((2,), "float32")):\n    with R.dataflow():\n{text}\n'
        "    return a8"
    )
    (name,) = set(FuseOps()(mod)) - {"main"}
    assert name == "fused_relax_exp" + "_relax_sin" * 5 + "_and_3_more"


def test_groups_that_differ_in_a_layout_alone_are_two_functions() -> None:
    body = """
        a = R.exp(x)
        b = R.layout_transform(a, index_map=lambda i, j: (i, j))
        c = R.sin(x)
        d = R.layout_transform(c, index_map=lambda i, j: (i, j))
        e = R.exp(x)
        f = R.layout_transform(e, index_map=lambda i, j: (j, i))
        return (b, d, f)
    """
    module = parse_flow(body, x=(2, 2))
    assert len(FuseOps(2)(module)) == 4
    check_same_results(module, FuseOps(2)(module))
