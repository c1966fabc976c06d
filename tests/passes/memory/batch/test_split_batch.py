"""A batch in equal parts: its sums and samples, through loops, and what is asked for in vain."""

import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from parsing import parse_functions, parse_main

import relaxjax
from relaxjax.ir.check import well_formed
from relaxjax.ir.module import IRModule
from relaxjax.lowering import to_jax
from relaxjax.passes import SplitBatch

ADJOINT = "loss_adjoint"
MEAN = """
e = L.exp(x)
s = L.reduce_sum(e, axes=[0, 1])
y = L.div(s, R.const(24.0, "float32"))
return y
"""


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes so few bytes that it is computed before the loop."""
    monkeypatch.setattr("relaxjax.passes.memory.batch.reading._EARLY", 0)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def check_split(loss: Any, params: Any, *batch: Any, parts: int = 2, axis: int = 0) -> IRModule:
    """Check the gradients of a loss whose batch is split against those of JAX."""
    mod = relaxjax.value_and_grad(loss).module(params, *batch)
    names = [param.name for param in mod[ADJOINT].params][-len(batch) :]
    split = SplitBatch(ADJOINT, parts, dict.fromkeys(names, axis))(mod)
    well_formed(split)
    wanted = jax.value_and_grad(loss)(params, *batch)
    value, gradients = to_jax(split, ADJOINT)(*jax.tree.leaves(params), *batch)
    chex.assert_trees_all_close(value, wanted[0], rtol=1e-5)
    leaves = jax.tree.leaves(wanted[1])
    chex.assert_trees_all_close(jax.tree.leaves(gradients), leaves, rtol=1e-4, atol=1e-5)
    return split


def test_a_sum_that_was_written_by_slices() -> None:
    """The gradient of embeddings of positions is one over the batch, along long rows."""

    def loss(params: Any, x: Any) -> Any:
        return (jnp.tanh(x + params["places"]) @ params["out"]).sum()

    params = {"places": normal(1, 130, 130), "out": normal(130, 2, seed=1)}
    mod = check_split(loss, params, normal(4, 130, 130, seed=2))
    step = mod.script().partition("R.scan(")[0]
    assert 'R.Tensor((1, 130, 130), dtype="float32") = L.slice(' in step  # of the two of a part


def test_a_perceptron() -> None:
    def loss(params: Any, x: Any, y: Any) -> Any:
        hidden = jnp.tanh(x @ params["in"])
        return ((hidden @ params["out"] - y) ** 2).mean() + 0.1 * (params["in"] ** 2).sum()

    params = {"in": normal(5, 7), "out": normal(7, 3, seed=1)}
    mod = check_split(loss, params, normal(8, 5, seed=2), normal(8, 3, seed=3), parts=4)
    assert 'R.Tensor((2, 7), dtype="float32") = L.tanh(' in mod.script()
    assert "length=4" in mod.script()


def test_matrices_across_are_read_in_the_loop() -> None:
    """What is computed before the loop is stored: XLA would copy the matrix."""

    def loss(params: Any, x: Any) -> Any:
        return ((jnp.tanh(x @ params["in"]) @ params["out"]) ** 2).mean()

    params = {"in": normal(5, 7), "out": normal(7, 3, seed=1)}
    mod = check_split(loss, params, normal(8, 5, seed=2), parts=4)
    step = mod.script().partition("def part(")[2].partition("R.scan(")[0]
    assert "L.transpose(params_out, permutation=[1, 0])" in step


@pytest.mark.parametrize(
    "read",
    [
        "m = L.mul(p, L.reduce_sum(L.exp(t), axes=[0, 1]))\nreturn L.reduce_sum(m, axes=[0])",
        """
        s = L.reduce_sum(p, axes=[0])
        r = L.reshape(L.exp(s), new_sizes=[1, 3])
        return L.dot_general(r, t, dimension_numbers=[[[1], [0]], [[], []]])
        """,
    ],
    ids=["before", "after"],
)
def test_a_matrix_across_that_is_read_elsewhere_is_made_there(read: str) -> None:
    """Before the loop, or by a product after it."""
    start = """
    t = L.transpose(w, permutation=[1, 0])
    p = L.dot_general(x, t, dimension_numbers=[[[1], [0]], [[], []]])
    """
    lines = [line.strip() for line in (start + read).strip().splitlines()]
    mod = parse_main("\n".join(line for line in lines if line), x=(4, 3), w=(3, 3))
    split = SplitBatch("main", 2, {"x": 0})(mod)
    well_formed(split)
    given = normal(4, 3), normal(3, 3, seed=1)
    found, wanted = (to_jax(one, "main")(*given) for one in (split, mod))
    chex.assert_trees_all_close(found, wanted, rtol=1e-5)
    assert "L.transpose(" in split.script().partition("def part(")[0]


def test_steps_of_a_recurrent_network_whose_batch_is_behind_them() -> None:
    def loss(params: Any, x: Any, y: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = jnp.tanh(row @ params["given"] + state @ params["state"])
            return state, state

        _, states = lax.scan(step, jnp.zeros((x.shape[1], 4)), x)
        return ((states @ params["out"] - y) ** 2).mean()

    params = {"given": normal(3, 4), "out": normal(4, 2, seed=1), "state": normal(4, 4, seed=2)}
    check_split(loss, params, normal(6, 4, 3, seed=3), normal(6, 4, 2, seed=4), axis=1)


def test_layers_in_a_loop_and_words() -> None:
    def loss(params: Any, words: Any, following: Any) -> Any:
        x = params["words"][words]

        def layer(x: Any, weight: Any) -> Any:
            return x + jnp.tanh(x @ weight), None

        x, _ = lax.scan(layer, x, params["layers"])
        logits = x @ params["words"].T
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), following[..., None], -1)
        return -picked.mean()

    rng = np.random.default_rng(5)
    words = rng.integers(0, 9, (4, 6)).astype("int32")
    params = {"layers": normal(3, 5, 5), "words": normal(9, 5, seed=1)}
    check_split(loss, params, words, words[:, ::-1].copy())


def test_images_and_kernels_for_each_channel() -> None:
    def loss(params: Any, x: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(
            x, params["each"], (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=16
        )
        y = lax.conv_general_dilated(
            jax.nn.gelu(y), params["all"], (2, 2), "SAME", dimension_numbers=numbers
        )
        return (y**2).mean()

    params = {"all": normal(3, 3, 16, 8), "each": normal(7, 7, 1, 16, seed=1)}
    check_split(loss, params, normal(4, 12, 12, 16, seed=2))


def test_what_has_samples_is_put_together() -> None:
    body = "e = L.exp(L.transpose(x, permutation=[1, 0]))\nreturn e, L.reduce_sum(e, axes=[0, 1])"
    mod = parse_main(body, x=(4, 6))
    x = normal(4, 6)
    split = SplitBatch("main", 2, {"x": 0})(mod)
    chex.assert_trees_all_close(to_jax(split, "main")(x), to_jax(mod, "main")(x), rtol=1e-6)
    assert "permutation=[1, 2, 0, 3]" in split.script()


def test_sums_of_half_precision_are_of_single() -> None:
    mod = parse_main("s = L.reduce_sum(x, axes=[0])\nreturn s", x='R.Tensor((512, 2), "bfloat16")')
    split = SplitBatch("main", 256, {"x": 0})(mod)
    x = jnp.full((512, 2), 1.0078125, jnp.bfloat16)  # a sum in bfloat16 would stop at 256
    result = to_jax(split, "main")(x)
    assert result.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(result, "float32"), 516, rtol=1e-2)


def test_what_is_given_by_default() -> None:
    """Parameters that no gradient is of, along their first axis, else along the second."""
    loss = (
        """
    @R.function
    def main(w: R.Tensor((6, 6)), x: R.Tensor((6, 4, 6)), y: R.Tensor((6, 4, 6))) -> R.Tuple(
        R.Tensor(()), R.Tuple(R.Tensor((6, 6)))
    ):
        a = L.dot_general(x, w, dimension_numbers=[[[2], [0]], [[], []]])
        b = L.mul(a, y)
        s = L.reduce_sum(b, axes=[0, 1, 2])
        g = L.dot_general(x, y, dimension_numbers=[[[0, 1], [0, 1]], [[], []]])
        return s, (g,)
    """.replace("6)), ", '6), "float32"), ')
        .replace("6))", '6), "float32")')
        .replace("R.Tensor(())", 'R.Tensor((), "float32")')
    )
    mod = parse_functions(loss)
    assert "x_part: R.Tensor((3, 4, 6)" in SplitBatch("main")(mod).script()
    assert "x_part: R.Tensor((6, 1, 6)" in SplitBatch("main", 4)(mod).script()


def test_a_private_function_is_a_part_of_it() -> None:
    mod = parse_functions("""
    @R.function(private=True)
    def twice(a: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        return L.add(a, a)

    @R.function
    def main(x: R.Tensor((4, 6), "float32")) -> R.Tensor((6,), "float32"):
        t = Module.twice(x)
        return L.reduce_sum(t, axes=[0])
    """)
    split = SplitBatch("main", 2)(mod)
    x = normal(4, 6)
    chex.assert_trees_all_close(to_jax(split, "main")(x), 2 * x.sum(0), rtol=1e-5)


def test_what_waits_for_what_comes_after_the_loop_does_not() -> None:
    body = """
    s = L.reduce_sum(x, axes=[0])
    t = L.exp(s)
    late = R.grad.delay(x, t)
    y = L.reduce_sum(L.mul(late, late), axes=[0])
    return y, t
    """
    mod = parse_main(body, x=(4, 6))
    split = SplitBatch("main", 2)(mod)
    x = normal(4, 6)
    chex.assert_trees_all_close(to_jax(split, "main")(x), to_jax(mod, "main")(x), rtol=1e-5)


def test_what_samples_need_of_all_labels_is_known_before_the_loop() -> None:
    """A mean over those that count, as where some words are padding."""

    def loss(params: Any, x: Any, counts: Any) -> Any:
        hidden = jnp.tanh(x @ params)
        shares = counts / counts.sum()
        return ((hidden**2).sum(-1) * shares).sum()

    counted = (normal(8, seed=3) > 0).astype("float32")
    split = check_split(loss, normal(5, 7), normal(8, 5, seed=2), counted)
    before, _ = split.script().split("def part(")
    assert "L.reduce_sum(counts" in before


def test_what_is_known_before_the_loop_is_no_sum_of_parts() -> None:
    """Who read it as a sum before it was asked for by samples reads it whole as well."""
    body = """
    s = L.reduce_sum(w, axes=[0])
    t = L.neg(s)
    u = L.exp(s)
    y = L.mul(L.broadcast_in_dim(u, shape=[4, 6], broadcast_dimensions=[]), x)
    return y, t, u, s
    """
    mod = parse_main(body, x=(4, 6), w=(4,))
    split = SplitBatch("main", 2, {"x": 0, "w": 0})(mod)
    x, w = normal(4, 6), normal(4, seed=1)
    chex.assert_trees_all_close(to_jax(split, "main")(x, w), to_jax(mod, "main")(x, w), rtol=1e-5)


def test_what_a_loop_needs_of_all_labels_is_known_before_it() -> None:
    def loss(params: Any, x: Any, counts: Any) -> Any:
        total = counts.sum()

        def layer(x: Any, weight: Any) -> Any:
            return jnp.tanh(x @ weight) * jnp.sqrt(total), None

        x, _ = lax.scan(layer, x, params)
        return (x * counts[:, None]).sum()

    check_split(loss, 0.3 * normal(3, 5, 5), normal(8, 5, seed=2), normal(8, seed=3) ** 2)


LOOP = """
@R.function
def step(
    carry: R.Tuple(R.Tensor((6,), "float32")), row: R.Tuple(R.Tensor({row}, "float32"))
) -> R.Tuple(R.Tuple(R.Tensor((6,), "float32")), R.Tuple()):
    before = carry[0]
    own = row[0]
    {body}
    return (after,), ()

start = {start}
found = R.scan(step, (start,), (x,))
last = found[0]
return last
"""
ZEROS = 'L.broadcast_in_dim(R.const(0.0, "float32"), shape=[6], broadcast_dimensions=[])'
SUM = "after = L.add(before, L.reduce_sum(own, axes=[0]))"


def looped(body: str, start: str, row: str = "(4, 6)") -> IRModule:
    x = {"(4, 6)": (3, 4, 6), "(6,)": (4, 6)}[row]
    return parse_main(LOOP.format(body=body, start=start, row=row), x=x, w=(6,))


def test_a_sum_that_goes_through_a_loop() -> None:
    mod = looped(SUM, ZEROS)
    x, w = normal(3, 4, 6), normal(6)
    split = SplitBatch("main", 2, {"x": 1})(mod)
    chex.assert_trees_all_close(to_jax(split, "main")(x, w)[0], x.sum((0, 1)), rtol=1e-5)


@pytest.mark.parametrize(
    ("mod", "axis"),
    [
        (looped(SUM, "L.neg(w)"), 1),
        (looped("t = L.add(before, L.reduce_sum(own, axes=[0]))\n    after = L.exp(t)", ZEROS), 1),
        (looped("after = L.add(before, own)", ZEROS, "(6,)"), 0),
    ],
    ids=["a sum that starts from something", "a function of a sum", "samples for steps"],
)
def test_loops_that_mix_samples(mod: IRModule, axis: int, no_room: None) -> None:
    with pytest.raises(ValueError, match="in parts, because `"):
        SplitBatch("main", 2, {"x": axis})(mod)


# Closures, functions and loops, of `x` and what all samples share.
CLOSURE = """
@R.function
def inner(a: R.Tensor((), "float32"), b: R.Tuple()) -> R.Tuple(R.Tensor((), "float32"), R.Tuple()):
    return L.add(a, L.reduce_sum(x, axes=[0, 1])), ()

@R.function
def outer(a: R.Tensor((), "float32"), b: R.Tuple()) -> R.Tuple(R.Tensor((), "float32"), R.Tuple()):
    found = R.scan(inner, a, (), length=2)
    end = found[0]
    return end, ()

found = {call}
s = found[0]
y = L.mul(x, L.broadcast_in_dim(s, shape=[4, 6], broadcast_dimensions=[]))
return y
"""
THROUGH = """
@R.function
def step(
    carry: R.Tuple(R.Tensor((6,), "float32"), R.Tensor((4, 6), "float32")),
    row: R.Tuple(R.Tensor((4, 6), "float32")),
) -> R.Tuple(R.Tuple(R.Tensor((6,), "float32"), R.Tensor((4, 6), "float32")), R.Tuple()):
    late = carry[0]
    before = carry[1]
    own = row[0]
    after = L.add(before, own)
    return (late, after), ()

s = L.exp(L.reduce_sum(x, axes=[0, 1]))
start = L.broadcast_in_dim(R.const(0.0, "float32"), shape=[4, 6], broadcast_dimensions=[])
found = R.scan(step, (s, start), (x,))
ends = found[0]
y = L.exp(ends[1])
return y, ends[0]
"""


@pytest.mark.parametrize(
    ("body", "sizes", "axis"),
    [
        (CLOSURE.format(call="R.scan(outer, w, (), length=3)"), (4, 6), 0),
        (CLOSURE.format(call="outer(w, ())"), (4, 6), 0),
        (THROUGH, (3, 4, 6), 1),
        ("y = L.unstack(x, axis=-2)", (4, 2), 0),
        ("y = L.reshape(x, new_sizes=[4, 6], dimensions=[1, 0])", (4, 6), 0),
        ("y = L.reshape(x, new_sizes=[4, 0])", (0, 4), 1),
        ("y = L.reshape(x, new_sizes=[6, 0])", (0, 6), 0),
        ("m = R.match_cast(x, R.Tensor((4, 6)))\ny = L.exp(m)", (4, 6), 0),
    ],
    ids=[
        *("a function that a function calls", "a function", "what is known after the loop"),
        *("the second but last axis", "another order of axes", "nothing", "no samples", "a cast"),
    ],
)
def test_what_is_not_followed(body: str, sizes: tuple[int, ...], axis: int, no_room: None) -> None:
    mod = parse_main(body if "return" in body else f"{body}\nreturn y", x=sizes, w=())
    with pytest.raises(ValueError, match="in parts, because `"):
        SplitBatch("main", 2, {"x": axis})(mod)


# What is computed of x, of integers that are large for eight bits, and of a w of as many.
OF_INTEGERS = {
    "a quotient": "s = L.reduce_sum(x, axes=[0])\ny = L.div(s, L.add(s, w))\nz = L.div(s, w)",
    "more bits": 'z = L.convert_element_type(L.reduce_sum(x, axes=[0]), new_dtype="int32")',
    "a product of more bits": (
        "z = L.dot_general(L.reduce_sum(x, axes=[0]), w, dimension_numbers=[[[0], [0]], [[], []]], "
        'preferred_element_type="int32")'
    ),
    "a sum": "z = L.reduce_sum(x, axes=[0])",
}


@pytest.mark.parametrize("body", OF_INTEGERS.values(), ids=OF_INTEGERS)
def test_sums_of_integers_that_wrap_around(body: str) -> None:
    types = {"x": 'R.Tensor((8, 50), "int8")', "w": 'R.Tensor((50,), "int8")'}
    mod = parse_main(f"{body}\nreturn z", **types)
    rng = np.random.default_rng(0)
    given = [rng.integers(50, 120, shape).astype("int8") for shape in ((8, 50), (50,))]
    split = SplitBatch("main", 4, {"x": 0})(mod)
    chex.assert_trees_all_equal(to_jax(split, "main")(*given), to_jax(mod, "main")(*given))


def test_bits_of_several_numbers(no_room: None) -> None:
    mod = parse_main(
        'y = L.bitcast_convert_type(x, new_dtype="uint32")\nreturn y', x='R.Tensor((6, 4), "uint8")'
    )
    with pytest.raises(ValueError, match="because `y` is computed of several"):
        SplitBatch("main", 2, {"x": 1})(mod)


def test_a_barrier_of_other_shapes() -> None:
    """What is behind one is summed up once, though it stands beside samples."""
    mod = parse_main(
        """
        found = L.optimization_barrier(x, w)
        left = L.reduce_sum(found[0], axes=[0, 1])
        y = L.add(left, L.mul(left, L.reduce_sum(found[1], axes=[0])))
        return y
        """,
        x=(4, 3),
        w=(4,),
    )
    x, w = normal(4, 3), normal(4, seed=1)
    split = SplitBatch("main", 2, {"x": 0})(mod)
    chex.assert_trees_all_close(to_jax(split, "main")(x, w), to_jax(mod, "main")(x, w), rtol=1e-5)


def test_a_step_of_two_loops_of_which_one_has_samples() -> None:
    mod = parse_main(
        """
        @R.function
        def outer(
            a: R.Tensor((4, 6), "float32"), b: R.Tuple()
        ) -> R.Tuple(R.Tensor((4, 6), "float32"), R.Tuple()):
            @R.function
            def inner(
                a: R.Tensor((4, 6), "float32"), b: R.Tuple()
            ) -> R.Tuple(R.Tensor((4, 6), "float32"), R.Tuple()):
                return L.sin(a), ()

            of_all = R.scan(inner, w, (), length=2)
            own = R.scan(inner, a, (), length=2)
            return L.add(of_all[0], own[0]), ()

        found = R.scan(outer, x, (), length=2)
        return found[0], found[1]
        """,
        x=(4, 6),
        w=(4, 6),
    )
    x, w = normal(4, 6), normal(4, 6, seed=1)
    split = SplitBatch("main", 2, {"x": 0})(mod)
    well_formed(split)
    chex.assert_trees_all_close(to_jax(split, "main")(x, w), to_jax(mod, "main")(x, w), rtol=1e-5)


def test_an_error_shows_the_line(no_room: None) -> None:
    mod = parse_main("m = L.reduce_max(x, axes=[0])\nreturn m", x=(4, 6))
    with pytest.raises(ValueError, match=r"`m` is computed of several[\s\S]*L.reduce_max\(x"):
        SplitBatch("main", 2, {"x": 0})(mod)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((0,), "`parts` is to be a positive number, found 0"),
        ((3, {"x": 0}), "`main` has 4 samples, which are not 3 equal parts"),
        ((5,), "`main` has 6 or 4 samples, which are not 5 equal parts"),
        ((2, {"y": 0}), "`main` has no parameter `y`"),
        ((2, {"x": 2}), '`x` of type R.Tensor((4, 6), dtype="float32") has no axis 2'),
        ((2, {"x": 0, "w": 0}), "the same number of samples, found 4 of `x`, 6 of `w`"),
        ((2, {}), "the same number of samples, found none"),
    ],
)
def test_what_is_asked_for_in_vain(options: Any, message: str) -> None:
    mod = parse_main("y = L.mul(x, L.reshape(w, new_sizes=[1, 6]))\nreturn y", x=(4, 6), w=(6,))
    with pytest.raises(ValueError, match=re.escape(message)):
        SplitBatch("main", *options)(mod)


def test_sizes_that_are_not_known(no_room: None) -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor((4, "n"), "float32")) -> R.Tensor((4, "n"), "float32"):
        return L.exp(x)
    """)
    with pytest.raises(ValueError, match="the sizes of `x` are to be numbers, but its type"):
        SplitBatch("main", 2, {"x": 0})(mod)

    mod = parse_main(
        """
        of_all = R.match_cast(w, R.Tensor(ndim=2, dtype="float32"))
        y = L.dot_general(x, of_all, dimension_numbers=[[[0], [0]], [[], []]])
        return y
        """,
        x=(4, 6),
        w=(4, 6),
    )
    with pytest.raises(ValueError, match="because `y` is computed of several"):
        SplitBatch("main", 2, {"x": 0})(mod)
