"""Random keys through calls between functions of a module."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax import Trainer, VirtualMachine, build, to_jax
from relaxjax.ir import TensorType, assert_structural_equal, well_formed
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD
from relaxjax.passes import DecomposeOpsForTraining, LambdaLift, MutateOpsForTraining, SetupTrainer

TEXT = """
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function(private=True)
    def thinned(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            thin = R.nn.dropout(x, rate=0.5)
            out = thin[0]
            R.output(out)
        return out

    @R.function(private=True)
    def both(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            one = Module.thinned(x)
            out = R.add(one, x)
            R.output(one, out)
        return (one, out)

    @R.function
    def backbone(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
        with R.dataflow():
            scaled = R.multiply(x, w)
            pair = Module.both(scaled)
            other = Module.thinned(scaled)
            out = R.add(pair[1], other)
            R.output(out)
        return out

    @R.function
    def apart(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            out = R.negative(x)
            R.output(out)
        return out
"""
PRIVATE = "@R.function(private=True)\n    def both"
CALLS = parse_functions(TEXT.replace(PRIVATE, "@R.function\n    def both"))


def test_who_calls_a_function_that_draws_hands_on_a_key() -> None:
    """Only public functions return a new one."""
    expected = parse_functions("""
    I.module_attrs({"param_num": 1, "state_num": 0})

    @R.function(private=True)
    def thinned(x: R.Tensor((4,), "float32"), key: R.Tensor((), "key<fry>")):
        with R.dataflow():
            lv = R.random.fold_in(key, 0)
            kept = R.random.bernoulli(lv, 0.5, R.shape([4]))
            mask = R.where(kept, R.const(2, "float32"), R.const(0, "float32"))
            masked = R.multiply(x, mask)
            thin = (masked, mask)
            out = thin[0]
            R.output(out)
        return out

    @R.function
    def both(x: R.Tensor((4,), "float32"), key: R.Tensor((), "key<fry>")):
        with R.dataflow():
            lv = R.random.fold_in(key, 0)
            one = Module.thinned(x, lv)
            out = R.add(one, x)
            key_new = R.random.fold_in(key, 1)
            R.output(one, out, key_new)
        return (one, out, key_new)

    @R.function
    def backbone(
        x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), key: R.Tensor((), "key<fry>")
    ):
        with R.dataflow():
            scaled = R.multiply(x, w)
            lv = R.random.fold_in(key, 0)
            lv1 = Module.both(scaled, lv)
            lv2 = lv1[0]
            lv3 = lv1[1]
            pair = (lv2, lv3)
            lv4 = R.random.fold_in(key, 1)
            other = Module.thinned(scaled, lv4)
            lv6 = pair[1]
            out = R.add(lv6, other)
            key_new = R.random.fold_in(key, 2)
            R.output(out, key_new)
        return (out, key_new)

    @R.function
    def apart(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            out = R.negative(x)
            R.output(out)
        return out
""")
    mutated = MutateOpsForTraining()(CALLS)
    well_formed(mutated)
    assert_structural_equal(mutated, expected)
    assert mutated["apart"] is CALLS["apart"]


def test_one_function_alone_takes_those_that_call_it_along() -> None:
    mutated = DecomposeOpsForTraining("thinned")(CALLS)
    well_formed(mutated)
    counts = {name: len(function.params) for name, function in mutated.relax_functions().items()}
    assert counts == {"thinned": 2, "both": 2, "backbone": 3, "apart": 1}


def test_a_function_that_calls_itself_may_draw() -> None:
    recursive = parse_functions("""
    @R.function
    def main(x: R.Tensor((4,), "float32"), more: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if more:
            thin = R.nn.dropout(x, rate=0.5)
            less: R.Tensor((4,), "float32") = Module.main(thin[0], R.const(False, "bool"))
            out = less
        else:
            out = x
        return out
""")
    mutated = MutateOpsForTraining()(recursive)
    well_formed(mutated)
    x, key = np.ones(4, "float32"), jax.random.key(1)
    out, _ = to_jax(mutated, "main")(x, np.bool(True), key)
    kept = jax.random.bernoulli(jax.random.fold_in(key, 0), jnp.float32(0.5), (4,))
    np.testing.assert_array_equal(out, jnp.where(kept, 2.0, 0.0))


def test_what_a_backbone_calls_is_in_its_training_form_in_training_alone() -> None:
    values = TensorType((4,), "float32")
    mod = SetupTrainer(MSELoss("sum"), SGD(0.0), [values, values])(parse_functions(TEXT))
    well_formed(mod)
    assert {"thinned", "both", "thinned_training", "both_training"} < set(mod)
    trainer = Trainer(mod, VirtualMachine(build(mod)))
    trainer.load_params([np.ones(4, "float32")])
    x, zeros = np.ones(4, "float32"), np.zeros(4, "float32")
    np.testing.assert_array_equal(trainer.predict(x), 3 * x)
    losses = [float(trainer.update(x, zeros)) for _ in range(4)]
    assert len(set(losses)) > 1
    assert set(losses) <= {float(sum(v * v for v in p)) for p in _values()}


def _values() -> list[tuple[float, ...]]:
    """Each element is x thinned twice, plus x: 1, 3 or 5."""
    return [
        (a, b, c, d) for a in (1, 3, 5) for b in (1, 3, 5) for c in (1, 3, 5) for d in (1, 3, 5)
    ]


@pytest.mark.parametrize("drawing", ["both", "both_gradient"])
def test_a_function_with_a_derivative_of_its_own_is_given_no_key(drawing: str) -> None:
    """Nor is the derivative: they take the same."""
    given = "R.nn.dropout(x, rate=0.5)[0]"
    results = {"both": "x", "both_gradient": "R.multiply(g, x)"}
    module = parse_functions(f"""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = Module.both(x)
        return y

    @R.function(private=True)
    def both(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({{"custom_gradient": "both_gradient"}})
        y = {given if drawing == "both" else results["both"]}
        return y

    @R.function(private=True)
    def both_gradient(
        x: R.Tensor((4,), "float32"), g: R.Tensor((4,), "float32")
    ) -> R.Tuple(R.Tensor((4,), "float32")):
        y = {given if drawing == "both_gradient" else results["both_gradient"]}
        return (y,)
""")
    message = (
        f"`{drawing}` draws random numbers in training, and `both_gradient` is a derivative of"
    )
    with pytest.raises(ValueError, match=message):
        DecomposeOpsForTraining()(module)


def test_a_function_that_is_a_value_is_given_no_key() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def thinned(y: R.Tensor((4,), "float32")):
            return R.multiply(R.nn.dropout(y, rate=0.5)[0], x)
        return thinned(x)
""")
    assert len(MutateOpsForTraining()(mod)["main"].params) == 2
    match = "`main_thinned` draws random numbers in training, and is handed to relax.make_closure"
    with pytest.raises(ValueError, match=match):
        MutateOpsForTraining()(LambdaLift()(mod))
