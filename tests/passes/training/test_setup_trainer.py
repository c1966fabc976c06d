"""From a backbone to a module that can be trained."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from parsing import parse_backbone, parse_functions, parse_module

from relaxjax import IRModule, SetupTrainer, TensorType, from_source, to_jax
from relaxjax.ir import SymbolicVar, WellFormedError, assert_structural_equal, well_formed
from relaxjax.losses import CrossEntropyLoss, MSELoss, from_jax
from relaxjax.optim import SGD, Adam
from relaxjax.passes.operators.legalize_ops import LegalizeOps
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings
from relaxjax.passes.simplification.eliminate_common_subexpr import EliminateCommonSubexpr
from relaxjax.passes.simplification.simplify_gradient import SimplifyGradient


def backbone(
    attrs: str = '{"param_num": 2, "state_num": 0}', batch: str = "4", result: str = "out"
) -> IRModule:
    return parse_functions(f"""
    I.module_attrs({attrs})
    @R.function
    def backbone(
        x: R.Tensor(({batch}, 3), "float32"),
        w: R.Tensor((3, 5), "float32"),
        b: R.Tensor((5,), "float32"),
    ):
        with R.dataflow():
            h = R.matmul(x, w)
            out = R.add(h, b)
            R.output(out)
        return {result}
""")


LOGITS = TensorType((4, 5), "float32")
LABELS = TensorType((4,), "int32")


def arrays(*shapes: tuple[int, ...]) -> list[jax.Array]:
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]


def test_what_the_updates_of_parameters_share_is_computed_once() -> None:
    """XLA else has two kernels for each shape: of the first parameter, and of the others."""
    mod = SetupTrainer(CrossEntropyLoss(), Adam(0.1), [LOGITS, LABELS])(backbone())
    assert mod["optimizer"].script().count("L.sub(R.const(1.0") == 2  # from it each beta's power


def test_the_module_gains_functions_and_two_attributes() -> None:
    mod = SetupTrainer(CrossEntropyLoss(), Adam(0.1), [LOGITS, LABELS], legalize=False)(backbone())
    tvm = ["backbone", "backbone_loss", "backbone_loss_adjoint", "optimizer"]
    assert list(mod) == [*tvm, "train_step", "evaluate"]
    assert [param.name for param in mod["backbone_loss"].params] == ["x", "w", "b", "targets"]
    assert mod.attrs["input_num"] == 1
    assert mod.attrs["param_num"] == 2
    assert len(mod.attrs["optim_state"]) == 3 + 2 * 2
    assert mod["optimizer"].global_symbol == "optimizer"
    well_formed(mod)
    assert_structural_equal(from_source(mod.script()), mod)


def test_one_step_of_sgd_is_the_one_of_jax() -> None:
    mod = SetupTrainer(CrossEntropyLoss(), SGD(0.5), [LOGITS, LABELS])(backbone())
    x, w, b = arrays((4, 3), (3, 5), (5,))
    labels = jnp.array([0, 4, 2, 1], jnp.int32)

    def loss(w: jax.Array, b: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(x @ w + b[None])
        return -scores[jnp.arange(4), labels].mean()

    value, gradients = jax.jit(to_jax(mod, "backbone_loss_adjoint"))(x, w, b, labels)
    wanted, expected = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(w, b)
    chex.assert_trees_all_close(value, wanted, rtol=1e-6)
    chex.assert_trees_all_close(gradients, expected, rtol=1e-5, atol=1e-7)
    states = tuple(jnp.asarray(state.data) for state in mod.attrs["optim_state"])
    params, _ = jax.jit(to_jax(mod, "optimizer"))((w, b), gradients, states)
    updated = jax.tree.map(lambda p, g: p - 0.5 * g, (w, b), expected)
    chex.assert_trees_all_close(params, updated, rtol=1e-5, atol=1e-6)


def test_the_batch_may_be_symbolic() -> None:
    batch = SymbolicVar("batch")
    types = [TensorType((batch, 5), "float32"), TensorType((batch, 5), "float32")]
    mod = SetupTrainer(MSELoss(), SGD(0.1), types)(backbone(batch='"n"'))
    for size in (2, 7):
        x, w, b, targets = arrays((size, 3), (3, 5), (5,), (size, 5))
        value, _ = to_jax(mod, "backbone_loss_adjoint")(x, w, b, targets)
        expected = jnp.mean((x @ w + b[None] - targets) ** 2)
        chex.assert_trees_all_close(value, expected, rtol=1e-5)


def test_legalizing_is_the_last_step_and_simplifies_the_adjoint_before() -> None:
    """The batch of weight gradients that a stack of inputs gives is never computed."""
    loss_args = [TensorType((2, 4, 5), "float32")] * 2
    mod = parse_module(str(backbone().script()).replace("(4, ", "(2, 4, "))
    plain = SetupTrainer(MSELoss(), SGD(0.1), loss_args, legalize=False)(mod)
    legal = SetupTrainer(MSELoss(), SGD(0.1), loss_args)(mod)
    adjoint = "backbone_loss_adjoint"
    simple = plain.with_function(adjoint, SimplifyGradient()(plain)[adjoint])
    merged = EliminateCommonSubexpr()(LegalizeOps()(simple))
    assert_structural_equal(CanonicalizeBindings()(merged), legal)
    for name, script in (("plain", plain[adjoint].script()), ("legal", legal[adjoint].script())):
        assert ("R.Tensor((2, 3, 5)" in script) == (name == "plain")


def test_states_are_threaded_through() -> None:
    """Running averages are returned after the loss, in training form in one function only."""
    body = """
        bn = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)
        out = bn[0]
        new_mean = bn[1]
        new_var = bn[2]
        return out, new_mean, new_var
    """
    vectors = dict.fromkeys(["gamma", "beta", "mean", "var"], (3,))
    mod = parse_backbone(body, param_num=2, state_num=2, x=(4, 3), **vectors)
    types = [TensorType((4, 3), "float32")] * 2
    trained = SetupTrainer(MSELoss(), SGD(0.1), types)(mod)
    x, gamma, beta, mean, var, targets = arrays((4, 3), (3,), (3,), (3,), (3,), (4, 3))
    (_, new_mean, _), gradients = to_jax(trained, "backbone_loss_adjoint")(
        x, gamma, beta, mean, jnp.abs(var), targets
    )
    chex.assert_trees_all_close(new_mean, 0.9 * mean + 0.1 * x.mean(0), rtol=1e-5)
    assert len(gradients) == 2
    inferred = to_jax(trained, "backbone")(x, gamma, beta, mean, jnp.abs(var))
    chex.assert_trees_all_close(inferred[1], mean)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            IRModule(attrs={"param_num": 0, "state_num": 0}),
            "SetupTrainer: the module has no function `backbone`, but none. Name the model so",
        ),
        (
            IRModule({"forward": backbone()["backbone"].with_attr("global_symbol", "forward")}),
            r"no function `backbone`, but `forward`. .*with_attr\(.global_symbol., .backbone.\)",
        ),
        (backbone('{"state_num": 0}'), "must state `param_num` as an attribute.*found None"),
        (backbone('{"param_num": 2}'), "must state `state_num` as an attribute.*found None"),
        (
            backbone('{"param_num": "two", "state_num": 0}'),
            "must state `param_num` as an attribute.*found 'two'",
        ),
        (
            backbone('{"param_num": 3, "state_num": 1}'),
            r"`backbone` has 3 parameters, fewer than `param_num` \+ `state_num` = 3 \+ 1",
        ),
        (
            backbone('{"param_num": 1, "state_num": 1}'),
            "must return a tuple of its outputs and then its 1 new states, but it returns 1 value",
        ),
        (
            backbone('{"param_num": 1, "state_num": 1}', result="(out, out)"),
            r"the state `b` is of type .*5,\).* but `backbone` returns `out` .* of type .*\(4, 5\)",
        ),
    ],
)
def test_a_module_that_cannot_be_trained(module: IRModule, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SetupTrainer(CrossEntropyLoss(), SGD(0.1), [LOGITS, LABELS])(module)


def test_a_faulty_module_is_refused_at_the_door() -> None:
    """Two functions of the module share a parameter."""
    mod = backbone()
    with pytest.raises(WellFormedError):
        SetupTrainer(CrossEntropyLoss(), SGD(0.1), [LOGITS, LABELS])(
            mod.with_function("twin", mod["backbone"])
        )


def test_checkpoint_marks_hold_in_the_adjoint() -> None:
    """What they ask to be computed again waits for an adjoint, so that nothing merges it."""
    body = """
        layers = [lambda h: R.tanh(R.matmul(h, w)), lambda h: R.tanh(R.matmul(h, v))]
        out = R.grad.emit_checkpoint_sequential(layers, 2, x, checkpoint_last=True)
    """
    marked = parse_backbone(body, param_num=2, x=(4, 3), w=(3, 5), v=(5, 5))
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.1), [LOGITS, LABELS], legalize=False)
    adjoint = setup(marked)["backbone_loss_adjoint"].script()
    assert adjoint.count("R.grad.delay") == 1
    assert adjoint.count("R.tanh(") == 3


class Unfinished:
    """An optimizer that does not say whether it is elementwise."""

    def init(self, params: Any) -> Any:
        return self


@pytest.mark.parametrize(
    ("loss", "optimizer", "message"),
    [
        (CrossEntropyLoss, SGD(0.1), r"`loss` must be a loss such as MSELoss\(\), .* is <class"),
        (optax.huber_loss, SGD(0.1), r"`loss` must be a loss .* it is <function huber_loss"),
        (MSELoss(), SGD, r"`optimizer` must be an optimizer such as SGD\(0.1\), .* is <class"),
        (
            MSELoss(),
            Unfinished(),
            r"`optimizer` must be .* it is <.*Unfinished.*; one of your own is a relaxjax.optim",
        ),
        (MSELoss(), optax.adam(0.1), r"or from_optax\(optax.adam\(0.1\)\), but it is Gradient"),
    ],
)
def test_what_is_no_loss_or_optimizer(loss: Any, optimizer: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        SetupTrainer(loss, optimizer, [LOGITS, LABELS])(IRModule())


def test_a_loss_without_any_derivative_is_an_error() -> None:
    """Else every gradient is zero, and nothing is trained."""

    def share(scores: Any, labels: Any) -> Any:
        return jnp.mean(scores.argmax(1) == labels)

    def unrelated(scores: Any, labels: Any) -> Any:
        return jnp.mean(labels.astype("float32"))

    message = (
        "the loss has no derivative by any of the parameters, so that nothing would be trained"
    )
    for function, reason in (
        (
            share,
            r", since no gradient .*\n  `lv`: it is a .*int32.*\n  at .*:\d+:\d+\n.*argmax\(1\)",
        ),
        (unrelated, ": it is not computed from them\n"),
    ):
        with pytest.raises(ValueError, match=f"{message}{reason}"):
            SetupTrainer(from_jax(function), SGD(0.1), [LOGITS, LABELS])(backbone())
