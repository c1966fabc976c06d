"""Checkpoint marks: what lies between them is computed again for the backward program."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
from adjoint_checks import check_adjoint
from parsing import parse_flow, parse_functions

from relaxjax import BlockBuilder, IRModule, TensorType, TupleType, Var, to_jax
from relaxjax.ir.op import get_op
from relaxjax.ops.checkpointing import emit_checkpoint_sequential
from relaxjax.passes import Gradient, SimplifyGradient


def parse(body: str) -> IRModule:
    return parse_flow(body, x=(3,), y=(3,))


def arrays() -> tuple[jax.Array, jax.Array]:
    random = np.random.default_rng(0)
    x, y = (jnp.asarray(random.uniform(0.5, 1.5, 3), jnp.float32) for _ in range(2))
    return x, y


BETWEEN = """
a = R.exp({x})
b = R.sin(a)
c = R.cos(b)
{end}
d = R.multiply({c}, y)
e = R.exp(d)
loss = R.sum(e)
"""

PLAIN = BETWEEN.format(x="x", end="", c="c").replace("\n\n", "\n")
MARKED = "x_scp = R.grad.start_checkpoint(x)" + BETWEEN.format(
    x="x_scp", end="c_ecp = R.grad.end_checkpoint(c)", c="c_ecp"
)


def names(module: IRModule) -> list[str]:
    return [binding.var.name for binding in module["main_adjoint"].body.bindings()]


def test_without_marks_nothing_is_computed_again() -> None:
    assert not [name for name in names(Gradient("main")(parse(PLAIN))) if "_cp" in name]


def test_between_marks_everything_needed_is_computed_again_once() -> None:
    """The marks themselves leave no trace; what comes after them is kept."""
    adjoint = Gradient("main")(parse(MARKED))
    assert [name for name in names(adjoint) if "_cp" in name] == ["a_cp", "b_cp", "c_cp"]
    assert "checkpoint" not in adjoint["main_adjoint"].script()
    assert names(adjoint).index("c_cp") > names(adjoint).index("loss_adjoint")
    copies = [b for b in adjoint["main_adjoint"].body.bindings() if b.var.name.endswith("_cp")]
    assert [b.derived_from for b in copies] == ["a", "b", "c"]


def test_marks_do_not_change_the_gradient() -> None:
    marked, plain = (Gradient("main")(parse(text)) for text in (MARKED, PLAIN))
    expected = to_jax(plain, "main_adjoint")(*arrays())
    chex.assert_trees_all_close(to_jax(marked, "main_adjoint")(*arrays()), expected, rtol=1e-6)


def test_a_loss_may_be_what_a_mark_ends() -> None:
    """Outside of a dataflow block no variable stands for it then."""
    module = parse_functions("""
@R.function
def main(x: R.Tensor((3,), "float32")):
    x_scp = R.grad.start_checkpoint(x)
    a = R.sum(R.sin(R.exp(x_scp)))
    loss = R.grad.end_checkpoint(a)
    return loss
""")
    x = arrays()[0]
    found = to_jax(Gradient("main")(module), "main_adjoint")(x)
    expected = jax.value_and_grad(lambda x: jnp.sum(jnp.sin(jnp.exp(x))))(x)
    chex.assert_trees_all_close(found, (expected[0], (expected[1],)), rtol=1e-6)


def test_a_segment_that_follows_another_starts_from_a_kept_value() -> None:
    module = parse("""
x_scp = R.grad.start_checkpoint(x)
a = R.exp(x_scp)
b = R.sin(a)
b_ecp = R.grad.end_checkpoint(b)
b_scp = R.grad.start_checkpoint(b_ecp)
c = R.exp(b_scp)
d = R.sin(c)
d_ecp = R.grad.end_checkpoint(d)
loss = R.sum(R.multiply(d_ecp, y))
""")
    found = [name for name in names(Gradient("main")(module)) if "_cp" in name]
    assert sorted(found) == ["a_cp", "c_cp", "d_cp"]


CALLED = parse_functions("""
@R.function(private=True)
def wave(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = R.sin(R.exp(x))
    return y

@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
    a = R.grad.start_checkpoint(x)
    b = R.exp(a)
    c = Module.wave(b)
    d = R.cos(c)
    e = R.grad.end_checkpoint(d)
    loss = R.sum(R.multiply(e, y))
    return loss
""")


def test_a_call_between_marks_keeps_nothing() -> None:
    """The forward program calls the function itself; its forward half runs when going back."""
    adjoint = check_adjoint(CALLED, *arrays())
    script = adjoint["main_adjoint"].script()
    before, after = script.split("loss_adjoint", 1)
    assert "cls.wave(" in before
    assert "wave_forward" not in before
    assert after.index("wave_forward") < after.index("wave_backward")


def test_a_branch_and_a_closure_between_marks() -> None:
    module = parse_functions("""
@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32"), k: R.Tensor((), "bool")):
    a = R.grad.start_checkpoint(R.exp(x))
    @R.function
    def scaled(z: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        o = R.multiply(R.sin(z), a)
        return o
    if k:
        inside = R.exp(R.sin(a))
        b = R.multiply(inside, a)
    else:
        b = scaled(a)
    c = R.grad.end_checkpoint(R.exp(b))
    loss = R.sum(R.multiply(c, y))
    return loss
""")
    for taken in (True, False):
        adjoint = check_adjoint(module, *arrays(), jnp.asarray(taken))
    before, after = adjoint["main_adjoint"].script().split("loss_adjoint", 1)
    assert "_kept" not in before
    assert "b_cp_kept" in after


def test_marks_inside_a_function_that_is_called() -> None:
    """What its backward half needs from between them is not handed to it."""
    body = """
@R.function(private=True)
def wave(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    a = {start}
    b = R.exp(a)
    c = R.sin(b)
    d = R.exp(c)
    e = {end}
    y = R.exp(e)
    return y

@R.function
def main(x: R.Tensor((3,), "float32")):
    loss = R.sum(Module.wave(x))
    return loss
"""
    marks = {"start": "R.grad.start_checkpoint(x)", "end": "R.grad.end_checkpoint(d)"}
    saved = []
    for texts in (marks, {"start": "x", "end": "d"}):
        adjoint = check_adjoint(parse_functions(body.format(**texts)), arrays()[0])
        result = adjoint["wave_forward"].ret_ty
        assert isinstance(result, TupleType)
        assert isinstance(result.fields[1], TupleType)
        saved.append(len(result.fields[1].fields))
    assert saved == [1, 3]


def test_what_is_returned_or_asked_for_may_be_a_mark() -> None:
    module = parse("""
x_scp = R.grad.start_checkpoint(x)
a = R.exp(x_scp)
b = R.sin(a)
b_ecp = R.grad.end_checkpoint(b)
l = R.sum(R.multiply(R.multiply(b_ecp, y), x))
loss = R.grad.end_checkpoint(l)
""")
    check_adjoint(module, *arrays())
    x, y = arrays()
    adjoint = Gradient("main", require_grads=["x_scp", "b_ecp"])(module)
    _, gradients = to_jax(adjoint, "main_adjoint")(x, y)
    expected = x * y * jnp.cos(jnp.exp(x)) * jnp.exp(x), x * y
    chex.assert_trees_all_close(gradients, expected, rtol=1e-5)


def layers(count: int, segments: int) -> IRModule:
    """Layers of a network, in segments between marks."""
    builder = BlockBuilder()
    x, w = (Var(name, TensorType((64, 64), "float32")) for name in "xw")
    tanh, matmul = get_op("relax.tanh"), get_op("relax.matmul")
    with builder.function("main", [x, w]):
        functions = [lambda h: tanh(matmul(h, w))] * count
        last = emit_checkpoint_sequential(functions, segments, x)
        builder.emit_func_output(builder.emit(get_op("relax.sum")(last)))
    return builder.get()


def test_a_lazy_gradient_is_not_simplified_to_keep_what_is_to_be_computed_again() -> None:
    module = layers(16, 4)
    lazy, plain = (
        SimplifyGradient()(Gradient("main", "x", lazy=lazy)(module))["main_adjoint"].script()
        for lazy in (True, False)
    )
    assert [text.count("R.tanh(") for text in (lazy, plain)] == [16 + 3 + 3 + 4, 16]
    assert lazy.count("R.grad.delay") == 3


def test_with_marks_less_memory_is_needed() -> None:
    """As XLA counts it: what segments start from and the values of one, instead of all."""
    x, w = jnp.linspace(0.1, 0.9, 4096).reshape(64, 64), jnp.eye(64)
    needed, found = [], []
    for lazy in (True, False):
        adjoint = SimplifyGradient()(Gradient("main", "x", lazy=lazy)(layers(25, 5)))
        compiled = jax.jit(to_jax(adjoint, "main_adjoint")).lower(x, w).compile()
        analysis = compiled.memory_analysis()
        assert analysis is not None
        needed.append(int(analysis.temp_size_in_bytes))
        found.append(compiled(x, w))
    assert needed[0] < 0.6 * needed[1]
    chex.assert_trees_all_close(*found, rtol=1e-5)


def test_decisions_between_marks_are_kept() -> None:
    """The element that the forward program took is the one that has the adjoint."""
    module = parse("""
x_scp = R.grad.start_checkpoint(x)
a = R.exp(x_scp)
first = R.argmax(a, axis=0)
b = R.take(a, first)
c = R.sin(b)
c_ecp = R.grad.end_checkpoint(c)
d = R.multiply(c_ecp, y)
loss = R.sum(d)
""")
    found = names(Gradient("main")(module))
    assert {"a_cp", "b_cp"} <= set(found)
    assert not any(name.startswith("first_cp") for name in found)
