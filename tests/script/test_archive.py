"""Archives: everything comes back, nothing is executed, and damaged files are refused."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from parsing import parse_module
from strategies import modules

from relaxjax.ir import IRModule, TensorType, assert_structural_equal
from relaxjax.ir.expr import Constant, np_dtype
from relaxjax.script import ArchiveError, load_archive, program_file, save_archive

MOD = parse_module("""
@I.ir_module
class Module:
    I.module_attrs({"param_num": 2})

    @R.function
    def main(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        y = R.add(x, R.const([1, 2, 3], "float32"))
        return y
""")
PARAMS: dict[str, Any] = {"w": np.arange(6, dtype="float32").reshape(2, 3), "b": np.float32(2)}
DTYPES = [
    *("bool", "int4", "int8", "uint8", "int32", "int64", "uint64", "float16", "bfloat16"),
    *("float8_e4m3fn", "float8_e5m2", "float32", "float64", "complex64", "complex128"),
]


def check(loaded: tuple[IRModule, dict[str, Any]], mod: IRModule, params: dict[str, Any]) -> None:
    assert_structural_equal(loaded[0], mod)
    assert loaded[1].keys() == params.keys()
    for name, value in params.items():
        found = loaded[1][name]
        assert (found.dtype, found.shape) == (value.dtype, value.shape)
        assert found.tobytes() == np.asarray(value).tobytes()


def test_a_module_and_its_parameters_come_back(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_archive(MOD, path, PARAMS)
    check(load_archive(path), MOD, PARAMS)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_a_module_without_parameters(tmp_path: Path) -> None:
    save_archive(MOD, tmp_path / "model")
    check(load_archive(tmp_path / "model"), MOD, {})


@given(modules())
@settings(max_examples=20)
def test_every_module_comes_back(tmp_path_factory: pytest.TempPathFactory, mod: IRModule) -> None:
    path = tmp_path_factory.mktemp("archive") / "model"
    save_archive(mod, path)
    check(load_archive(path), mod, {})


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_as_parameter_and_as_constant(dtype: str, tmp_path: Path) -> None:
    array = np.arange(24).reshape(2, 12).astype(np_dtype(dtype))
    mod = MOD.with_attr("table", Constant(array))
    params = {"matrix": array, "scalar": array[1, 2:3].reshape(()), "empty": array[:, :0]}
    save_archive(mod, tmp_path / "model", params)
    check(load_archive(tmp_path / "model"), mod, params)


def test_the_order_of_elements_in_memory_does_not_matter(tmp_path: Path) -> None:
    params = {"w": np.asfortranarray(PARAMS["w"]), "v": np.arange(12.0)[::2]}
    save_archive(MOD, tmp_path / "model", params)
    check(load_archive(tmp_path / "model"), MOD, params)


def test_big_constants_stand_beside_the_script(tmp_path: Path) -> None:
    """The header of a safetensors file may hold 100 MB only."""
    data = np.arange(1000, dtype="float32")
    save_archive(MOD.with_attr("table", Constant(data)), tmp_path / "model")
    assert safetensors.numpy.load_file(tmp_path / "model")["constants/0"].tolist() == data.tolist()
    with safetensors.safe_open(tmp_path / "model", "numpy") as file:
        assert len(file.metadata()["script"]) < 500


def test_only_modules_and_arrays_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="an archive takes an IRModule, found Function"):
        save_archive(MOD["main"], tmp_path / "model")
    with pytest.raises(TypeError, match="the parameter `w` must be an array, found list"):
        save_archive(MOD, tmp_path / "model", {"w": [1.0, 2.0]})
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("value", [{1, 2}, range(3), jnp.ones(2), print, MOD["main"], object()])
def test_an_attribute_that_no_text_holds_is_refused_before_it_is_lost(
    value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "module.safetensors"
    kept = {"a": (1, 2.5, None, b"x", 1j, {"b": "text", "c": TensorType((2,), "float32")})}
    save_archive(MOD.with_attrs(kept), path)
    assert_structural_equal(load_archive(path)[0], MOD.with_attrs(kept))
    marked = MOD.with_function("main", MOD["main"].with_attr("mine", value))
    for mod, owner in ((MOD.with_attr("a", [{"b": value}]), "module"), (marked, "function `main`")):
        match = f"(?s)the attribute `.*` of the {owner} cannot be saved: .* of type .* is no number"
        with pytest.raises(TypeError, match=match):
            save_archive(mod, path)
    assert_structural_equal(load_archive(path)[0], MOD.with_attrs(kept))


def test_a_script_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_archive(MOD, tmp_path / "model")
    monkeypatch.setattr(program_file, "MOST_SCRIPT", 100)
    match = r"script of the module has \d+ characters, but the most"
    with pytest.raises(ArchiveError, match=match):
        save_archive(MOD, tmp_path / "other")
    with pytest.raises(ArchiveError, match=r"model` is damaged: its script is too long"):
        load_archive(tmp_path / "model")


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "model"
    save_archive(MOD, path, PARAMS)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ArchiveError, match=r"model` is damaged or no safetensors file: "):
        load_archive(path)


def test_bytes_of_any_kind_are_an_error_of_the_archive(tmp_path: Path) -> None:
    """Every byte of the header is changed in turn."""
    path = tmp_path / "model"
    save_archive(MOD, path, PARAMS)
    content = path.read_bytes()
    for place in range(0, 8 + struct.unpack("<Q", content[:8])[0], 7):
        path.write_bytes(content[:place] + b"\x7f" + content[place + 1 :])
        try:
            load_archive(path)
        except ArchiveError:
            continue


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    safetensors.numpy.save_file({"w": PARAMS["w"]}, path)
    match = r"weights` is no archive: its format is None, expected 'relaxjax archive 1'"
    with pytest.raises(ArchiveError, match=match):
        load_archive(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_archive(tmp_path / "nowhere")


def forged(path: Path, script: str, arrays: dict[str, Any] | None = None, **header: str) -> Path:
    """A file whose header says what it likes."""
    metadata = {"format": "relaxjax archive 1", "script": script, **header}
    path.write_bytes(safetensors.numpy.save(arrays or {}, metadata))
    return path


def test_a_script_is_not_executed(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    script = f"open({str(trap)!r}, 'w').close()\n{MOD.script()}"
    with pytest.raises(ArchiveError, match=r"script cannot be read: .* nothing that the printed"):
        load_archive(forged(tmp_path / "model", script))
    assert not trap.exists()


@pytest.mark.parametrize(
    "expression", ["9**9**9", "sum(range(1000000000000))", "[0] * 10000000000", "(" * 9999]
)
def test_a_script_sets_python_to_no_work(expression: str, tmp_path: Path) -> None:
    script = str(MOD.script()).replace("R.const([1.0, 2.0, 3.0]", f"R.const({expression}")
    assert expression in script
    with pytest.raises(ArchiveError, match="model` is damaged: its script cannot be read"):
        load_archive(forged(tmp_path / "model", script))


def test_a_script_of_a_function_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="its script cannot be read"):
        load_archive(forged(tmp_path / "model", str(MOD["main"].script())))


def test_constants_that_are_missing(tmp_path: Path) -> None:
    script = str(MOD.script()).replace("R.const([1.0, 2.0, 3.0]", 'metadata["ir.GenericConst"][3]')
    with pytest.raises(ArchiveError, match="its script cannot be read"):
        load_archive(forged(tmp_path / "model", script))


@pytest.mark.parametrize("name", ["extra", "constants/7"])
def test_arrays_that_nobody_asked_for(name: str, tmp_path: Path) -> None:
    path = forged(tmp_path / "model", str(MOD.script()), {name: PARAMS["w"]})
    with pytest.raises(ArchiveError, match=rf"is damaged: an archive has no array `{name}`"):
        load_archive(path)


@pytest.mark.parametrize(
    "types",
    [
        *("{", "[]x", "7", "{}" * 2, "[" * 99999, '{"params/w": 3}', '{"other": ["int4", [1]]}'),
        json.dumps({"params/w": ["int4", [10**9, 10**9]]}),
        json.dumps({"params/w": ["object", [3]]}),
        json.dumps({"params/w": ["float33", [3]]}),
        json.dumps({"params/w": ["int64", [-1, 5]]}),
    ],
)
def test_types_that_do_not_fit_their_bytes(types: str, tmp_path: Path) -> None:
    arrays = {"params/w": np.zeros(24, "uint8")}
    path = forged(tmp_path / "model", str(MOD.script()), arrays, types=types)
    with pytest.raises(ArchiveError, match="is damaged: its header is wrong"):
        load_archive(path)


def test_a_header_without_a_script(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(safetensors.numpy.save({}, {"format": "relaxjax archive 1"}))
    with pytest.raises(ArchiveError, match="its header is wrong: KeyError"):
        load_archive(path)


def test_narrow_dtypes_are_kept_as_bytes(tmp_path: Path) -> None:
    """Whoever reads the file without this package finds the bytes, and the dtype in the header."""
    save_archive(MOD, tmp_path / "model", {"w": np.ones((2, 3), ml_dtypes.int4)})
    assert safetensors.numpy.load_file(tmp_path / "model")["params/w"].dtype == np.uint8
    with safetensors.safe_open(tmp_path / "model", "numpy") as file:
        assert json.loads(file.metadata()["types"]) == {"params/w": ["int4", [2, 3]]}
