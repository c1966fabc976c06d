"""The examples run as they stand, on small settings."""

import os
import re
from pathlib import Path

import pytest
from forked_programs import run_program
from full import FULL

EXAMPLES = Path(__file__).parents[2] / "examples"
# Of each: its options, and a pattern of the number that its last lines end with, and its bounds.
ACCURACY = (r"accuracy on test images (.*)%$", 60.0, 100.0)
DIFFERENCE = (r"dif.* ([-+.e0-9]+)$", 0.0, 1e-5)
TWENTY_STEPS = (r"^20 steps.*: largest difference ([-+.e0-9]+)$", 0.0, 1e-5)
SETTINGS: dict[str, tuple[list[str], tuple[str, float, float]]] = {
    "add_an_operator": (["--epochs", "2"], ACCURACY),
    "char_transformer": (["--epochs", "1", "--steps", "6"], (r"perplexity +([.0-9]+) ", 5.0, 60.0)),
    "cnn_digits": (["--epochs", "3"], ACCURACY),
    "compare_with_jax_grad": ([], DIFFERENCE),
    "diffusion_unet": (["--epochs", "1"], (r"not told (.*)%$", 30.0, 90.0)),
    "edit_adjoint": (["--epochs", "2"], ACCURACY),
    "equinox_digits": (["--epochs", "2"], ACCURACY),
    "explore_attention": (["--out", os.devnull], (r"takes (\d+) KiB$", 60.0, 400.0)),
    "flax_digits": (["--epochs", "2"], ACCURACY),
    "haiku_digits": (["--epochs", "3"], ACCURACY),
    "jax_style": (["--epochs", "2"], ACCURACY),
    "jax_trainer": (["--epochs", "2"], ACCURACY),
    "small_llama": (["--steps", "40"], (r"perplexity (.*)$", 5.0, 30.0)),
    "train_mlp": (["--epochs", "2"], ACCURACY),
    "train_mlp_low_level": (["--epochs", "2"], ACCURACY),
    "train_torch_model": (
        ["--file", str(EXAMPLES / "digits_cnn.pt2"), "--epochs", "2", "--out", os.devnull],
        ACCURACY,
    ),
    "write_a_pass": ([], DIFFERENCE),
}
# What is compared with the loop of its library, and the name of that. The dependency group
# `libraries` has all of them.
BESIDE_OTHERS = {
    "diffusion_unet": "optax",
    "equinox_digits": "equinox",
    "flax_digits": "flax",
    "haiku_digits": "haiku",
    "small_llama": "optax",
}
# They take long to compile, and what they show is tested at smaller sizes.
LONG = {"diffusion_unet", "small_llama"}


@pytest.mark.smoke
@pytest.mark.parametrize("name", SETTINGS)
def test_an_example_does_what_it_is_for(name: str) -> None:
    if name in LONG and not FULL:
        pytest.skip("set RELAXJAX_FULL: it takes more than ten seconds")
    if name in BESIDE_OTHERS:
        pytest.importorskip(BESIDE_OTHERS[name])
    options, check = SETTINGS[name]
    path = EXAMPLES / f"{name}.py"
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}  # as for users
    done = run_program(path, options, env=env)
    assert done.returncode == 0, done.stderr
    for pattern, low, high in (check, *([TWENTY_STEPS] if name in BESIDE_OTHERS else [])):
        numbers = [float(number) for number in re.findall(pattern, done.stdout, re.MULTILINE)]
        assert numbers, done.stdout
        assert low <= numbers[-1] <= high, done.stdout


def test_pytorch_is_as_accurate_with_the_weights_that_it_gets_back() -> None:
    pytest.importorskip("torch")
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = run_program(EXAMPLES / "train_torch_model.py", ["--epochs", "3"], env=env)
    assert done.returncode == 0, done.stderr
    before, here, there = re.findall(r"accuracy on test images (.*)%$", done.stdout, re.MULTILINE)
    assert here == there, done.stdout
    assert float(before) + 3 < float(here), done.stdout


def test_every_example_is_run_here() -> None:
    assert sorted(SETTINGS) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_every_example_is_short() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert lengths
    assert max(lengths.values()) < 100, lengths


def test_the_readme_of_the_examples_lists_them_all() -> None:
    listed = re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text())
    assert sorted(listed) == sorted(SETTINGS)
