"""The models of the suite of benchmarks: our gradients are those of plain JAX."""

import json
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import chex
import jax
import numpy as np
import pytest
from whole_model import WholeModel

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import beside_jax  # noqa: E402  # found by the path above
import compile_parts  # noqa: E402  # found by the path above
import drop_in  # noqa: E402  # found by the path above
import libraries  # noqa: E402  # found by the path above
import long_sequences  # noqa: E402  # found by the path above
import suite  # noqa: E402  # found by the path above
from contestants import CONTESTANTS, by_jax, by_us, imported, training_of  # noqa: E402  # found by the path above
from jax_losses import LOSSES, Draws  # noqa: E402  # found by the path above
from long_cases import FAMILIES as LONG  # noqa: E402  # found by the path above
from models import MODELS, QUICK, TINY, Models  # noqa: E402  # found by the path above
from models.convnets import ChannelsLast, large_resnet  # noqa: E402  # found by the path above
from suite_plot import TICKS, plot  # noqa: E402  # found by the path above
from suite_report import (  # noqa: E402  # found by the path above
    PAGE,
    PLOT,
    TABLES,
    against_torch,
    each_model,
    page_with,
    recorded,
    section,
)

SVG = "{http://www.w3.org/2000/svg}"

# Little work to compile, because each program runs once.
OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@pytest.fixture(autouse=True)
def _every_pass_gives_readable_text() -> None:
    """Not here: it would take longer than all else, and other tests do it for such models."""


def test_each_model_has_a_quick_size() -> None:
    assert list(MODELS) == list(QUICK)
    assert set(TINY) < set(MODELS)


def computed(function: Any, args: Any) -> Any:
    return jax.jit(function, compiler_options=OPTIONS)(*args)


def plain_gradients(model: WholeModel, adjoint: Any) -> Any:
    """The loss of the plain form, and its gradients."""
    plain = (*model.params, *model.inputs)
    if isinstance(model, ChannelsLast):
        plain = (*model.to_plain(model.params), *model.plain_inputs())
    with jax.numpy_rank_promotion("allow"):
        return computed(adjoint(model), plain)


def assert_close(model: WholeModel, loss: Any, gradients: Any, is_plain: bool = False) -> None:
    """To those of the plain form, whose kernels may lie otherwise."""
    plain_loss, wanted = plain_gradients(model, by_jax())
    is_other = isinstance(model, ChannelsLast) and not is_plain
    found = model.to_plain(gradients) if is_other else gradients  # type: ignore[attr-defined]  # of ChannelsLast
    np.testing.assert_allclose(loss, plain_loss, rtol=1e-5)
    largest = max(float(abs(leaf).max()) for leaf in jax.tree.leaves(wanted))
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-4 * largest)


@pytest.mark.parametrize("name", TINY)
def test_our_gradients_of_a_model_are_those_of_plain_jax(name: str) -> None:
    model = TINY[name]()
    assert_close(model, *computed(by_us()(model), (*model.params, *model.inputs)))


@pytest.mark.parametrize("name", ["normalizing flow", "policy by PPO", "speech by CTC"])
def test_losses_in_jax_are_measured_by_gradients_of_which_both_say_the_same(name: str) -> None:
    found = drop_in.ratios(LOSSES[name](Draws()), rounds=1)
    assert len(found) == 4
    assert all(np.isfinite(ratio) and ratio > 0 for ratio in found)


@pytest.mark.parametrize("of", ["a loss", "a step"])
def test_the_parts_of_compiling_are_parts_of_what_jax_takes(of: str) -> None:
    if of == "a loss":
        found = compile_parts.shares(LOSSES["normalizing flow"](Draws()))
    else:
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            found = compile_parts.shares_of_step(TINY["MLP"])
    assert all(share > 0 for share in found)
    assert found.python_of_jax + found.xla_of_jax == pytest.approx(1)
    assert found.whole - found.python == pytest.approx(found.without_passes - found.python_of_jax)


def test_a_loss_of_a_library_is_measured_by_gradients_of_which_all_say_the_same() -> None:
    for library in ("flax", "equinox", "haiku", "jraph", "diffrax", "distrax", "numpyro"):
        pytest.importorskip(library)
    case = import_module("library_losses").LOSSES["numpyro: cover types"](Draws())
    found = beside_jax.compared(case, libraries.WAYS, rounds=1)
    assert list(found.ratios) == ["default", "free"]


def test_a_budget_of_a_loss_of_a_library_is_kept_or_refused() -> None:
    for library in ("flax", "equinox", "haiku", "jraph", "diffrax", "distrax", "numpyro"):
        pytest.importorskip(library)
    row = import_module("library_budgets").row
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        *_, kept, refused, multiple, longer = row("linen: digits", 0.5)
        assert float(kept) <= 0.5
        assert not refused
        assert float(multiple) > 0
        assert float(longer) > 0
        *_, kept, refused, _, longer = row("linen: digits", 0.001)
    assert not kept
    assert not longer
    assert float(refused) > 0.001


def test_gradients_that_differ_are_an_error() -> None:
    with pytest.raises(AssertionError, match="Not equal"):
        beside_jax.check({"a": np.ones(2), "b": np.ones(2)}, {"a": np.ones(2), "b": np.zeros(2)})
    beside_jax.check(np.array([1, 1e-9]), np.array([1.0, 0]))


def test_the_page_shows_the_losses_of_libraries_as_recorded() -> None:
    """Else: python benchmarks/libraries.py --page."""
    text, results = TABLES.read_text(), libraries.recorded(libraries.RECORDED)
    assert len(results["all"]) >= 20
    assert set(results["losses"]) <= set(results["all"])
    assert libraries.page_with(text, results) == text


def test_the_page_shows_long_sequences_as_recorded() -> None:
    """Else: python benchmarks/long_sequences.py --page."""
    text, results = TABLES.read_text(), json.loads(long_sequences.RESULTS.read_text())
    assert long_sequences.page_with(text, results) == text
    names = {f"{family}: {case.name}" for family, cases in LONG.items() for case in cases}
    assert {row["case"] for row in results["rows"]} <= names


def test_the_page_names_what_was_not_measured() -> None:
    results = libraries.recorded(libraries.RECORDED)
    (first, found), *_ = results["losses"].items()
    part = {**results, "losses": {first: found}, "all": [first, "one", "two"]}
    assert "Not measured yet: one; two." in libraries.section(part)
    assert "Not measured" not in libraries.section({**part, "all": [first]})


def test_the_page_says_where_the_machine_was_busy() -> None:
    results = libraries.recorded(libraries.RECORDED)
    name, found = next(iter(results["losses"].items()))
    quiet = {**results, "losses": {name: {**found, "load": 0.5}}}
    busy = {**results, "losses": {name: {**found, "load": 9.0}}}
    assert "busy" not in libraries.section(quiet)
    assert "a load of 9 on 2 cores" in libraries.section({**busy, "cores": 2})


def test_the_means_of_libraries_stand_once_more_for_steps_that_the_clock_can_tell() -> None:
    ways = {way: dict.fromkeys(beside_jax.Ratios._fields, 0.5) for way in libraries.WAYS}
    fast = {way: dict.fromkeys(beside_jax.Ratios._fields, 2.0) for way in libraries.WAYS}
    losses = {"slow": {**ways, "seconds": 0.01}, "fast": {**fast, "seconds": 0.009}}
    rows = [(name, columns) for name, _, *columns in libraries.means(losses)]
    assert rows == [
        ("geometric mean, default", ["1.00"] * 4),
        ("geometric mean, free", ["1.00"] * 4),
        ("geometric mean of steps of 10 ms or more, default", ["0.50"] * 4),
        ("geometric mean of steps of 10 ms or more, free", ["0.50"] * 4),
    ]
    del losses["slow"]
    assert [name for name, *_ in libraries.means(losses)] == [name for name, _ in rows[:2]]


@pytest.mark.parametrize("name", ["U-Net", "GPT of 8 layers"])
def test_gradients_of_an_imported_model_are_those_of_plain_jax(name: str) -> None:
    model = TINY[name]()
    loss, gradients = plain_gradients(model, imported)
    assert_close(model, loss, gradients, is_plain=True)


@pytest.mark.parametrize("name", ["U-Net", "recommender"])
def test_a_trainer_of_a_plain_loss_takes_a_step_of_its_gradients(name: str) -> None:
    with jax.numpy_rank_promotion("allow"):
        training = training_of("from_jax", TINY[name]())
        training()
    loss, gradients = plain_gradients(TINY[name](), imported)
    chex.assert_trees_all_close(training.loss, loss, rtol=1e-4)
    chex.assert_trees_all_close(training.gradients(), gradients, rtol=1e-3, atol=1e-5)
    assert training.peak_bytes > 3 * sum(leaf.nbytes for leaf in jax.tree.leaves(gradients))


TORCH_TINY: Models = {
    **TINY,
    "ResNet-50, 7x7 stem": partial(large_resnet, widths=(4, 4, 6, 8), batch=4, size=32),
}


@pytest.mark.parametrize("name", TORCH_TINY)
def test_pytorch_s_gradients_of_a_model_are_those_of_plain_jax(name: str) -> None:
    pytest.importorskip("torch")
    model = TORCH_TINY[name]()
    training = import_module("torch_contestant").TorchTraining(name, model)
    gradients = training.gradients()
    assert training.temp_bytes > sum(leaf.nbytes for leaf in jax.tree.leaves(gradients))
    training()
    assert_close(model, training.loss, gradients)


def test_pytorch_has_a_form_of_each_model() -> None:
    pytest.importorskip("torch")
    forms = import_module("torch_models")
    assert [name for name in MODELS if not forms.form_of(name, QUICK[name]())] == []


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    assert suite.parsed().contestants == list(CONTESTANTS)


def test_a_compiler_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "find_spec", lambda name: name)
    monkeypatch.setattr(suite, "which", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    assert suite.parsed().contestants == [*CONTESTANTS, "torch"]


def test_naming_what_is_not_installed_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["suite.py", "--contestants", "plain", "torch"])
    with pytest.raises(SystemExit):
        suite.parsed()
    wanted = "torch needs PyTorch, which is not installed: leave it out"
    assert wanted in capsys.readouterr().err


def test_the_pages_and_the_plot_show_the_newest_results() -> None:
    """Else: python benchmarks/suite_report.py."""
    results, *earlier = recorded()
    text, tables = PAGE.read_text(), TABLES.read_text()
    assert page_with(text, section(results, earlier)) == text
    assert page_with(tables, each_model(results)) == tables
    assert plot(results) == PLOT.read_text()


def drawn_inside(root: ElementTree.Element) -> bool:
    """Whether every text, as wide as letters may be, and every mark is inside of the picture."""
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    before = {"start": 0.0, "middle": 0.5, "end": 1.0}
    for each in root.iter(f"{SVG}text"):
        wide = 7.2 * len(each.text or "")
        begin = float(each.attrib["x"]) - before[each.attrib["text-anchor"]] * wide
        if not (begin >= 0 and begin + wide <= width and 12 <= float(each.attrib["y"]) <= height):
            return False
    circles = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter(f"{SVG}circle")]
    return bool(circles) and all(5 <= x <= width - 5 and 5 <= y <= height - 5 for x, y in circles)


def test_nothing_of_the_plot_is_cut_off() -> None:
    root = ElementTree.fromstring(plot(recorded()[0]))
    assert drawn_inside(root)
    shown = [each.text for each in root.iter(f"{SVG}text")]
    assert set(recorded()[0]["models"]) <= set(shown)
    far = {"near": steps(ours=0.011, torch=1), "far": steps(ours=99.0, torch=1)}
    root = ElementTree.fromstring(plot({**recorded()[0], "models": far}))
    assert drawn_inside(root)
    shown = [each.text for each in root.iter(f"{SVG}text")]
    assert {f"{tick:g}" for tick in TICKS} <= set(shown)


def test_the_plot_has_colours_for_light_pages_and_for_dark_ones() -> None:
    text = plot(recorded()[0])
    assert "@media (prefers-color-scheme: dark)" in text
    root = ElementTree.fromstring(text)
    coloured = [each for each in root.iter() if each.attrib.get("fill", "").startswith("#")]
    assert coloured == []  # all colours are those of the style
    assert root.attrib["fill"] == "currentColor"


def steps(**ratios: float) -> dict[str, Any]:
    """Rows of contestants whose steps take so long; what else they take does not matter."""
    zeros = dict.fromkeys(("compile", "temp", "peak", "host", "seconds"), 0.0)
    names = {name: "torch, compiled" if name == "compiled" else name for name in ratios}
    return {
        names[name]: {**zeros, "step": ratio, "quartiles": [ratio, ratio]}
        for name, ratio in ratios.items()
    }


def test_the_report_compares_with_the_quicker_of_pytorch_s_contestants() -> None:
    models = {"LSTM": steps(ours=1.2, torch=0.8, compiled=0.6), "MLP": steps(ours=1, torch=2)}
    results = {**recorded()[0], "models": models, "torch": "2.0"}
    wanted = "PyTorch is faster on: LSTM (2.00)."
    assert "1.00 of the time of PyTorch's" in against_torch(results)
    assert wanted in against_torch(results)
    assert wanted in section(results)
    assert "torch 2.0" in section(results)
    assert "PyTorch, compiled: time of a step" in plot(results)


def test_the_report_names_what_other_machines_took() -> None:
    here = {**recorded()[0], "processor": "Z80", "date": "1976-07-01"}
    found = steps(ours=0.5, torch=1)
    there = [{**here, "models": {"LSTM": found}}, {**here, "models": {"LSTM": steps(ours=0.25)}}]
    rows = [line.split(" | ") for line in section(here, there).splitlines() if "| Z80" in line]
    assert [(row[1], row[2], row[-1].rstrip(" |")) for row in rows] == [
        ("1", "0.50", "0.50"),
        ("1", "0.25", "-"),
    ]
    assert "Z80" not in section(recorded()[0])


def test_the_report_compares_resnet_50_with_unoptimised_derivatives() -> None:
    found = steps(unoptimised=0.9, ours=0.6)
    found["unoptimised"]["peak"], found["ours"]["peak"] = 1.0, 0.7
    results = {**recorded()[0], "models": {"ResNet-50": found, "MLP": found}}
    assert [line for line in section(results).splitlines() if "%" in line] == [
        "| ResNet-50 | ours | +50% | -30% |"
    ]


def test_the_report_is_silent_on_what_was_not_measured() -> None:
    results = {**recorded()[0], "models": {"MLP": steps(ours=1)}}
    assert against_torch(results) == ""
    assert "PyTorch" not in plot(results)
