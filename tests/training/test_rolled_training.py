"""Training as loops over layers: the same training, under the same names, in the same files."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from exported_model import assert_runs_alone
from parsing import parse_backbone

from relaxjax import Executable, SetupTrainer, VirtualMachine, build
from relaxjax.ir import Call, IRModule, TensorType, assert_structural_equal
from relaxjax.ir.op import get_op
from relaxjax.ir.walk import post_order
from relaxjax.losses import MSELoss
from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.training import Trainer, load_trainer

pytestmark = pytest.mark.usefixtures("quickly_compiled")

LAYERS = 3
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(4, 8)).astype("float32")
TARGETS = RNG.normal(size=(4, 3)).astype("float32")


def matrices(params: Any) -> Any:
    return {name: param.ndim > 1 for name, param in params.items()}


def some(params: Any) -> Any:
    return {name: name in ("w0", "b1") for name in params}


# Masks by name and by rank, and a norm of each parameter: an optimizer of stacks would err.
BY_LAYER = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.scale_by_adam(),
    optax.add_decayed_weights(0.1, mask=matrices),
    optax.masked(optax.set_to_zero(), some),
    optax.scale_by_trust_ratio(),
    optax.scale(-0.05),
)


def residual(i: int) -> list[str]:
    return [f"h{i + 1} = R.add(h{i}, R.tanh(R.add(R.matmul(h{i}, w{i}), b{i})))"]


def normed(i: int) -> list[str]:
    """A layer with running statistics."""
    return [
        f"a{i} = R.matmul(h{i}, w{i})",
        f"n{i} = R.nn.batch_norm(a{i}, b{i}, b{i}, m{i}, v{i}, axis=1)",
        f"h{i + 1} = R.add(h{i}, n{i}[0])",
        f"m{i}_new = n{i}[1]",
        f"v{i}_new = n{i}[2]",
    ]


def dropped(i: int) -> list[str]:
    return [f"d{i} = R.nn.dropout(R.matmul(h{i}, w{i}), rate=0.5)", f"h{i + 1} = R.tanh(d{i}[0])"]


def backbone(layer: Any, has_states: bool = False, dtype: str = "float32") -> IRModule:
    matrix, vector = f'R.Tensor((8, 8), "{dtype}")', f'R.Tensor((8,), "{dtype}")'
    params = [f"w{i}: {matrix}, b{i}: {vector}" for i in range(LAYERS)]
    states = [f"m{i}: {vector}, v{i}: {vector}" for i in range(LAYERS)] if has_states else []
    new = [f"m{i}_new, v{i}_new" for i in range(LAYERS)] if has_states else []
    lines = ["h0 = R.sin(x)", *(line for i in range(LAYERS) for line in layer(i))]
    signature = ", ".join(
        [f'x: R.Tensor((4, 8), "{dtype}")', *params, f'head: R.Tensor((8, 3), "{dtype}")', *states]
    )
    lines += [f"out = R.matmul(h{LAYERS}, head)", f"return {', '.join(['out', *new])}"]
    counts = {"param_num": 2 * LAYERS + 1, "state_num": 2 * len(states)}
    return parse_backbone("\n".join(lines), signature, **counts)


def set_up(mod: IRModule, roll: Any, optimizer: Any = None, **options: Any) -> IRModule:
    types = [TensorType((4, 3), mod["backbone"].params[0].ty.dtype)] * 2
    return SetupTrainer(MSELoss(), optimizer or Adam(0.01), types, roll_blocks=roll, **options)(mod)


@cache
def usual(roll: bool) -> Executable:
    """The residual model with Adam, whose programs all its trainers share."""
    return build(set_up(backbone(residual), roll))


def trainer_of(executable: Executable) -> Trainer:
    trainer = Trainer(executable.mod, VirtualMachine(executable))
    trainer.xavier_uniform_init_params(seed=0)
    return trainer


def has_loop(mod: IRModule, name: str) -> bool:
    calls = (expr for expr in post_order(mod[name]) if isinstance(expr, Call))
    return any(call.op is get_op("relax.scan") for call in calls)


def assert_same(one: Trainer, other: Trainer) -> None:
    for export in ("export_params", "export_states"):
        found, wanted = getattr(one, export)(), getattr(other, export)()
        assert list(found) == list(wanted)
        for name, array in found.items():
            if not str(array.dtype).startswith("key<"):
                np.testing.assert_allclose(array, wanted[name], rtol=2e-5, atol=2e-6)


def trained(given: IRModule | Executable, steps: int = 2, dtype: str = "float32") -> Trainer:
    trainer = trainer_of(build(given) if isinstance(given, IRModule) else given)
    for _ in range(steps):
        trainer.update(INPUTS.astype(dtype), TARGETS.astype(dtype))
    return trainer


@pytest.mark.parametrize("optimizer", [None, from_optax(BY_LAYER)])
def test_a_rolled_training_is_the_same_training(optimizer: Any) -> None:
    """With Adam, and with an optimizer that looks at the names of parameters."""
    rolled, alone = (
        usual(roll) if optimizer is None else build(set_up(backbone(residual), roll, optimizer))
        for roll in (True, False)
    )
    for name in ("backbone", "evaluate", "backbone_loss_adjoint"):
        assert has_loop(rolled.mod, name)
    assert not any(e.op is get_op("lax.concatenate") for e in calls_of(rolled.mod, "backbone"))
    ours, plain = trained(rolled), trained(alone)
    assert_same(ours, plain)
    np.testing.assert_allclose(ours.predict(INPUTS), plain.predict(INPUTS), rtol=1e-4, atol=1e-5)
    (loss, _), (wanted, _) = (t.evaluate(INPUTS, TARGETS) for t in (ours, plain))
    assert loss is not None
    assert wanted is not None
    np.testing.assert_allclose(loss, wanted, rtol=1e-4)


def convolved(images: str, kernel: str, layers: int) -> IRModule:
    """Blocks of a convolution and a batch norm each, whose statistics are states."""
    vector = 'R.Tensor((4,), "float32")'
    params = [f"w{i}: {kernel}, b{i}: {vector}" for i in range(layers)]
    states = [f"m{i}: {vector}, v{i}: {vector}" for i in range(layers)]
    lines = ["h0 = R.sin(x)"]
    for i in range(layers):
        lines += [
            f"a{i} = R.nn.conv2d(h{i}, w{i}, padding=1)",
            f"n{i} = R.nn.batch_norm(a{i}, b{i}, b{i}, m{i}, v{i}, axis=1)",
            f"h{i + 1} = R.add(h{i}, R.nn.relu(n{i}[0]))",
            f"m{i}_new = n{i}[1]",
            f"v{i}_new = n{i}[2]",
        ]
    new = [f"m{i}_new, v{i}_new" for i in range(layers)]
    lines += [f"out = R.mean(h{layers}, axis=[2, 3])", f"return {', '.join(['out', *new])}"]
    signature = ", ".join([f"x: {images}", *params, *states])
    return parse_backbone("\n".join(lines), signature, param_num=2 * layers, state_num=2 * layers)


def test_blocks_of_convolutions_are_rolled() -> None:
    """With kernels that lie as a step reads them, and statistics of each block."""
    images, kernel = 'R.Tensor((2, 4, 9, 9), "float32")', 'R.Tensor((4, 4, 3, 3), "float32")'
    types = [TensorType((2, 4), "float32")] * 2
    trainers = {}
    for roll in (True, False):
        mod = SetupTrainer(MSELoss(), Adam(0.01), types, roll_blocks=roll)(
            convolved(images, kernel, layers=3)
        )
        assert has_loop(mod, "backbone_loss_adjoint") == roll
        trainers[roll] = trainer_of(build(mod))
    rng = np.random.default_rng(1)
    data, wanted = (rng.normal(size=s).astype("float32") for s in ((2, 4, 9, 9), (2, 4)))
    for trainer in trainers.values():
        trainer.update(data, wanted)
        trainer.update(data, wanted)
    assert_same(trainers[True], trainers[False])
    ours, plain = (trainer.predict(data) for trainer in trainers.values())
    np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5)


def calls_of(mod: IRModule, name: str) -> Sequence[Call]:
    return [expr for expr in post_order(mod[name]) if isinstance(expr, Call)]


def test_running_statistics_of_layers() -> None:
    mod = backbone(normed, has_states=True)
    rolled = set_up(mod, True)
    assert has_loop(rolled, "backbone_loss_adjoint")
    assert_same(trained(rolled), trained(set_up(mod, False)))


def test_layers_that_draw_draw_the_same_in_a_loop() -> None:
    """Each has a random key of its own, by its number."""
    mod = backbone(dropped)
    rolled = set_up(mod, True)
    assert has_loop(rolled, "backbone_loss_adjoint")
    assert_same(trained(rolled), trained(set_up(mod, False)))


def test_half_precision_and_a_scaled_loss() -> None:
    mod = backbone(residual, dtype="float16")
    modules = (set_up(mod, roll, SGD(0.1), loss_scale="dynamic") for roll in (True, False))
    both = [trained(module, dtype="float16") for module in modules]
    found, wanted = (trainer.export_params() for trainer in both)
    for name, array in found.items():
        np.testing.assert_allclose(array, wanted[name], rtol=5e-3, atol=5e-3)


def test_functions_take_stacks_and_the_module_tells_where_parameters_are() -> None:
    rolled = usual(True).mod
    names = [param.name for param in rolled["backbone_loss_adjoint"].params]
    assert names == ["x", "w0_stack", "b0_stack", "head", "targets"]
    assert rolled.attrs["param_num"] == 3
    places = list(map(dict, rolled.attrs["stored_params"]))
    assert places[:3] == [
        {"name": "w0", "array": 0, "row": 0},
        {"name": "b0", "array": 1, "row": 0},
        {"name": "w1", "array": 0, "row": 1},
    ]
    assert places[-1] == {"name": "head", "array": 2}


def test_few_layers_are_rolled_only_where_it_is_asked_for() -> None:
    mod = backbone(residual)
    rolled, plain = (set_up(mod, roll, legalize=False) for roll in ("auto", False))
    assert_structural_equal(rolled, plain)


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="must be True, False or \"auto\", found 'always'"):
        set_up(backbone(residual), "always")


def test_files_are_the_same(tmp_path: Path) -> None:
    ours, plain = trained(usual(True)), trained(usual(False))
    ours.save(tmp_path / "rolled")
    plain.load(tmp_path / "rolled")
    assert_same(ours, plain)
    plain.update(INPUTS, TARGETS)
    plain.save(tmp_path / "plain")
    ours.load(tmp_path / "plain")
    assert_same(ours, plain)


def test_parameters_are_loaded_by_name_before_all_of_them_have_a_value() -> None:
    built = usual(True)
    trainer = Trainer(built.mod, VirtualMachine(built), zero_init_param_state=False)
    values = trainer_of(built).export_params()
    assert list(values)[:3] == ["w0", "b0", "w1"]
    trainer.load_params({"w1": values["w1"]})
    with pytest.raises(RuntimeError, match="0-th parameter is not initialized"):
        trainer.update(INPUTS, TARGETS)
    trainer.load_params({name: value for name, value in values.items() if name != "w1"})
    assert_same(trainer, trainer_of(built))


def test_a_trainer_is_made_of_its_file_alone(tmp_path: Path) -> None:
    trainer = trained(usual(True))
    trainer.save(tmp_path / "model.safetensors")
    again = load_trainer(tmp_path / "model.safetensors")
    assert_same(again, trainer)
    assert float(again.update(INPUTS, TARGETS)) == float(trainer.update(INPUTS, TARGETS))
    assert_same(again, trainer)


def test_an_exported_training_runs_alone(tmp_path: Path) -> None:
    trainer = trained(usual(True))
    assert_runs_alone(trainer, tmp_path, INPUTS, TARGETS)
    again = trainer_of(usual(False))
    again.load(tmp_path / "state.safetensors")
    assert_same(again, trainer)


def test_a_memory_budget_beside_it() -> None:
    rolled = trained(set_up(backbone(residual), True, memory_policy="free"))
    assert_same(rolled, trained(usual(False)))
