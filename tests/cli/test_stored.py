"""Arrays that stay in their files: read by rows, looked at in parts by several processes."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from relaxjax.cli import stored
from relaxjax.cli.failure import InputError
from relaxjax.cli.stored import Stored, agree_on, content, npy_folder, safetensors, told_to_all
from relaxjax.cli.train_batches import epochs_of, evaluated_of
from relaxjax.cli.train_data import held_out, read_examples, to_run_on
from relaxjax.ir import SymbolicVar, TensorType
from relaxjax.training.devices import processes
from relaxjax.training.devices.processes import Conversation, ProcessesError

WANTED = TensorType((SymbolicVar("n"), 6), "float32")


def write(folder: Path, **arrays: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def drawn(rows: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 2, 3)), rng.integers(0, 5, rows)


def as_folder(place: Path, arrays: dict[str, Any]) -> Path:
    return write(place / "data", **arrays)


def as_safetensors(place: Path, arrays: dict[str, Any]) -> Path:
    save_file(arrays, place / "data.safetensors", {"made": "by a test"})
    return place / "data.safetensors"


@pytest.mark.parametrize("saved", [as_folder, as_safetensors])
def test_what_is_read_by_rows_is_what_is_read_whole(
    saved: Callable[[Path, dict[str, Any]], Path], tmp_path: Path
) -> None:
    x, y = drawn()
    np.savez(tmp_path / "data.npz", x=x, y=y)
    path = saved(tmp_path, {"x": x, "y": y})
    whole, lazy = (
        held_out(read_examples(str(one), WANTED), 0.25, 3) for one in (tmp_path / "data.npz", path)
    )
    assert isinstance(lazy.x, Stored)
    assert isinstance(lazy.y_test, Stored)
    rows = slice(2, 4)
    for number in range(2):
        expected, found = (epochs_of(one, 4, 5, rows)(number) for one in (whole, lazy))
        assert len(expected) == len(found) == 7
        assert_equal(found, expected)
    assert_equal(evaluated_of(lazy, 4)(0), evaluated_of(whole, 4))


def assert_equal(found: Any, expected: Any) -> None:
    pairs = list(zip(found, expected, strict=True))
    assert pairs
    for batch, other in pairs:
        for array, wanted in zip(batch, other, strict=True):
            assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_array_equal(array, wanted)


def test_no_more_is_held_than_what_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "_BLOCK", 2**16)
    count, width = 2**16, 96
    write(tmp_path, y=np.zeros(count, "int32"))
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.dtype("float32"), (count, width))
    x.flush()
    tracemalloc.start()
    wanted = TensorType((SymbolicVar("n"), width), "float32")
    examples = held_out(read_examples(str(tmp_path), wanted), 0.5, 0)
    content(examples.x)
    for batch, _ in zip(epochs_of(examples, 64, 0, slice(0, 8))(0), range(10), strict=False):
        assert batch[0].shape == (8, width)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 8  # some orders of the rows, of 8 bytes each


def test_dtypes_of_safetensors(tmp_path: Path) -> None:
    arrays = {
        "x": np.arange(6).reshape(3, 2).astype(ml_dtypes.bfloat16),
        "y": np.array([True, False, True]),
        "none": np.zeros((0, 2), "float16"),
    }
    found = safetensors(as_safetensors(tmp_path, arrays))
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[0.0] * 6] * 3 + [[np.nan] * 6], [0] * 4, r"`x\[3\]` holds nan, which is not finite"),
        ([[0.0] * 6] * 4, [0, 1, 2, 2**40], "`y` holds 1099511627776, which is no integer of 32"),
        ([[0.0] * 6] * 4, ["a"] * 4, "`y` must hold real numbers, but it holds <U1"),
        ([[0.0] * 5] * 4, [0] * 4, r"the model takes examples of shape \(6,\), but those of"),
        (
            np.zeros((4, 6), "V2"),
            [0] * 4,
            r"it holds \|V2, as .npy and .npz files do of bfloat16: save",
        ),
        ([[0.0] * 6] * 4, [0] * 3, "there are 4 examples in `x`, but 3 targets in `y`"),
    ],
)
def test_what_is_wrong_in_a_file(
    x: Any, y: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever block it is in."""
    monkeypatch.setattr(stored, "_BLOCK", 64)
    with pytest.raises(InputError, match=message):
        read_examples(str(write(tmp_path, x=np.array(x), y=np.array(y))), WANTED)


@pytest.mark.parametrize(
    ("length", "targets", "message"),
    [
        (
            6,
            np.zeros((4, 3)),
            r"in `y` is of shape \(\), and one in `y_test` of shape \(3,\): give",
        ),
        (6, np.zeros((4, 2)), r"in `y` is of shape \(\), and one in `y_test` of shape \(2,\)"),
        (6, np.zeros(4), None),
    ],
)
def test_targets_to_evaluate_on_are_like_the_others(
    length: int, targets: Any, message: str | None, tmp_path: Path
) -> None:
    x = np.zeros((4, length))
    folder = write(tmp_path, x=x, y=np.zeros(4), x_test=x, y_test=targets)
    if message is None:
        assert read_examples(str(folder), WANTED).y_test is not None
        return
    with pytest.raises(InputError, match=message):
        read_examples(str(folder), WANTED)


def test_rows_to_evaluate_on_may_be_longer(tmp_path: Path) -> None:
    ids, longer = np.zeros((4, 6), "int32"), np.zeros((4, 9), "int32")
    folder = write(tmp_path, x=ids, y=ids, x_test=longer, y_test=longer)
    wanted = TensorType((SymbolicVar("n"), SymbolicVar("m")), "int32")
    found = read_examples(str(folder), wanted)
    assert found.y_test is not None
    assert found.y_test.shape == (4, 9)


def test_a_folder_of_other_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="` is no data, it holds nothing: give one of\ndigits"):
        read_examples(str(tmp_path), WANTED)
    for name in "abcdefg":
        (tmp_path / f"{name}.csv").touch()
    with pytest.raises(InputError, match=r"it holds `a\.csv`, .*, `e\.csv` and 2 more: give one"):
        read_examples(str(tmp_path), WANTED)


@pytest.mark.parametrize("read", [read_examples, to_run_on])
@pytest.mark.parametrize(
    ("other", "meant"), [("X_test", "x_test"), ("ytest", "y_test"), ("test_y", "y_test")]
)
def test_a_name_that_is_almost_one_of_those_read(
    read: Any, other: str, meant: str, tmp_path: Path
) -> None:
    folder = write(tmp_path, x=np.zeros((4, 6)), y=np.zeros(4), **{other: np.zeros(4)})
    message = (
        rf"` holds `{other}`, which is not read: only x, y, x_test, y_test are; did you mean "
        rf"`{meant}`.*\? Give it that name, or take it out$"
    )
    with pytest.raises(InputError, match=message):
        read(str(folder), WANTED)


@pytest.mark.parametrize("read", [read_examples, to_run_on])
def test_a_file_of_another_kind_beside_the_arrays(read: Any, tmp_path: Path) -> None:
    folder = write(tmp_path, x=np.zeros((4, 6)), y=np.zeros(4))
    (folder / "README.md").touch()
    (folder / "y.csv").touch()
    assert len(read_examples(str(folder), WANTED).x) == 4
    (folder / "x_test.npz").touch()
    with pytest.raises(InputError, match=r"x_test\.npz` is not read, only files \.npy of a folder"):
        read(str(folder), WANTED)


def test_what_lies_beside_the_examples_is_told(tmp_path: Path) -> None:
    folder = write(
        tmp_path, x=np.zeros((4, 6)), y=np.zeros(4), weights=np.zeros(4), x_val=np.zeros(2)
    )
    found = read_examples(str(folder), WANTED)
    assert found.unread == ("weights", "x_val")
    assert held_out(found, 0.5, 0).unread == found.unread


def test_an_empty_name_is_not_the_folder_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, x=np.zeros((4, 6)), y=np.zeros(4))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="`` is no data: give one of"):
        read_examples("", WANTED)
    with pytest.raises(InputError, match="`` is no data: give one of"):
        to_run_on("", WANTED)


def test_a_folder_without_targets_is_predicted(tmp_path: Path) -> None:
    x, y = to_run_on(str(write(tmp_path, x=np.ones((4, 6)))), WANTED)
    assert (x.shape, y) == ((4, 6), None)


def test_a_damaged_file_and_one_of_other_numbers(tmp_path: Path) -> None:
    write(tmp_path, x=np.zeros(4))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match=r"x\.npy` cannot be read as an \.npy file: "):
        npy_folder(tmp_path)
    (tmp_path / "x.npy").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"as an \.npy file: it is none, by its first bytes$"):
        npy_folder(tmp_path)
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"as an \.npy file: it holds no arrays of numbers$"):
        npy_folder(tmp_path)
    entry = {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}
    header = json.dumps({"x": entry}).encode()
    path = tmp_path / "narrow.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"0")
    with pytest.raises(InputError, match="`x` is of F8_E4M3, which no model takes"):
        safetensors(path)


def test_what_is_called_an_archive_and_is_none(tmp_path: Path) -> None:
    text, single = tmp_path / "text.npz", tmp_path / "single.npz"
    text.write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match=r"as an \.npz file: it is none, by its first bytes$"):
        read_examples(str(text), WANTED)
    with single.open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(InputError, match=r"one of a single array, \.npy: write several by np\.sav"):
        read_examples(str(single), WANTED)


def as_process(patch: pytest.MonkeyPatch, number: int, count: int, others: list[str]) -> list[str]:
    """This becomes one of several processes, of which the others say something; what it says."""
    said: list[str] = []
    patch.setattr(jax, "process_index", lambda: number)
    patch.setattr(jax, "process_count", lambda: count)

    def told(self: Conversation, subject: str, own: str) -> list[str]:
        said.append(own)
        return [*others[:number], own, *others[number:]]

    patch.setattr(Conversation, "told", told)
    return said


def test_each_process_looks_at_its_own_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the data is told by is the same for any number of processes."""
    monkeypatch.setattr(stored, "_BLOCK", 48 * 3)
    x, y = drawn()
    examples = read_examples(str(write(tmp_path, x=x, y=y)), WANTED)
    assert isinstance(examples.x, Stored)
    alone = content(examples.x)
    others = as_process(monkeypatch, 1, 2, ["{}"])
    starts = [start for start, _ in examples.x.blocks()]
    assert starts == list(range(3, 40, 6))
    content(examples.x)
    as_process(monkeypatch, 0, 2, others)
    assert [start for start, _ in examples.x.blocks()] == list(range(0, 40, 6))
    assert content(examples.x) == alone
    x[39] = 0.5
    changed = read_examples(str(write(tmp_path / "other", x=x, y=y)), WANTED)
    as_process(monkeypatch, 0, 1, [])
    assert content(changed.x) != alone


def test_what_one_process_finds_is_an_error_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    said = as_process(monkeypatch, 0, 2, ["`x[9]` is NaN"])
    with pytest.raises(InputError, match="is NaN"), told_to_all("the data"):
        pass
    as_process(monkeypatch, 0, 2, [""])
    with pytest.raises(InputError, match="no file"), told_to_all("the data"):
        raise InputError("no file")
    with told_to_all("the data"):
        pass
    assert said == [""]


def test_files_that_differ_between_processes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = "`x` float32[24, 6]"
    as_process(monkeypatch, 0, 2, [theirs])
    match = (
        r"the processes differ in the data `d`: process 0 has `x` float32\[32, 6\], process 1 has "
        r"`x` float32\[24, 6\]: give each of them the same files"
    )
    with pytest.raises(ProcessesError, match=match):
        agree_on("d", {"x": np.zeros((32, 6), "float32"), "x_test": None})
    assert processes.is_first()
