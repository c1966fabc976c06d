"""`relaxjax plan`: what fits on devices that are not here, and the command to train by."""

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from relaxjax.cli import main, plan
from relaxjax.cli.parser import parsed
from relaxjax.ir import printer
from relaxjax.training.devices.device_plan import Candidate
from relaxjax.training.devices.step_counts import StepCounts

SCRIPT = """
@R.function
def backbone(
    x: R.Tensor((256, 8), "float32"),
    w0: R.Tensor((8, 256), "float32"),
    w1: R.Tensor((256, 4), "float32"),
):
    with R.dataflow():
        out = R.matmul(R.tanh(R.matmul(x, w0)), w1)
        R.output(out)
    return out
"""
Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def compiled_at_once(monkeypatch: Patch) -> None:
    """Have counts that follow from the mesh, without a process that compiles."""

    def counts(_: object, wanted: Sequence[Candidate]) -> list[StepCounts]:
        return [
            StepCounts(
                held=0,
                temporary=32000 // one.mesh["data"],
                exchanges={("all-reduce", ("data",)): 3072.0 * one.mesh.get("model", 1)},
                flops=8000,
                moved=4000,
            )
            for one in wanted
        ]

    monkeypatch.setattr(plan, "_compiled", counts)


def test_the_fastest_that_fits_comes_first_with_its_command(
    script: str, capsys: Capture, monkeypatch: Patch
) -> None:
    compiled_at_once(monkeypatch)
    line = ["plan", script, "--devices", "128", "--hardware", "h100", "--memory", "10KB"]
    line += ["--sharding", "fsdp", "--sharding", "data", "--sharding", "w0=-,model;w1=model"]
    assert main([*line, "--policy", "none", "--compile", "1", "--loss", "mse"]) == 0
    titles, *rows, empty, last = capsys.readouterr().out.splitlines()
    assert titles.split()[:3] == ["mesh", "sharding", "policy"]
    assert len(rows) == 6
    assert rows[0].split()[:3] == ["data=128", "fsdp", "none"]
    assert rows[0].endswith("compiled")
    assert all(row.endswith("predicted, not run") for row in rows[1:])
    assert "too many" in rows[-1]
    assert empty == ""
    command = last.partition("the fastest that fits: ")[2].split()
    assert parsed(command[1:]).mesh == {"data": 128}
    assert command[-6:] == ["--mesh", "data=128", "--sharding", "fsdp", "--policy", "none"]


def test_several_numbers_of_devices_make_one_table(
    script: str, capsys: Capture, monkeypatch: Patch
) -> None:
    """What is compiled for the largest of them serves the others; few are compiled themselves."""
    compiled_at_once(monkeypatch)
    line = ["plan", script, "--devices", "256,64,64,128", "--hardware", "h100", "--policy", "none"]
    assert main([*line, "--sharding", "fsdp", "--compile", "1", "--loss", "mse", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sorted(row["mesh"]["data"] for row in rows) == [64, 128, 256]
    by_number = {row["mesh"]["data"]: row["how"] for row in rows}
    assert by_number[64] == "compiled"
    assert sorted([by_number[128], by_number[256]]) == ["compiled", "predicted, not run"]
    assert all(row["limit"] in ("computing", "memory", "exchanges") for row in rows)


def test_where_nothing_fits_the_least_is_named(
    script: str, capsys: Capture, monkeypatch: Patch
) -> None:
    compiled_at_once(monkeypatch)
    line = ["plan", script, "--devices", "128", "--hardware", "h100", "--memory", "100B"]
    line += ["--compile", "0"]
    assert main([*line, "--policy", "free", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["sharding"], row["fits"]) for row in rows] == [("fsdp", False), ("data", False)]
    assert rows[1]["bytes"] > rows[0]["bytes"] > 100
    assert main([*line, "--policy", "free"]) == 1
    assert "nothing fits into 100 B: the least is " in capsys.readouterr().out


def test_a_process_of_its_own_compiles_for_virtual_devices(script: str, capsys: Capture) -> None:
    line = ["plan", script, "--devices", "4", "--hardware", "a100", "--sharding", "fsdp"]
    assert main([*line, "--policy", "none", "--compile", "0", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    # Parameters and two states of Adam, a quarter each, their counter, the batch, and temporaries.
    held = 3 * (8 * 256 + 256 * 4) * 4 // 4 + 4 + (256 * 8 + 256) * 4 // 4
    assert held < row["bytes"] < held + 256 * 1024
    assert row["flops"] > 2 * 256 * (2 * 8 * 256 + 3 * 256 * 4)
    assert row["predicted_bytes"] == row["bytes"]
    assert row["how"] == "compiled"


def test_candidates_are_told_apart_without_their_first_states(
    script: str, capsys: Capture, monkeypatch: Patch
) -> None:
    """These have more numbers than the model: as text, a model of some size would never end."""
    written: list[object] = []
    counted: list[object] = []

    def counts(mod: object, sizes: object) -> StepCounts:
        counted.append(sizes)
        return StepCounts(held=len(counted), temporary=0, exchanges={}, flops=1, moved=1)

    monkeypatch.setattr(printer, "write_tensors", written.append)
    monkeypatch.setattr(plan, "counted", counts)
    line = ["plan", script, "--devices", "128", "--hardware", "h100", "--policy", "none"]
    monkeypatch.setattr(sys, "argv", ["", *line])
    few, more = {"data": 2}, {"data": 4}
    listed = [[few, "fsdp", "none"], [more, "fsdp", "none"], [few, "fsdp", "none"]]
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(listed)))
    plan.probe()
    assert [one["held"] for one in json.loads(capsys.readouterr().out)] == [1, 2, 1]
    assert counted == [few, more]
    assert not written


REFUSED = {
    "--devices 5": "5 devices do not divide a batch of 256 samples: 2, 4, 8, 16, 32, 64, 128, 256",
    "--devices 4,5": "5 devices do not divide a batch of 256 samples: 2, 4, 8, 16, 32, 64, 128",
    "--devices 4 --hardware h10": "there is no hardware `h10`",
    "--devices 4 --batch 16": "the model takes batches of 256, not of 16",
    "--devices 4 --memory lots": "`lots` is no memory budget",
    "--devices 4 --sharding v=model": "the pattern 'v' of `sharding` matches no parameter",
    "--devices 4 --sharding w0=-,-,model": "`w0` is of type",
}


def test_a_model_of_any_batch_is_given_one(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    compiled_at_once(monkeypatch)
    path = tmp_path / "model.py"
    path.write_text(SCRIPT.replace("(256, 8)", '("n", 8)'))
    line = ["plan", str(path), "--devices", "4", "--hardware", "h100", "--policy", "none"]
    assert main([*line, "--sharding", "data"]) == 2
    assert "of any size: give one by --batch" in capsys.readouterr().err
    assert main([*line, "--sharding", "data", "--batch", "64"]) == 0
    assert "--batch 64 --mesh data=4" in capsys.readouterr().out


@pytest.mark.parametrize("options", REFUSED)
def test_what_cannot_be_planned_is_said(options: str, script: str, capsys: Capture) -> None:
    line = ["plan", script, "--hardware", "h100", *options.split()]
    assert main(line) == 2
    assert REFUSED[options] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ("64,x", "must be a number, or several such as 64,512,4096, found 64,x"),
        ("64,0", "must be above zero, found 0"),
    ],
)
def test_what_is_no_number_of_devices(
    devices: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "model.py", "--devices", devices, "--hardware", "h100"])
    assert said in capsys.readouterr().err
