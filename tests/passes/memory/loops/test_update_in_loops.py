"""Updates in the loops back: the same numbers, in less memory, and only where both hold."""

from collections.abc import Sequence
from textwrap import dedent
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from parsing import parse_backbone, parse_module

from relaxjax.ir import IRModule, TensorType, assert_structural_equal
from relaxjax.ir.renew import renew
from relaxjax.ir.walk import global_vars
from relaxjax.losses import MSELoss
from relaxjax.lowering import to_jax
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.optim import SGD, Adam, MomentumSGD, Narrow, from_optax
from relaxjax.passes import SetupTrainer, UpdateInLoops
from relaxjax.passes.training.fuse_train_step import with_calls

pytestmark = pytest.mark.usefixtures("quickly_compiled")

LAYERS, ROWS, WIDTH = 4, 5, 6


def backbone(dtype: str = "float32", rows: int = ROWS, width: int = WIDTH) -> IRModule:
    """Equal layers of a gain, a product, and a norm of its row."""
    matrix, vector = f'R.Tensor(({width}, {width}), "{dtype}")', f'R.Tensor(({width},), "{dtype}")'
    params = [f'h0: R.Tensor(({rows}, {width}), "{dtype}")']
    params += [f"w{i}: {matrix}, g{i}: {vector}" for i in range(LAYERS)]
    lines = [
        line
        for i in range(LAYERS)
        for line in (
            f"a{i} = R.matmul(R.multiply(h{i}, g{i}), w{i})",
            f"b{i} = R.matmul(R.tanh(a{i}), R.permute_dims(w{i}))",
            f"h{i + 1} = R.add(h{i}, b{i})",
        )
    ]
    return parse_backbone("\n".join(lines), ", ".join(params), param_num=2 * LAYERS)


def set_up(optimizer: Any, dtype: str = "float32", **options: Any) -> IRModule:
    types = [TensorType((ROWS, WIDTH), dtype)] * 2
    return SetupTrainer(MSELoss(), optimizer, types, roll_blocks=True, **options)(backbone(dtype))


def moved(mod: IRModule) -> IRModule:
    return UpdateInLoops(least_bytes=0)(mod)


def called(mod: IRModule) -> set[str]:
    """The functions that a step calls."""
    return {var.name for var in global_vars(mod["train_step"])}


def given(mod: IRModule, seed: int = 0) -> tuple[Any, ...]:
    """Parameters, states and a batch for a step."""
    rng = np.random.default_rng(seed)
    step = mod["train_step"]

    def drawn(ty: Any) -> Any:
        return jnp.asarray(rng.normal(size=ty.dims).astype(ty.dtype) * 0.4)

    params, _, _, *batch = (param.ty for param in step.params)
    state = tuple(jnp.asarray(constant.data) for constant in mod.attrs["optim_state"])
    return tuple(map(drawn, params.fields)), (), state, *map(drawn, batch)


def trained(mod: IRModule, steps: int = 3) -> Any:
    """The losses of some steps, and the parameters and states after them."""
    params, states, optim, *batch = given(mod)
    step = jax.jit(to_jax(mod, "train_step"))
    losses = []
    for _ in range(steps):
        loss, params, states, optim = step(params, states, optim, *batch)
        losses.append(loss)
    return losses, params, optim


OPTIMIZERS = {
    "momentum": MomentumSGD(0.1, 0.9, weight_decay=0.01, nesterov=True),
    "adam of decayed": from_optax(optax.chain(optax.add_decayed_weights(0.1), optax.adam(0.01))),
    "adamw": from_optax(optax.adamw(optax.linear_schedule(0.01, 0.001, 5))),
    "lion": from_optax(optax.lion(0.01)),
    "adan": from_optax(optax.adan(0.01)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_steps_are_the_same(name: str) -> None:
    mod = set_up(OPTIMIZERS[name])
    changed = moved(mod)
    assert changed is not mod
    assert "optimizer" not in called(changed)
    chex.assert_trees_all_close(trained(changed), trained(mod), rtol=2e-5, atol=1e-6)


def test_the_text_is_the_same_each_time() -> None:
    """Where values lie in the memory of the process is no order for what a loop carries."""
    mod = set_up(OPTIMIZERS["adan"])
    copies = []
    for _ in range(6):
        step, _ = renew(mod["train_step"])
        adjoint, _ = renew(mod["backbone_loss_adjoint"])
        copy = mod.with_functions({"train_step": step, "backbone_loss_adjoint": adjoint})
        copies.append(moved(copy)["train_step"].script())
    assert copies == copies[:1] * len(copies)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(SGD(0.1), optax.sgd(0.1)), (Adam(0.01), optax.adam(0.01))]
)
def test_the_steps_are_those_of_jax(dtype: str, ours: Any, theirs: Any) -> None:
    with jax.enable_x64(dtype == "float64"):
        mod = moved(set_up(ours, dtype))
        assert "updating" in mod["train_step"].script()
        (gains, weights), _, _, x, targets = sorted_stacks(given(mod))

        def loss(params: Any) -> Any:
            def layer(h: Any, row: Any) -> Any:
                gain, weight = row
                return h + jnp.tanh((h * gain[None]) @ weight) @ weight.T, None

            return jnp.mean((lax.scan(layer, x, params)[0] - targets) ** 2)

        @jax.jit
        def step(params: Any, state: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(params)
            updates, state = theirs.update(gradients, state, params)
            return value, optax.apply_updates(params, updates), state

        params, state = (gains, weights), theirs.init((gains, weights))
        losses = []
        for _ in range(3):
            with jax.numpy_dtype_promotion("standard"):
                value, params, state = step(params, state)
            losses.append(value)
        found = trained(mod)
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        wanted = (losses, params)
        chex.assert_trees_all_close(
            (found[0], tuple(sorted(found[1], key=jnp.ndim))),
            wanted,
            rtol=tolerance,
            atol=tolerance,
        )


def sorted_stacks(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a step with the stack of gains before that of weights."""
    return tuple(sorted(args[0], key=jnp.ndim)), *args[1:]


def test_it_prints_and_parses_back() -> None:
    changed = moved(set_up(Adam(0.01)))
    again = parse_module(changed.script())
    assert_structural_equal(again["train_step"], changed["train_step"])


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (from_optax(optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.01))), {}),
        (from_optax(optax.lamb(0.01)), {}),
        (Narrow(Adam(0.01), smallest=1), {}),
        (Adam(0.01), {"loss_scale": 8.0}),
        (Adam(0.01), {"mesh": {"data": 1}}),
    ],
)
def test_what_needs_more_than_a_layer_stays(optimizer: Any, options: dict[str, Any]) -> None:
    """A norm of gradients, hashes of places, whether all are finite, and meshes."""
    mod = set_up(optimizer, **options)
    assert moved(mod) is mod


def test_a_module_without_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no function `train_step`: apply FuseTrainStep\(\)"):
        UpdateInLoops()(backbone())


def test_small_stacks_stay() -> None:
    """They would cost kernels and save nothing; SetupTrainer leaves them, too."""
    mod = set_up(SGD(0.1))
    assert "optimizer" in called(mod)
    whole = LAYERS * WIDTH * WIDTH * 4
    assert UpdateInLoops(least_bytes=whole + 1)(mod) is mod
    changed = UpdateInLoops(least_bytes=whole)(mod)
    assert changed["train_step"].script().count("dynamic_update_slice") == 1


def step_of(
    body: Sequence[str],
    gradient: str = "w_adjoint",
    after: Sequence[str] = (),
    loss: str = "R.sum(last)",
) -> IRModule:
    """A step whose loop back has some body, which gives the gradient of a stack."""
    lines, others = ("\n" + 16 * " ").join(body), ("\n" + 12 * " ").join(after)
    return parse_module(
        dedent(f"""
    @I.ir_module
    class Module:
        @R.function
        def train_step(
            params: R.Tuple(R.Tensor((3, 4, 4), "float32")),
            states: R.Tuple,
            optim_states: R.Tuple(R.Tensor((3, 4, 4), "float32")),
            x: R.Tensor((4, 4), "float32"),
        ):
            w = params[0]
            m = optim_states[0]

            @R.function
            def step_back(adjoint: R.Tensor((4, 4), "float32"), row: R.Tensor((4, 4), "float32")):
                {lines}

            back = R.scan(step_back, x, w, reverse=True)
            last = back[0]
            w_adjoint = back[1]
            {others}
            m_new = R.add(R.multiply(m, R.const(0.9, "float32")), {gradient})
            w_new = R.subtract(w, R.multiply(m_new, R.const(0.1, "float32")))
            loss = {loss}
            return (loss, (w_new,), R.tuple(), (m_new,))
    """)
    )


PRODUCT = ("a = R.matmul(adjoint, row)", "return (a, R.matmul(adjoint, a))")


@pytest.mark.parametrize(
    "mod",
    [
        step_of(PRODUCT, "R.add(w_adjoint, R.multiply(m, w_adjoint))"),
        step_of(PRODUCT, "R.negative(w_adjoint)"),
        # Other stacks beside it, by another name of the tuple of all.
        step_of(
            ("a = R.matmul(adjoint, row)", "return (a, (R.matmul(adjoint, a), a))"),
            "w_adjoint[0]",
            ["again = back[1]"],
            "R.sum(again[1])",
        ),
        # A gradient that is computed of the old row in each kernel that reads it.
        step_of(("a = R.add(adjoint, row)", "return (a, R.multiply(row, row))")),
        step_of(("return (R.add(adjoint, row), row)",)),
        # An old row in the carry, and one that is read as a part of another.
        step_of(("return (row, R.matmul(adjoint, row))",)),
        step_of(("return (R.cumsum(row, axis=0), R.exp(R.matmul(row, row)))",)),
    ],
)
def test_old_rows_are_read_before_they_are_written_over(mod: IRModule) -> None:
    changed = moved(mod)
    assert changed is not mod
    rng = np.random.default_rng(0)
    w, m, x = (jnp.asarray(rng.normal(size=s), "float32") for s in ((3, 4, 4), (3, 4, 4), (4, 4)))
    found, wanted = (
        jax.jit(to_jax(one, "train_step"))((w,), (), (m,), x * 0.1) for one in (changed, mod)
    )
    chex.assert_trees_all_close(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "mod",
    [
        step_of(PRODUCT, "R.add(w_adjoint, b)", ["b = R.multiply(last, w)"]),  # another term
        step_of(PRODUCT, loss="R.sum(w_adjoint)"),  # somebody asks for it
        step_of(PRODUCT, loss="R.sum(m_new)"),
        step_of(PRODUCT, "R.multiply(w_adjoint, n)", ["n = R.sum(last)"]),  # a later number
        step_of(PRODUCT, "R.multiply(w_adjoint, n)", ["n = R.mean(w_adjoint)"]),
        step_of(PRODUCT, loss="R.sum(R.matmul(R.sum(w, axis=[0]), last))"),  # read afterwards
        step_of(PRODUCT, "R.cumsum(w_adjoint, axis=0)"),  # not number by number
        step_of(("return (adjoint, R.sum(w, axis=[0]))",)),  # each step reads all rows
    ],
)
def test_gradients_that_more_is_made_of_stay(mod: IRModule) -> None:
    assert moved(mod) is mod


def test_values_that_need_each_other_stay() -> None:
    """Both new values are made of both old ones: whichever is written first is read too late."""
    mod = parse_module(
        dedent("""
    @I.ir_module
    class Module:
        @R.function
        def train_step(
            params: R.Tuple(R.Tensor((3, 4), "float32")),
            states: R.Tuple,
            optim_states: R.Tuple(R.Tensor((3, 4), "float32")),
            x: R.Tensor((4,), "float32"),
        ):
            w = params[0]
            m = optim_states[0]

            @R.function
            def step_back(adjoint: R.Tensor((4,), "float32"), row: R.Tensor((4,), "float32")):
                return (R.multiply(adjoint, row), adjoint)

            back = R.scan(step_back, x, w, reverse=True)
            w_adjoint = back[1]
            w_new = R.add(R.subtract(w, m), w_adjoint)
            m_new = R.add(R.multiply(w, m), w_adjoint)
            return (back[0], (w_new,), R.tuple(), (m_new,))
    """)
    )
    assert moved(mod) is mod


@pytest.mark.as_users
@pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="libraries of a GPU take memory of their own"
)
def test_no_gradients_of_all_layers_are_stored() -> None:
    """SetupTrainer does so by itself, and XLA writes in place: a copy would be a stack."""
    rows, width = 2, 128
    types = [TensorType((rows, width), "float32")] * 2
    setup = SetupTrainer(MSELoss(), Adam(0.01), types, roll_blocks=True)
    mod = setup(backbone(rows=rows, width=width))
    stack = LAYERS * width * width * 4
    before, after = (
        temporary_bytes(one, "train_step", (0, 1, 2)) for one in (with_calls(mod), mod)
    )
    assert before > stack
    assert after < 0.8 * stack
