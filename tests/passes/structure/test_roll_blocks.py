"""RollBlocks: layers of equal structure become one loop, and compute what they did."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax import Function, IRModule, TupleType, from_source, to_jax
from relaxjax.ir import Call, ExternFunc, assert_structural_equal, well_formed
from relaxjax.ir.op import get_op
from relaxjax.ir.walk import post_order
from relaxjax.passes import Gradient, RollBlocks
from relaxjax.testing.equations import run

VECTOR = 'R.Tensor((4,), "float32")'
MATRIX = 'R.Tensor((4, 4), "float32")'


def module(params: list[str], lines: list[str], results: str) -> IRModule:
    body = "\n            ".join([*lines, f"R.output({results})"])
    return parse_functions(f"""
    @R.function
    def main({", ".join(params)}):
        with R.dataflow():
            {body}
        return {results}
""")


def arguments(mod: IRModule) -> list[Any]:
    rng = np.random.default_rng(0)

    def drawn(ty: Any) -> Any:
        if isinstance(ty, TupleType):
            return tuple(map(drawn, ty.fields))
        return rng.uniform(-1, 1, ty.shape).astype("float32")

    return [drawn(param.ty) for param in mod["main"].params]


def loops(mod: IRModule, name: str = "main") -> list[int]:
    """How many steps each loop of a function has."""
    calls = [expr for expr in post_order(mod[name]) if isinstance(expr, Call)]
    return [call.attrs["length"] for call in calls if call.op is get_op("relax.scan")]


def assert_same(found: IRModule, wanted: IRModule, name: str) -> None:
    args = arguments(wanted)
    pairs = zip(
        jax.tree.leaves(run(to_jax(found, name), *args)),
        jax.tree.leaves(run(to_jax(wanted, name), *args)),
        strict=True,
    )
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


def assert_same_gradients(found: IRModule, wanted: IRModule) -> None:
    lazy = Gradient("main", lazy=True)
    assert_same(lazy(found), lazy(wanted), "main_adjoint")


def perceptron(layers: int, width: str = MATRIX) -> IRModule:
    params = [f"w{i}: {width}, b{i}: {VECTOR}" for i in range(layers)]
    lines = [f"h{i + 1} = R.tanh(R.add(R.matmul(h{i}, w{i}), b{i}))" for i in range(layers)]
    return module(
        [f"x: {MATRIX}", *params], ["h0 = R.exp(x)", *lines, f"y = R.sum(h{layers})"], "y"
    )


def transformer(layers: int) -> IRModule:
    """Blocks with a residual stream, a mask that all share, and a constant."""
    params = [f"q{i}: {MATRIX}, k{i}: {MATRIX}, v{i}: {MATRIX}" for i in range(layers)]
    lines = ["mask = R.triu(R.full_like(x, R.const(-10.0)), 1)", "h0 = R.add(x, mask)"]
    for i in range(layers):
        lines += [
            f"n{i} = R.multiply(h{i}, R.const(0.5))",
            f"s{i} = R.matmul(R.matmul(n{i}, q{i}), R.permute_dims(R.matmul(n{i}, k{i})))",
            f"p{i} = R.nn.softmax(R.add(s{i}, mask))",
            f"h{i + 1} = R.add(h{i}, R.matmul(p{i}, R.matmul(n{i}, v{i})))",
        ]
    return module([f"x: {MATRIX}", *params], [*lines, f"y = R.mean(h{layers})"], "y")


def norms(layers: int) -> IRModule:
    """Layers that give a new running mean each."""
    params = [f"w{i}: {MATRIX}, m{i}: {VECTOR}" for i in range(layers)]
    lines = ["h0 = R.exp(x)"]
    for i in range(layers):
        lines += [
            f"a{i} = R.matmul(h{i}, w{i})",
            f"m{i}_new = R.add(m{i}, R.mean(a{i}, axis=0))",
            f"h{i + 1} = R.tanh(R.subtract(a{i}, m{i}_new))",
        ]
    results = ", ".join(["y", *(f"m{i}_new" for i in range(layers))])
    return module([f"x: {MATRIX}", *params], [*lines, f"y = R.sum(h{layers})"], results)


def packed(layers: int) -> IRModule:
    """Layers with their weights in a tuple each, of which each gives a tuple of halves."""
    params = [f"p{i}: R.Tuple({MATRIX}, R.Tuple({VECTOR}, R.Tuple()))" for i in range(layers)]
    lines = ["h0 = R.exp(x)"]
    for i in range(layers):
        lines += [
            f"h{i + 1} = R.tanh(R.add(R.matmul(h{i}, p{i}[0]), p{i}[1][0]))",
            f"t{i} = R.split(h{i + 1}, 2)",
        ]
    results = ", ".join(["y", *(f"t{i}" for i in range(layers))])
    return module([f"x: {MATRIX}", *params], [*lines, f"y = R.sum(h{layers})"], results)


@pytest.mark.parametrize("model", [perceptron, transformer, norms, packed])
def test_results_and_gradients_stay(model: Callable[[int], IRModule]) -> None:
    mod = model(5)
    rolled = RollBlocks("main")(mod)
    well_formed(rolled)
    assert loops(rolled) == [5]
    assert_structural_equal(from_source(rolled.script()), rolled)
    assert_same(rolled, mod, "main")
    assert_same_gradients(rolled, mod)


def test_the_backward_program_is_one_loop_too() -> None:
    adjoint = Gradient("main")(RollBlocks()(perceptron(6)))
    assert loops(adjoint, "main_adjoint") == [6, 6]


def test_values_shared_by_all_layers_are_not_stacked() -> None:
    text = RollBlocks()(transformer(4)).script()
    assert text.count("R.stack") == 3
    assert "mask_stack" not in text


def test_a_variable_that_most_layers_share_is_stacked_as_often_as_it_is_used() -> None:
    params = [f"x: {VECTOR}, w0: {VECTOR}, w1: {VECTOR}"]
    lines = [
        f"a{i} = R.multiply({f'h{i - 1}' if i else 'x'}, w{i % 2})\n            h{i} = R.sin(a{i})"
        for i in range(5)
    ]
    mod = module(params, [*lines, "y = R.sum(h4)"], "y")
    rolled = RollBlocks()(mod)
    assert loops(rolled) == [5]
    assert_same_gradients(rolled, mod)


def test_several_runs_in_one_function() -> None:
    wide = [f"h{i + 1} = R.tanh(R.matmul(h{i}, w{i}))" for i in range(4)]
    long = [f"g{i + 1} = R.sin(R.add(g{i}, w{i}))" for i in range(5)]
    params = [f"x: {MATRIX}", *(f"w{i}: {MATRIX}" for i in range(5))]
    mod = module(params, ["h0 = R.exp(x)", *wide, "g0 = R.cos(h4)", *long, "y = R.sum(g5)"], "y")
    rolled = RollBlocks()(mod)
    assert sorted(loops(rolled)) == [4, 5]
    assert_same(rolled, mod, "main")


def test_checkpoint_is_that_of_the_loop() -> None:
    mod = perceptron(4)
    rolled = RollBlocks(checkpoint=True)(mod)
    assert "checkpoint=True" in rolled.script()
    assert_same_gradients(rolled, mod)


def test_blocks_outside_of_dataflow_blocks_are_rolled() -> None:
    lines = "\n    ".join(f"h{i + 1} = R.sin(R.add(h{i}, w{i}))" for i in range(4))
    params = ", ".join(f"w{i}: {VECTOR}" for i in range(4))
    source = f"@R.function\ndef main(h0: {VECTOR}, {params}):\n    {lines}\n    return h4\n"
    function = from_source(source)
    assert isinstance(function, Function)
    mod = IRModule({"main": function})
    rolled = RollBlocks()(mod)
    well_formed(rolled)
    assert loops(rolled) == [4]
    assert_same(rolled, mod, "main")


@pytest.mark.parametrize(
    "lines",
    [
        # too few of them
        [f"h{i + 1} = R.sin(R.add(h{i}, x))" for i in range(3)],
        # other attributes in each
        [f"h{i + 1} = R.sin(R.clip(h{i}, -1, {i + 1}))" for i in range(4)],
        # each uses what is two layers before it
        [f"h{i + 1} = R.sin(R.add(h{i}, h{max(i - 2, 0)}))" for i in range(7)],
        # nothing is handed on
        [f"h{i + 1} = R.sin(R.add(h0, x))" for i in range(4)],
    ],
)
def test_what_does_not_repeat_stays_the_very_module(lines: list[str]) -> None:
    last = f"h{len(lines)}"
    mod = module([f"x: {VECTOR}"], ["h0 = R.exp(x)", *lines, f"y = R.sum({last})"], "y")
    assert RollBlocks()(mod) is mod


def test_some_of_the_layers_results_used_later_stay_as_they_are() -> None:
    """A stack of all of them would be kept for the sake of one."""
    lines = [f"h{i + 1} = R.sin(R.add(h{i}, w{i}))" for i in range(5)]
    params = [f"x: {VECTOR}", *(f"w{i}: {VECTOR}" for i in range(5))]
    mod = module(params, ["h0 = R.exp(x)", *lines, "y = R.add(h5, h2)"], "y")
    assert RollBlocks()(mod) is mod


def test_unknown_sizes_stay_as_they_are() -> None:
    mod = module(
        ['x: R.Tensor(("n",), "float32")'],
        [f"h{i + 1} = R.sin(R.exp({f'h{i}' if i else 'x'}))" for i in range(5)],
        "h5",
    )
    assert RollBlocks()(mod) is mod


def test_a_rolled_module_stays_as_it_is() -> None:
    rolled = RollBlocks()(perceptron(5))
    assert RollBlocks()(rolled) is rolled


def test_too_few_repeats_are_refused() -> None:
    with pytest.raises(ValueError, match="`min_repeats` must be at least 2, found 1"):
        RollBlocks(min_repeats=1)(perceptron(2))


def test_a_function_without_a_body_is_refused() -> None:
    mod = IRModule({"main": ExternFunc("elsewhere")})
    with pytest.raises(ValueError, match="`main` is no Relax function: it has no blocks to roll"):
        RollBlocks("main")(mod)


def test_numbers_of_keys_are_stacked_where_a_layer_draws() -> None:
    """Two keys a layer, and one after them all; which stays as it is written."""
    lines = []
    for i in range(4):
        keys = [f"R.random.fold_in(key, {2 * i + j})" for j in range(2)]
        noise = [f"R.random.uniform({k}, (4,), 0.0, 1.0, 'float32')" for k in keys]
        lines.append(f"h{i + 1} = R.tanh(R.add(R.multiply(h{i}, {noise[0]}), {noise[1]}))")
    last = "R.random.uniform(R.random.fold_in(key, 8), (4,), 0.0, 1.0, 'float32')"
    lines.append(f"out = R.add(h4, {last})")
    mod = module([f"h0: {VECTOR}", 'key: R.Tensor((), "key<fry>")'], lines, "out")
    rolled = RollBlocks()(mod)
    assert loops(rolled) == [4]
    assert "[0, 2, 4, 6]" in rolled.script()
    assert "[1, 3, 5, 7]" in rolled.script()
    assert "R.random.fold_in(key, R.prim_value(8))" in rolled.script()
    args = np.ones(4, "float32"), jax.random.key(3)
    found, wanted = (to_jax(m, "main")(*args) for m in (rolled, mod))
    np.testing.assert_array_equal(found, wanted)
    few = module([f"h0: {VECTOR}", 'key: R.Tensor((), "key<fry>")'], lines[:2], "h2")
    assert RollBlocks()(few) is few
