"""What every optimizer shares: binding to parameters, its checks, and optimizers of one's own."""

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest

from relaxjax.ir import Expr, ShapeType, SymbolicVar, TensorType, TupleType, Var
from relaxjax.ir.op import get_op
from relaxjax.optim import SGD, Adam, BoundOptimizer, MomentumSGD, Optimizer, Step
from relaxjax.optim.base import complement

x = Var("x", TensorType((3, 3), "float32"))
y = Var("y", TensorType((3,), "float32"))


def test_init_makes_a_new_object_and_leaves_the_hyperparameters_alone() -> None:
    sgd = SGD(0.1)
    bound = sgd.init([x, y])
    assert isinstance(bound, BoundOptimizer)
    assert bound.optimizer is sgd
    assert bound.param_list == (x, y)
    assert bound.dtype == "float32"
    assert sgd == SGD(0.1)
    with pytest.raises(FrozenInstanceError):
        sgd.lr = 1.0  # type: ignore[misc]  # the very point of the test


def test_a_single_parameter_needs_no_list() -> None:
    assert SGD(0.1).init(x).param_list == (x,)


def test_a_bound_optimizer_can_be_bound_again() -> None:
    assert SGD(0.1).init(x).init([y]).param_list == (y,)


def test_the_running_state_may_be_kept_in_a_bound_optimizer() -> None:
    """As TVM's tutorial does: `params, opt.state = vm["SGD"](params, gradients, opt.state)`."""
    bound = SGD(0.1).init(x)
    bound.state = (np.array(1, "int64"),)
    assert bound.state[0] == 1
    assert SGD(0.1).init(x).state[0] == 0


def test_names() -> None:
    assert [o.name for o in (SGD(1), MomentumSGD(1, 0.9), Adam(1))] == [
        "SGD",
        "MomentumSGD",
        "Adam",
    ]
    assert Adam(1).init(x).name == "Adam"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_constants_and_states_take_the_dtype_of_the_parameters(dtype: str) -> None:
    shape = TensorType((2,), dtype)
    bound = Adam(0.1).init(Var("p", shape))
    assert [str(array.dtype) for array in bound.state] == ["int64", *[dtype] * 4]
    scalar = TensorType((), dtype)
    states = TupleType((TensorType((), "int64"), scalar, scalar, shape, shape))
    assert bound.get_function().ret_ty == TupleType((TupleType((shape,)), states))


def test_sgd_takes_symbolic_shapes() -> None:
    shape = TensorType((SymbolicVar("n"), 3), "float32")
    states = TupleType((TensorType((), "int64"),))
    function = SGD(0.1).init(Var("p", shape)).get_function()
    assert function.ret_ty == TupleType((TupleType((shape,)), states))


@pytest.mark.parametrize("optimizer", [MomentumSGD(0.1, 0.9), Adam(0.1)])
def test_a_state_in_the_shape_of_the_parameters_needs_static_shapes(optimizer: Optimizer) -> None:
    param = Var("p", TensorType((SymbolicVar("n"), 3), "float32"))
    match = rf"state of {optimizer.name} .* parameter `p` is not known"
    with pytest.raises(ValueError, match=match):
        optimizer.init(param)


@pytest.mark.parametrize("value", [0.9, 0.999, 0.85, 0.0, 1.0, 1e-3])
def test_the_complement_has_no_rounding_noise(value: float) -> None:
    assert str(complement(value)) == str(round(1 - value, 6))


def test_a_state_before_init_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"Please call init\(\) .* before reading its state"):
        _ = SGD(0.1).state


def test_a_function_before_init_is_an_error_that_says_how_to_bind() -> None:
    match = r"Please call init\(\) for the optimizer before calling get_function\(\).*opt = Adam\("
    with pytest.raises(RuntimeError, match=match):
        Adam(0.1).get_function()


def test_no_parameters_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one parameter"):
        SGD(0.1).init([])


def test_a_parameter_must_be_a_variable() -> None:
    with pytest.raises(ValueError, match=r"Parameter 3 is not a Var"):
        SGD(0.1).init([3])  # type: ignore[list-item]  # the very point of the test


def test_a_parameter_must_be_a_tensor() -> None:
    with pytest.raises(ValueError, match="only support Tensor parameters, but parameter s has"):
        SGD(0.1).init(Var("s", ShapeType((2,))))


def test_a_parameter_must_be_of_a_floating_point_dtype() -> None:
    with pytest.raises(ValueError, match="floating point dtype, but dtype of i is int32"):
        SGD(0.1).init(Var("i", TensorType((2,), "int32")))


def test_parameters_must_share_one_dtype() -> None:
    match = r"parameter h has dtype float16, which differs .* float32"
    with pytest.raises(ValueError, match=match):
        SGD(0.1).init([x, Var("h", TensorType((2,), "float16"))])


def test_a_parameter_may_appear_once() -> None:
    with pytest.raises(ValueError, match="Parameter x appears more than once"):
        SGD(0.1).init([x, y, x])


def test_an_optimizer_must_define_its_state_and_its_update() -> None:
    @dataclass(frozen=True)
    class Half(Optimizer):
        def initial_state(self, params: tuple[Var, ...], dtype: str) -> tuple[()]:
            return ()

    with pytest.raises(NotImplementedError, match=r"Optimizer must define `initial_state"):
        Optimizer().init(x)
    with pytest.raises(NotImplementedError, match=r"Half must define `update"):
        Half().init(x).get_function()


def test_an_optimizer_of_ones_own() -> None:
    @dataclass(frozen=True)
    class Negate(Optimizer):
        def initial_state(self, params: tuple[Var, ...], dtype: str) -> tuple[()]:
            return ()

        def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
            return [step.emit(-param, f"{name}_new") for name, param, _ in step.parameters()], []

    function = Negate().init(y).get_function()
    assert function.global_symbol == "Negate"
    assert [binding.var.name for binding in function.body.bindings()] == [
        "y", "y_grad", "y_new", "params_new", "optim_states_new",
    ]  # fmt: skip


@dataclass(frozen=True)
class Mistaken(Optimizer):
    """Gives whatever it is told to, of a parameter `y` and a state of three numbers."""

    start: Any = (np.zeros(3, "float32"),)
    result: Any = None

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> Any:
        return self.start

    def update(self, step: Step) -> Any:
        return self.result(step.params[0], step.states[0])


@pytest.mark.parametrize(
    ("result", "match"),
    [
        (lambda p, s: [p], r"must return a pair, the list of the new .* but it returned \["),
        (
            lambda p, s: ([p, p], [s]),
            "must give as many parameters as there are, 1, but it gives 2",
        ),
        (lambda p, s: ([p], []), "must give as many states as there are, 1, but it gives 0"),
        (lambda p, s: ([s], [s, s]), "must give as many states as there are, 1, but it gives 2"),
        (
            lambda p, s: ([get_op("relax.sum")(p)], [s]),
            r"takes parameter `y` as .*3.* and gives it back as R.Tensor\(\(\), .* leave types as",
        ),
        (
            lambda p, s: ([p], [get_op("relax.astype")(s, "float16")]),
            "takes state 0 as .*float32.* and gives it back as .*float16.*: a step must leave",
        ),
    ],
)
def test_what_a_step_gives_must_be_what_the_next_one_takes(result: Any, match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"`update` of Mistaken {match}"):
        Mistaken(result=result).init(y).get_function()


def test_an_initial_state_must_be_a_tuple_of_arrays() -> None:
    match = "`initial_state` of Mistaken must return a tuple of arrays, but it returned an ndarray"
    with pytest.raises(TypeError, match=match):
        Mistaken(np.zeros(3)).init(y)
