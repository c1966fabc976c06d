"""What passes made is kept on disk: the next process that asks for the same finds it there."""

import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import relaxjax
from relaxjax import Trainer, VirtualMachine, build, from_source, op
from relaxjax.autodiff import backward
from relaxjax.ir import Constant, IRModule, TensorType, Var
from relaxjax.ir.op import OPS
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering.cache_folder import VARIABLE
from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.passes import PassContext, SetupTrainer, pass_instrument
from relaxjax.passes.infrastructure import kept_files, kept_results
from relaxjax.passes.training import setup_trainer
from relaxjax.trainable.names import OPTIM_STATE

MODEL = """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 5), "float32"), b: R.Tensor((5,), "float32")
    ):
        with R.dataflow():
            scores = R.nn.relu(R.matmul(x, w) + b)
            R.output(scores)
        return scores
"""
TYPES = [TensorType((4, 5), "float32"), TensorType((4,), "int32")]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, kept_on_disk: Path) -> Iterator[Path]:
    monkeypatch.setattr(kept_results, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(backward, "_KEPT", {})
    yield kept_on_disk / "programs"
    jax.config.update("jax_compilation_cache_dir", None)  # a trainer sets it
    reset_cache()


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.program"))


def trainable(text: str = MODEL, optimizer: Any = None, **options: Any) -> IRModule:
    setup = SetupTrainer(CrossEntropyLoss(), optimizer or Adam(0.1), TYPES, **options)
    return setup(from_source(text))


def told(mod: IRModule) -> Any:
    """All that a module says, and the bytes of its constants."""
    states = [(state.data.dtype, state.data.tobytes()) for state in mod.attrs[OPTIM_STATE]]
    return kept_results.text_of(mod), states, list(mod.attrs)


@pytest.mark.parametrize(
    "optimizer", [Adam(0.1), from_optax(optax.adamw(0.1))], ids=["own", "optax"]
)
def test_the_second_process_runs_no_pass_of_the_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch, optimizer: Any
) -> None:
    first = trainable(optimizer=optimizer)
    assert len(kept(folder)) == 1
    monkeypatch.setattr(setup_trainer, "step_passes", lambda *_: pytest.fail("it runs passes"))
    assert told(trainable(optimizer=optimizer)) == told(first)


def test_what_is_read_trains_as_what_was_made() -> None:
    losses = []
    for _ in range(2):
        mod = trainable()
        trainer = Trainer(mod, VirtualMachine(build(mod)))
        trainer.xavier_uniform_init_params(seed=1)
        x, labels = np.ones((4, 3), "float32"), np.arange(4, dtype="int32")
        losses.append([float(trainer.update(x, labels)) for _ in range(3)])
    assert losses[0] == losses[1]
    assert losses[0][0] != losses[0][2]


CHANGES: dict[str, Callable[[], Any]] = {
    "another constant": lambda: trainable(MODEL.replace("x, w)", "x, w) * 2.0")),
    "another name": lambda: trainable(MODEL.replace("scores", "logits")),
    "another line": lambda: trainable("\n" + MODEL),
    "another number of the optimizer": lambda: trainable(optimizer=Adam(0.2)),
    "another optimizer": lambda: trainable(optimizer=SGD(0.1)),
    "one of optax": lambda: trainable(optimizer=from_optax(optax.sgd(0.1))),
    "a scaled loss": lambda: trainable(loss_scale=8.0),
    "images as they are": lambda: trainable(channels_last=False),
    "a policy": lambda: trainable(memory_policy="free"),
    "another loss": lambda: SetupTrainer(CrossEntropyLoss("sum"), Adam(0.1), TYPES)(
        from_source(MODEL)
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_has_a_file_of_its_own(name: str, folder: Path) -> None:
    trainable()
    CHANGES[name]()
    assert len(kept(folder)) == 2


def test_numbers_of_an_optimizer_of_optax_count(folder: Path) -> None:
    for rate in (0.1, 0.2):
        trainable(optimizer=from_optax(optax.sgd(rate)))
    assert len(kept(folder)) == 2


@contextmanager
def _patched(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_files, name, lambda: "another one")
        yield


@contextmanager
def _compiled_otherwise() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--xla_another=true")
        yield


SETTINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "versions": lambda: _patched("versions"),
    "code": lambda: _patched("code"),
    "platform": lambda: _patched("chosen_platform"),
    "flags of XLA": _compiled_otherwise,
    "64 bits": lambda: jax.enable_x64(True),
    "precision": lambda: jax.default_matmul_precision("highest"),
    "random numbers": lambda: jax.threefry_partitionable(False),
    "passes": lambda: PassContext(disabled_pass=["FoldConstant"]),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_count(name: str, folder: Path) -> None:
    mod = from_source(MODEL)
    found = []
    for setting in (nullcontext, SETTINGS[name], nullcontext):
        with setting():
            found.append(kept_results._path(mod, lambda: "options"))
    assert found[0] == found[2] != found[1]


def test_a_checkout_that_is_not_installed_has_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    installed = kept_files.settings()
    monkeypatch.setattr(kept_files, "version", missing)
    assert kept_files.settings()[1:] == installed[1:]


def test_the_code_counts_whatever_its_time_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package").mkdir()
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path / "package")]})
    monkeypatch.setattr(kept_files, "find_spec", lambda _: spec)
    found = []
    for text in ("x = 1", "x = 2"):
        (tmp_path / "package" / "one.py").write_text(text)
        found.append(kept_files.code.__wrapped__())
    (tmp_path / "package" / "one.py").unlink()
    assert len({*found, kept_files.code.__wrapped__(), ""}) == 3


def _whole(content: bytes) -> bytes:
    return b"relaxjax kept program 2 " + sha256(content).hexdigest().encode() + b"\n" + content


NO_PROGRAMS = {
    "nothing": b"",
    "no pickle": _whole(b"{"),
    "another node": _whole(pickle.dumps(Var("x", TensorType((2,), "float32")))),
    "another function": _whole(pickle.dumps(os.getcwd)),
}


@pytest.mark.parametrize("name", [*NO_PROGRAMS, "a byte changed", "cut off"])
def test_a_file_that_is_no_program_is_told_and_written_anew(name: str, folder: Path) -> None:
    first = trainable()
    (path,) = kept(folder)
    good = path.read_bytes()
    damaged = {"a byte changed": good.replace(b"scores", b"scared", 1), "cut off": good[:-9]}
    path.write_bytes({**NO_PROGRAMS, **damaged}[name])
    with pytest.warns(UserWarning, match="holds no program that can be read, so that it is made"):
        second = trainable()
    assert told(second) == told(first)
    assert path.read_bytes() == good


def test_what_a_function_of_the_users_has_a_part_in_is_not_kept(folder: Path) -> None:
    @op("relax.mine.kept", lower=lambda data: data * 2, gradient=lambda g, y, data: g * 2.0)
    def doubled(data: TensorType) -> TensorType:
        """Twice the data."""
        return data

    text = MODEL.replace("R.nn.relu(", "R.mine.kept(")
    try:
        trainable(text, memory_policy="none")
    finally:
        OPS.pop("relax.mine.kept")
    assert not kept(folder)


def test_a_result_that_holds_a_function_is_not_kept(folder: Path) -> None:
    folder.mkdir(parents=True)
    kept_results._write(folder / "one.program", from_source(MODEL).with_attr("by", len), "")
    assert not kept(folder)


def test_what_is_watched_is_made(folder: Path) -> None:
    seen: list[str] = []

    @pass_instrument
    class Watch:
        def run_before_pass(self, mod: IRModule, info: Any) -> None:
            seen.append(info.name)

    trainable()
    with PassContext(instruments=[Watch()]):
        trainable()
    assert "LegalizeOps" in seen


def test_what_is_made_quickly_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_results, "LEAST_SECONDS", 1e9)
    trainable()
    assert not kept(folder)


def test_nothing_is_kept_where_nothing_may_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    trainable()
    assert not folder.exists()


def test_programs_of_many_numbers_are_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_results, "MOST_CONSTANTS", 3)
    trainable(MODEL.replace("x, w)", "x, w) * 2.0"))
    assert not kept(folder)


def test_the_files_that_were_used_longest_ago_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainable()
    (last,) = kept(folder)
    size = last.stat().st_size
    for number in range(4):
        (folder / f"{number}.program").write_bytes(bytes(size))
        os.utime(folder / f"{number}.program", (number, number))
    os.utime(last, (0, 0))
    trainable()  # is used again
    monkeypatch.setattr(kept_files, "MOST_BYTES", 3 * size)
    kept_files.make_room(folder, ".program")
    assert {path.name for path in kept(folder)} == {last.name, "2.program", "3.program"}


def test_states_that_do_not_begin_as_zeros_stay_as_they_are(folder: Path) -> None:
    zeros = Constant(np.array([0.0, 0.0], "float32"))
    others = Constant(np.array([0.0, -0.0], "float32")), Constant(np.ones((), "float32"))
    short = kept_results._without_zeros(IRModule({}, {OPTIM_STATE: (zeros, *others)}), OPTIM_STATE)
    assert [isinstance(one, Constant) for one in short.attrs[OPTIM_STATE]] == [False, True, True]
    again = kept_results._with_zeros(short, OPTIM_STATE)
    for one, other in zip(again.attrs[OPTIM_STATE], (zeros, *others), strict=True):
        assert one.data.tobytes() == other.data.tobytes()
        assert one.ty == other.ty


def test_a_gradient_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(w: Any, x: Any) -> Any:
        return (jnp.tanh(x @ w) ** 2).sum()

    arrays = jnp.ones((3, 2)), jnp.ones((4, 3))
    first = relaxjax.value_and_grad(loss)(*arrays)
    assert len(kept(folder)) == 1
    monkeypatch.setattr(backward, "_KEPT", {})
    monkeypatch.setattr(backward, "written", lambda *_: pytest.fail("it is written"))
    second = relaxjax.value_and_grad(loss)(*arrays)
    np.testing.assert_array_equal(first[1], second[1])


def test_many_may_write_at_once(folder: Path) -> None:
    """Each writes the whole file, under another name first."""
    made = trainable()
    (path,) = kept(folder)
    good = path.read_bytes()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(12):
            pool.submit(kept_results._write, path, made, OPTIM_STATE)
    assert path.read_bytes() == good
    assert kept(folder) == [path]
