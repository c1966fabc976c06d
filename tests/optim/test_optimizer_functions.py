"""The functions that SGD, MomentumSGD and Adam write, as text and in numbers."""

from collections.abc import Callable
from typing import Any

import chex
import numpy as np
import pytest

from relaxjax import from_source, to_jax
from relaxjax.ir import IRModule, TensorType, Var, assert_structural_equal
from relaxjax.optim import SGD, Adam, MomentumSGD, Optimizer

x = Var("x", TensorType((3, 3), "float32"))
y = Var("y", TensorType((3,), "float32"))

PARAMS = 'R.Tuple(R.Tensor((3, 3), "float32"), R.Tensor((3,), "float32"))'
STEPS = 'R.Tensor((), "int64")'
VELOCITIES = f'R.Tuple({STEPS}, R.Tensor((3, 3), "float32"), R.Tensor((3,), "float32"))'
MOMENTS = (
    f'R.Tuple({STEPS}, R.Tensor((), "float32"), R.Tensor((), "float32"), '
    'R.Tensor((3, 3), "float32"), R.Tensor((3,), "float32"), '
    'R.Tensor((3, 3), "float32"), R.Tensor((3,), "float32"))'
)


def function(name: str, states: str, body: str) -> str:
    """The script of an optimizer's function."""
    lines = "\n        ".join(body.strip().split("\n"))
    return f"""
@R.function
def {name}(params: {PARAMS}, gradients: {PARAMS}, optim_states: {states}):
    with R.dataflow():
        num_steps = optim_states[0]
        num_steps_new = R.add(num_steps, R.const(1, "int64"))
        {lines}
        R.output(params_new, optim_states_new)
    return (params_new, optim_states_new)
"""


def for_each_parameter(template: str) -> str:
    """The template for `x`, field 0, and `y`, field 1."""
    return "".join(
        template.replace("$v", name).replace("$0", str(i)).replace("$1", str(i + 1))
        .replace("$3", str(i + 3)).replace("$5", str(i + 5))
        for i, name in enumerate("xy")
    )  # fmt: skip


SGD_WITH_DECAY = function(
    "SGD",
    f"R.Tuple({STEPS})",
    for_each_parameter("""$v = params[$0]
$v_grad = gradients[$0]
$v_decay = R.multiply(R.const(0.02, "float32"), $v)
$v_grad_new = R.add($v_decay, $v_grad)
$v_scaled = R.multiply(R.const(0.01, "float32"), $v_grad_new)
$v_new = R.subtract($v, $v_scaled)
""")
    + "params_new = (x_new, y_new)\noptim_states_new = (num_steps_new,)",
)

NESTEROV = function(
    "MomentumSGD",
    VELOCITIES,
    for_each_parameter("""$v = params[$0]
$v_grad = gradients[$0]
$v_v = optim_states[$1]
$v_decay = R.multiply(R.const(0.02, "float32"), $v)
$v_grad_new = R.add($v_decay, $v_grad)
$v_old = R.multiply(R.const(0.9, "float32"), $v_v)
$v_added = R.multiply(R.const(0.15, "float32"), $v_grad_new)
$v_v_new = R.add($v_old, $v_added)
$v_ahead = R.multiply(R.const(0.9, "float32"), $v_v_new)
$v_g_nest = R.add($v_grad_new, $v_ahead)
$v_scaled = R.multiply(R.const(0.1, "float32"), $v_g_nest)
$v_new = R.subtract($v, $v_scaled)
""")
    + "params_new = (x_new, y_new)\noptim_states_new = (num_steps_new, x_v_new, y_v_new)",
)

ADAM = function(
    "Adam",
    MOMENTS,
    """old1 = optim_states[1]
beta1_prod = R.multiply(old1, R.const(0.8, "float32"))
old2 = optim_states[2]
beta2_prod = R.multiply(old2, R.const(0.85, "float32"))
"""
    + for_each_parameter("""$v = params[$0]
$v_grad = gradients[$0]
$v_m = optim_states[$3]
$v_v = optim_states[$5]
$v_m_old = R.multiply(R.const(0.8, "float32"), $v_m)
$v_m_added = R.multiply(R.const(0.2, "float32"), $v_grad)
$v_m_new = R.add($v_m_old, $v_m_added)
$v_v_old = R.multiply(R.const(0.85, "float32"), $v_v)
$v_square = R.multiply($v_grad, $v_grad)
$v_v_added = R.multiply(R.const(0.15, "float32"), $v_square)
$v_v_new = R.add($v_v_old, $v_v_added)
$v_m_share = R.subtract(R.const(1, "float32"), beta1_prod)
$v_m_hat = R.divide($v_m_new, $v_m_share)
$v_v_share = R.subtract(R.const(1, "float32"), beta2_prod)
$v_v_hat = R.divide($v_v_new, $v_v_share)
$v_root = R.sqrt($v_v_hat)
$v_safe = R.add($v_root, R.const(1e-7, "float32"))
$v_ratio = R.divide($v_m_hat, $v_safe)
$v_scaled = R.multiply(R.const(0.01, "float32"), $v_ratio)
$v_new = R.subtract($v, $v_scaled)
""")
    + "params_new = (x_new, y_new)\n"
    + "optim_states_new = "
    + "(num_steps_new, beta1_prod, beta2_prod, x_m_new, y_m_new, x_v_new, y_v_new)",
)


@pytest.mark.parametrize(
    ("optimizer", "script"),
    [
        (SGD(0.01, 0.02), SGD_WITH_DECAY),
        (MomentumSGD(0.1, 0.9, 0.85, 0.02, nesterov=True), NESTEROV),
        (Adam(0.01, (0.8, 0.85), 1e-7), ADAM),
    ],
)
def test_the_function_as_a_script(optimizer: Optimizer, script: str) -> None:
    assert_structural_equal(optimizer.init([x, y]).get_function(), from_source(script))


def test_names_of_variables() -> None:
    """The names that a reader meets in the printed function are those of the parameters."""
    body = Adam(0.1, weight_decay=0.1).init(y).get_function().body
    names = [binding.var.name for binding in body.bindings()]
    assert [name for name in names if not name.startswith("lv")] == [
        "num_steps", "num_steps_new", "beta1_prod", "beta2_prod", "y", "y_grad", "y_m", "y_v",
        "y_grad_new", "y_m_new", "y_v_new", "y_m_hat", "y_v_hat", "y_new",
        "params_new", "optim_states_new",
    ]  # fmt: skip


# The same rules in numpy


def sgd(p: Any, g: Any, s: list[Any], lr: float, wd: float) -> tuple[Any, list[Any]]:
    return p - lr * (g + wd * p), []


def momentum(
    p: Any, g: Any, s: list[Any], lr: float, mu: float, damp: float, wd: float, nesterov: bool
) -> tuple[Any, list[Any]]:
    g = g + wd * p
    v = mu * s[0] + (1 - damp) * g
    return p - lr * (g + mu * v if nesterov else v), [v]


def adam(
    p: Any, g: Any, s: list[Any], t: int, lr: float, b1: float, b2: float, eps: float, wd: float
) -> tuple[Any, list[Any]]:
    g = g + wd * p
    m, v = b1 * s[0] + (1 - b1) * g, b2 * s[1] + (1 - b2) * g * g
    m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
    return p - lr * m_hat / (np.sqrt(v_hat) + eps), [m, v]


# An optimizer, its rule for one parameter at step t, and how many moments it keeps of each
CASES: dict[str, tuple[Optimizer, Callable[..., Any], int]] = {
    "sgd": (SGD(0.1), lambda t, p, g, s: sgd(p, g, s, 0.1, 0), 0),
    "sgd with decay": (SGD(0.1, 0.05), lambda t, p, g, s: sgd(p, g, s, 0.1, 0.05), 0),
    "momentum": (
        MomentumSGD(0.1, 0.9),
        lambda t, p, g, s: momentum(p, g, s, 0.1, 0.9, 0, 0, False),
        1,
    ),
    "dampened": (
        MomentumSGD(0.1, 0.9, 0.3, 0.05),
        lambda t, p, g, s: momentum(p, g, s, 0.1, 0.9, 0.3, 0.05, False),
        1,
    ),
    "nesterov": (
        MomentumSGD(0.1, 0.9, 0.3, 0.05, nesterov=True),
        lambda t, p, g, s: momentum(p, g, s, 0.1, 0.9, 0.3, 0.05, True),
        1,
    ),
    "adam": (Adam(0.1), lambda t, p, g, s: adam(p, g, s, t, 0.1, 0.9, 0.999, 1e-8, 0), 2),
    "adam with decay": (
        Adam(0.1, (0.8, 0.9), 1e-3, 0.05),
        lambda t, p, g, s: adam(p, g, s, t, 0.1, 0.8, 0.9, 1e-3, 0.05),
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_steps_equal_those_of_numpy(name: str) -> None:
    optimizer, rule, moments = CASES[name]
    bound = optimizer.init([x, y])
    step = to_jax(IRModule({bound.name: bound.get_function()}), bound.name)
    rng = np.random.default_rng(0)
    params = tuple(rng.normal(size=shape).astype("float32") for shape in ((3, 3), (3,)))
    expected = [np.asarray(p, "float64") for p in params]
    kept = [[np.zeros(p.shape) for _ in range(moments)] for p in params]
    state: Any = tuple(map(np.asarray, bound.state))
    for t in range(1, 6):
        gradients = tuple(rng.normal(size=p.shape).astype("float32") for p in params)
        params, state = step(params, gradients, state)
        for i, gradient in enumerate(gradients):
            expected[i], kept[i] = rule(t, expected[i], gradient.astype("float64"), kept[i])
    chex.assert_trees_all_close(
        [np.asarray(p, "float64") for p in params], expected, rtol=1e-4, atol=1e-5
    )
    assert int(state[0]) == 5


@pytest.mark.parametrize("optimizer", [SGD(0.1), MomentumSGD(0.1, 0.9), Adam(0.1)])
def test_the_state_keeps_its_shapes_and_dtypes(optimizer: Optimizer) -> None:
    bound = optimizer.init([x, y])
    function = bound.get_function()
    assert function.params[2].ty == bound.state_type
    assert function.body.body.ty is not None
    assert function.body.body.ty.fields[1] == bound.state_type  # type: ignore[attr-defined]  # a tuple's type
