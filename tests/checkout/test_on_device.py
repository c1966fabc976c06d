"""tests/long/on_device.py: it goes on where it was, tells what failed, and its page is true."""

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from full import FULL

sys.path.append(str(Path(__file__).parents[1] / "long"))
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import device_attention  # found by the path above
import device_checks
import device_forms
import on_device
import on_device_report
import table_rows
from device_attention import CASES as ATTENTION
from long_cases import attention
from models import QUICK, prepared
from on_device import Stage

from relaxjax.ops.nn import attending
from relaxjax.ops.nn.accelerated_attention import Gpu
from relaxjax.ops.platform import lowering_for


@pytest.fixture(autouse=True)
def _as_it_was() -> Any:
    yield
    jax.config.update("jax_default_matmul_precision", None)


def stage_of(*names: str, broken: tuple[str, ...] = (), minutes: float = 1) -> Stage:
    def row(name: str, quick: bool) -> dict[str, Any]:
        if name in broken:
            raise ValueError(f"{name} is broken\nin many ways")
        return {"is": name}

    return Stage(minutes, lambda: names, names[:1], row, at_a_time=2)


def test_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What failed is tried again; what is done is not. The file is whole after each item."""
    path = tmp_path / "results.json"
    stages = {"one": stage_of("a", "b", "c", broken=("b",)), "two": stage_of("d", minutes=-1)}
    monkeypatch.setattr(on_device, "STAGES", stages)
    on_device.main(["--json", str(path)])
    found = json.loads(path.read_text())["stages"]
    assert found["one"]["b"]["error"] == "ValueError: b is broken"
    assert (found["one"]["a"]["is"], found["two"]) == ("a", {})
    stages["one"] = stage_of("a", "b", "c", broken=("a", "c"))
    on_device.main(["--json", str(path), "--minutes", "two=1"])
    found = json.loads(path.read_text())["stages"]
    assert [row.get("is") for row in found["one"].values()] == ["a", "b", "c"]
    assert found["two"]["d"]["is"] == "d"


def test_a_file_is_of_one_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"device": "abacus", "stages": {}}')
    with pytest.raises(SystemExit, match="holds results of abacus, and this is"):
        on_device.main(["--json", str(path), "--only", "suite"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("suit=3", "there is no stage `suit`: operators, attention"),
        ("suite", "`suite` names no time"),
    ],
)
def test_times_that_mean_nothing(
    given: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        on_device.main(["--minutes", given])
    assert message in capsys.readouterr().err


def test_operators_and_models_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(device_checks.QUICK_OPERATORS) < set(device_checks.operators())
    row = device_checks.operator_row("relax.sum", True)
    assert row["values"] <= 1
    assert row["gradients"] <= 1
    assert device_checks.model_row("MLP", True)["apart"] < 1e-5
    monkeypatch.setattr(device_checks, "ROUNDINGS", -1)
    with pytest.raises(AssertionError, match=r"results are .* roundings apart"):
        device_checks.operator_row("relax.sum", True)


@pytest.mark.parametrize(
    ("found", "expected", "roundings"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([1.0, 2.0 + 2**-21], [1.0, 2.0], 2),
        ([np.nan, 2.0], [np.nan, 2.0], 0),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([1.0, 2.0], [np.inf, 2.0], np.inf),
    ],
)
def test_numbers_are_apart_by_roundings(found: Any, expected: Any, roundings: float) -> None:
    one, other = np.asarray(found, "float32"), np.asarray(expected, "float32")
    np.testing.assert_equal(device_checks.apart(one, other), roundings)
    assert device_checks.apart(np.asarray([1, 2]), np.asarray([1, 3])) == np.inf


def test_what_is_left_where_numbers_cancel_has_their_roundings() -> None:
    left = np.asarray([2e-16])
    assert device_checks.apart(left + 5e-17, left) < 4
    assert device_checks.apart(left + 1e-12, left) > device_checks.ROUNDINGS


@pytest.mark.parametrize("name", ["relax.linalg.svd", "relax.shape_of"])
def test_vectors_of_any_sign_and_numbers_of_shapes_are_compared(name: str) -> None:
    assert device_checks.operator_row(name, True)["values"] <= 1


def test_half_precision_is_compared_in_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own form stands for cuDNN's, since there is none here."""

    def by_cudnn(_: Any, **attrs: Any) -> Any:
        return partial(attending.attention, bias=None, **attrs, chunked=False)

    name, odd = "7 of 7, heads 4 of 4, x 80, bfloat16, BottomRight", next(iter(ATTENTION))
    monkeypatch.setattr(device_attention, "gpu_here", lambda: Gpu((9, 0), is_tried=True))
    assert device_attention.attention_row(odd, True) == {"by_cudnn": False}
    monkeypatch.setattr(device_attention, "has_program", lambda *_: True)
    monkeypatch.setattr(device_attention, "by_cudnn", by_cudnn)
    row = device_attention.attention_row(name, True)
    assert row["by_cudnn"]
    assert row["same_again"]
    assert 0 < row["apart"] < 2
    monkeypatch.setattr(device_attention, "ROUNDINGS", -1)
    with pytest.raises(AssertionError, match=r"attention is .* roundings apart"):
        device_attention.attention_row(name, True)


def test_long_attention_and_tables_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small sizes: as a device would be asked, but what only a GPU can do is an error."""
    small = attention("causal", 64, heads=1)
    monkeypatch.setitem(device_forms.LONG, "attention: small", small)
    row = device_forms.long_row("attention: small", True)["directions"]
    assert row.keys() == {"forward", "both"}
    monkeypatch.setattr(table_rows, "TURN", 0)
    rows = device_forms.table_row("10000 rows, SGD", True)["rows"]
    assert list(rows) == ["plain", "from_jax", "SetupTrainer", "by hand"]
    assert float(rows["from_jax"]["ratio of temp"]) < 1
    for row_of, name in (
        (device_forms.long_row, next(iter(device_forms.BY_CUDNN))),
        (device_forms.offload_row, device_forms.OFFLOADED[0]),
    ):
        match = r"there is no GPU of NVIDIA's|a CPU has no memory"
        with pytest.raises(AssertionError, match=match):
            row_of(name, True)


@pytest.mark.skipif(not FULL, reason="thirteen programs are compiled: RELAXJAX_FULL=1")
def test_updates_are_timed_in_each_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUICK, "ResNet-18", QUICK["MLP"])
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        tables = device_forms.update_row("ResNet-18", True)["tables"]
    for text, form in zip(tables, ("by shape", "int8", "imported, no update"), strict=True):
        assert form in text


def test_what_is_measured_as_sent_to_the_host_is_sent() -> None:
    model = QUICK["MLP of 64 layers"]()
    with lowering_for("cuda"):
        kept, sent = (prepared(model, policy=one).script() for one in ("free", "offload"))
    assert "memory.to_host" not in kept
    assert sent.count("memory.to_host") == sent.count("memory.to_device") > 0


def test_trainings_of_other_losses_are_not_compared() -> None:
    class Step:
        temp_bytes = 0

        def __init__(self, loss: float) -> None:
            self.loss = loss

        def __call__(self) -> None: ...

    row = device_forms.beside({"ours": Step(1.0), "offload": Step(1.0)}, 1)
    assert row["offload"]["temp_bytes"] == 0
    with pytest.raises(AssertionError, match=r"the losses are 1\.0 and 2\.0"):
        device_forms.beside({"ours": Step(1.0), "offload": Step(2.0)}, 1)


def test_the_page_says_what_was_found() -> None:
    """Else: python tests/long/on_device.py --report."""
    text = on_device_report.PAGE.read_text()
    assert on_device_report.page_with(text, on_device_report.recorded()) == text


def test_results_become_tables() -> None:
    row = {"step": 0.5, "temp": 0.25, "seconds": 0.002}
    long = {"ratio": [0.1, 0.2, 0.3], "temp": [2**20, 2**22]}
    table = dict(zip(("ms", "ratio", "temp MiB", "ratio of temp"), "1234", strict=True))
    cudnn = {"by_cudnn": True, "apart": 0.5, "same_again": False}
    kept, there = ({"seconds": n, "temp_bytes": 2**20 * (9 - n)} for n in (4, 8))
    stages = {
        "operators": {"relax.sum": {"values": 0.0}, "relax.exp": {"error": "ValueError: no"}},
        "models": {"MLP": {"apart": 0.0}},
        "attention": {"1": cudnn, "2": {"by_cudnn": False, "apart": 9.0}, "3": {"error": "no"}},
        "budgets": {"GPT": {"shares": {"80%": {"taken": 0.7}, "40%": {"taken": None}}}},
        "suite": {"MLP": {"contestants": {"plain": row, "ours": row}}, "LSTM": {"error": "x"}},
        "long": {"loss": {"directions": {"both": long}}, "attention": {"error": "no cuDNN"}},
        "tables": {"SGD": {"rows": {"from_jax": table}}, "Adam": {"error": "no memory"}},
        "updates": {"ResNet-18": {"tables": ["by shape 0.5"]}},
        "offload": {"GPT": {"ours": kept, "offload": there}, "MLP": {"error": "no host"}},
    }
    text = on_device_report.section(
        [{"device": "H1", "jax": "1", "date": "2000-01-01", "stages": stages}]
    )
    assert "* 1 of 2 operators give" in text
    assert "  * relax.exp: ValueError: no" in text
    assert "in 1 of 3 sizes in half precision, at most 0.5 roundings" in text
    assert "; 0 of them give the same bits again." in text
    assert "| GPT | 70% | none |" in text
    assert "| MLP | 0.50 / 0.25 | 2.00 |" in text
    assert "| LSTM | failed |  |" in text
    assert re.search(r"\| geometric mean \| 0\.50 \|", text)
    assert "| loss |  | 0.20, 1 for 4 |  |" in text
    assert "| attention |  |  | no cuDNN |" in text
    assert "| SGD: from_jax | 1 | 2 | 3 | 4 |  |" in text
    assert "| Adam |  |  |  |  | no memory |" in text
    assert "```text\nby shape 0.5\n```" in text
    assert "| GPT | 2.00 | 1 for 5 |  |" in text
    assert "| MLP |  |  | no host |" in text
