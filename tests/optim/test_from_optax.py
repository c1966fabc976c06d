"""Gradient transformations of optax as Relax functions, against optax itself."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_models import batch, classifier, trained_by_optax

from relaxjax import Function, IRModule, TensorType, Var, from_source, optim, to_jax
from relaxjax.ir import SymbolicVar, assert_structural_equal, well_formed
from relaxjax.ops.lax import UnsupportedPrimitiveError
from relaxjax.optim import OptaxOptimizer, from_optax

x = Var("x", TensorType((3, 4), "float32"))
y = Var("y", TensorType((3,), "float32"))

rng = np.random.default_rng(0)
PARAMS: dict[str, Any] = {
    name: rng.normal(size=shape).astype("float32") for name, shape in (("x", (3, 4)), ("y", (3,)))
}
GRADIENTS = [
    {name: rng.normal(size=value.shape).astype("float32") for name, value in PARAMS.items()}
    for _ in range(5)
]

schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10)

TRANSFORMATIONS: dict[str, Any] = {
    "schedule": optax.adamw(schedule),
    "chain with clipping": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule)),
    "adaptive clipping": optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(0.1)),
    "mask by name": optax.adamw(0.1, mask={"x": True, "y": False}),
    "mask by shape": optax.masked(
        optax.sgd(0.1), lambda tree: jax.tree.map(lambda leaf: leaf.ndim > 1, tree)
    ),
    "labels": optax.multi_transform(
        {"slow": optax.sgd(0.01), "fast": optax.adam(0.1)}, {"x": "slow", "y": "fast"}
    ),
    "accumulation": optax.MultiSteps(optax.adam(0.1), every_k_schedule=2),
    "average of updates": optax.chain(optax.ema(0.9), optax.sgd(0.1)),
    "skipped if not finite": optax.apply_if_finite(optax.adam(0.1), 3),
    "injected hyperparameters": optax.inject_hyperparams(optax.sgd)(schedule),
    "random noise": optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(0)), optax.sgd(0.1)),
    "state from the parameters": optax.contrib.prodigy(),
}
NAMED = [
    name for name, value in vars(optim).items() if name[0].isupper() and not isinstance(value, type)
]


def steps(optimizer: OptaxOptimizer) -> Any:
    """Parameters and state after a few steps of the function."""
    bound = optimizer.init([x, y])
    mod = IRModule({bound.name: bound.get_function()})
    well_formed(mod)
    step = jax.jit(to_jax(mod, bound.name))
    params: Any = tuple(PARAMS.values())
    state = bound.state
    for gradients in GRADIENTS:
        params, state = step(params, tuple(gradients.values()), state)
    return dict(zip(PARAMS, params, strict=True)), state


def steps_of_optax(tx: Any) -> Any:
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        params: Any = jax.tree.map(jnp.asarray, PARAMS)
        state = tx.init(params)

        @jax.jit
        def step(params: Any, gradients: Any, state: Any) -> Any:
            updates, state = tx.update(gradients, state, params)
            return optax.apply_updates(params, updates), state

        for gradients in GRADIENTS:
            params, state = step(params, gradients, state)
    return params, state


def numbers(leaves: Any) -> Any:
    """Leaves of a state, random keys as their data."""
    return [
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for leaf in map(jnp.asarray, leaves)
    ]


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations_step_as_optax_does(name: str) -> None:
    tx = TRANSFORMATIONS[name]
    params, state = steps(from_optax(tx))
    expected, expected_state = steps_of_optax(tx)
    chex.assert_trees_all_close(params, expected, rtol=1e-6)
    leaves = numbers(jax.tree.leaves(expected_state))
    chex.assert_trees_all_close(list(state[: len(leaves)]), leaves, rtol=1e-6)


@pytest.mark.parametrize("name", NAMED)
def test_named_optimizers_write_functions_of_their_name(name: str) -> None:
    function = getattr(optim, name)(0.1).init([x, y]).get_function()
    assert function.global_symbol == name
    well_formed(IRModule({name: function}))


@pytest.mark.parametrize("name", ["Lion", "Muon", "ScheduleFreeAdamW"])
def test_named_optimizers_step_as_optax_does(name: str) -> None:
    optimizer = getattr(optim, name)(0.1)
    expected, _ = steps_of_optax(optimizer.transformation)
    chex.assert_trees_all_close(steps(optimizer)[0], expected, rtol=1e-6, atol=1e-6)


def test_the_names_are_the_ones_we_know() -> None:
    assert {"AdamW", "Adagrad", "Lion", "RMSProp", "Muon"} <= set(NAMED)
    assert optim.AdamW.__doc__ is not None
    assert "optax.adamw" in optim.AdamW.__doc__


def test_options_are_those_of_optax() -> None:
    ours = steps(optim.AdamW(schedule, b1=0.8, weight_decay=0.1))[0]
    chex.assert_trees_all_close(
        ours, steps_of_optax(optax.adamw(schedule, 0.8, weight_decay=0.1))[0]
    )


def test_the_function_as_a_script() -> None:
    tensors = 'R.Tuple(R.Tensor((3, 4), "float32"), R.Tensor((3,), "float32"))'
    expected = from_source(f"""
@R.function
def Heavy(params: {tensors}, gradients: {tensors}, optim_states: {tensors}):
    with R.dataflow():
        x = params[0]
        x_grad = gradients[0]
        y = params[1]
        y_grad = gradients[1]
        trace_x = optim_states[0]
        trace_y = optim_states[1]
        lv = L.mul(R.const(0.5, "float32"), trace_x)
        lv1 = L.add(x_grad, lv)
        lv2 = L.mul(R.const(0.5, "float32"), trace_y)
        lv3 = L.add(y_grad, lv2)
        lv4 = L.mul(R.const(-0.25, "float32"), lv1)
        lv5 = L.mul(R.const(-0.25, "float32"), lv3)
        lv6 = L.add(x, lv4)
        lv7 = L.add(y, lv5)
        x_new = lv6
        y_new = lv7
        trace_x_new = lv1
        trace_y_new = lv3
        params_new = (x_new, y_new)
        optim_states_new = (trace_x_new, trace_y_new)
        R.output(params_new, optim_states_new)
    return (params_new, optim_states_new)
""")
    assert isinstance(expected, Function)
    function = from_optax(optax.sgd(0.25, momentum=0.5), "Heavy").init([x, y]).get_function()
    assert_structural_equal(function, expected)
    assert [binding.var.name for binding in function.body.bindings()] == [
        binding.var.name for binding in expected.body.bindings()
    ]


@pytest.mark.parametrize("name", ["accumulation", "schedule", "random noise"])
def test_functions_print_and_parse_back(name: str) -> None:
    function = from_optax(TRANSFORMATIONS[name]).init([x, y]).get_function()
    assert_structural_equal(from_source(str(function.script())), function)


def test_states_of_one_field_and_index_names_are_told_apart() -> None:
    tx = optax.chain(optax.trace(0.9), optax.trace(0.5))
    function = from_optax(tx).init(Var("0.w-1", y.ty)).get_function()
    names = [binding.var.name for binding in function.body.bindings()]
    assert {"trace_0_w_1", "trace_0_w_11"} <= set(names)


@pytest.mark.parametrize(("name", "programs"), [("adam", 0), ("noise", 1)])
def test_the_first_state_is_one_program_at_most(
    name: str, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Array by array, each shape of it would be compiled."""
    txs = {"adam": optax.adam(0.1), "noise": optax.add_noise(0.1, 0.9, 7)}
    shapes = [(3, n) for n in range(2, 9)]
    params = [Var(f"w{n}", TensorType(shape, "float32")) for n, shape in enumerate(shapes)]
    compiled: list[Any] = []
    compile_ = jax.stages.Lowered.compile

    def counted(lowered: Any, *args: Any, **options: Any) -> Any:
        compiled.append(lowered)
        return compile_(lowered, *args, **options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", counted)
    bound = from_optax(optax.chain(optax.adam(0.1), txs[name])).init(params)
    bound.get_function()
    assert len(compiled) == programs
    assert [array.shape for array in bound.state[:15]] == [(), *shapes, *shapes]
    assert not any(array.any() for array in bound.state[:15])


def test_a_state_that_starts_from_the_parameters_takes_them_in_the_first_step() -> None:
    bound = from_optax(optax.contrib.prodigy()).init([x, y])
    assert bound.state[-1].dtype == "bool"
    assert not bound.state[-1]
    assert steps(from_optax(optax.contrib.prodigy()))[1][-1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_dtypes(dtype: str) -> None:
    bound = optim.AdamW(0.1).init(Var("p", TensorType((2,), dtype)))
    assert [str(array.dtype) for array in bound.state] == ["int32", dtype, dtype]
    assert bound.get_function().ret_ty.fields[1] == bound.state_type  # type: ignore[attr-defined]  # a tuple's type


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            from_optax(optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(schedule))),
            optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(schedule)),
        ),
        (from_optax(optax.sgd(0.1)), optax.sgd(0.1)),
    ],
    ids=["adamw with clipping and schedule", "no state at all"],
)
def test_a_trainer_takes_them_like_any_optimizer(ours: Any, theirs: Any) -> None:
    trainer = classifier(ours)
    trainer.xavier_uniform_init_params(seed=1)
    params = trainer.export_params()
    losses = [float(trainer.update(*batch(seed))) for seed in range(20)]
    _, expected = trained_by_optax(theirs, params, 20)
    chex.assert_trees_all_close(losses, expected, rtol=1e-5, atol=1e-6)


# What is refused


def test_something_else_than_a_transformation_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"takes a gradient transformation .* of type float"):
        from_optax(0.1).init([x])


def test_parameters_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="more than one is called `x`: rename them"):
        from_optax(optax.sgd(0.1)).init([x, Var("x", y.ty)])


def test_symbolic_shapes_are_an_error() -> None:
    param = Var("p", TensorType((SymbolicVar("n"),), "float32"))
    with pytest.raises(ValueError, match=r"state of AdamW .* parameter `p` is not known"):
        optim.AdamW(0.1).init(param)


def test_a_line_search_is_an_error() -> None:
    message = r"gradients, state, parameters by name, and the loss alone: .* 'value_fn'; what asks"
    with pytest.raises(TypeError, match=message + r".* `tx.update\(.*, value_fn=loss\)`; optax.lb"):
        from_optax(optax.lbfgs()).init([x]).get_function()


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "sophia": (
        optax.contrib.sophia(0.1),
        ValueError,
        "be stepped with gradients, state, parameters by name, and the loss alone: obj_fn must be",
    ),
    "masked": (
        optax.masked(optax.sgd(0.1), {"z": True}),
        ValueError,
        "begin with the parameters x, y by name: (?s:.*)\n    (z|\\['z'\\])",
    ),
}


@pytest.mark.parametrize(("name", "given"), REFUSED.items(), ids=REFUSED)
def test_what_optax_refuses_names_the_optimizer(
    name: str, given: tuple[Any, type[Exception], str]
) -> None:
    tx, kind, match = given
    with pytest.raises(kind, match=f"^the optimizer {name} cannot {match}"):
        from_optax(tx, name).init([x, y]).get_function()


@pytest.mark.parametrize("wrap", [lambda tx: tx, lambda tx: optax.chain(optax.clip(1.0), tx)])
def test_a_lookahead_is_an_error_that_names_what_to_take(wrap: Any) -> None:
    tx = wrap(optax.lookahead(optax.sgd(0.1), 5, 0.5))
    message = (
        r"optimizer pairs is an optax\.lookahead, which steps pairs .*\.schedule_free_adamw, or"
    )
    with pytest.raises(TypeError, match=message):
        from_optax(tx, "pairs").init([x, y])


class _Pair(NamedTuple):
    a: Any
    b: Any


def test_a_state_that_changes_its_structure_is_an_error() -> None:
    tx = optax.GradientTransformation(
        lambda params: _Pair(jnp.zeros(()), None),
        lambda updates, state, params=None: (updates, _Pair(None, state.a)),
    )
    changed = (
        r"odd changes the structure of its state in a step, in _Pair from .*\*.* to .*None.*: "
    )
    for odd in (tx, optax.chain(optax.adam(0.1), optax.chain(tx))):
        with pytest.raises(ValueError, match=f"{changed}have its `init` give all .* of your own"):
            from_optax(odd, "odd").init([x]).get_function()


def test_a_monitor_that_has_measured_nothing_yet_is_an_error() -> None:
    tx = optax.chain(optax.monitor({"norm": optax.tree.norm}), optax.sgd(0.1))
    changed = r"in MonitorState from PyTreeDef\(\{\}\) to PyTreeDef\(\{'norm': \*\}\), and"
    with pytest.raises(ValueError, match=changed):
        from_optax(tx).init([x]).get_function()


def test_a_state_that_changes_its_dtype_is_an_error() -> None:
    tx = optax.GradientTransformation(
        lambda params: _Pair(jnp.zeros((), "int32"), None),
        lambda updates, state, params=None: (updates, _Pair(state.a + 0.5, None)),
    )
    with pytest.raises(
        ValueError,
        match=r"odd takes its state `a` as int32 of shape \(\) and gives it back as float32.*_dt",
    ):
        from_optax(tx, "odd").init([x]).get_function()


def test_a_primitive_without_a_form_is_named() -> None:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        jax.debug.print("{}", updates["x"].sum())
        return updates, state

    tx = optax.GradientTransformation(lambda params: optax.EmptyState(), update)
    with pytest.raises(UnsupportedPrimitiveError, match="the optimizer odd: the JAX primitive `"):
        from_optax(tx, "odd").init([x]).get_function()
