"""The examples run as they stand, on small settings."""

import os
import re
from pathlib import Path

import pytest
from forked_programs import run_program

EXAMPLES = Path(__file__).parents[2] / "examples"
# Of each: its options, and a pattern of the number that its last lines end with, and its bounds.
ACCURACY = (r"accuracy on test images (.*)%$", 60.0, 100.0)
DIFFERENCE = (r"dif.* ([-+.e0-9]+)$", 0.0, 1e-5)
SETTINGS: dict[str, tuple[list[str], tuple[str, float, float]]] = {
    "add_an_operator": (["--epochs", "2"], ACCURACY),
    "char_transformer": (["--epochs", "1", "--steps", "6"], (r"perplexity +([.0-9]+) ", 5.0, 60.0)),
    "cnn_digits": (["--epochs", "3"], ACCURACY),
    "compare_with_jax_grad": ([], DIFFERENCE),
    "edit_adjoint": (["--epochs", "2"], ACCURACY),
    "explore_attention": (["--out", os.devnull], (r"takes (\d+) KiB$", 60.0, 400.0)),
    "jax_style": (["--epochs", "2"], ACCURACY),
    "jax_trainer": (["--epochs", "2"], ACCURACY),
    "train_mlp": (["--epochs", "2"], ACCURACY),
    "train_mlp_low_level": (["--epochs", "2"], ACCURACY),
    "write_a_pass": ([], DIFFERENCE),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_an_example_does_what_it_is_for(name: str) -> None:
    options, (pattern, low, high) = SETTINGS[name]
    path = EXAMPLES / f"{name}.py"
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}  # as for users
    done = run_program(path, options, env=env)
    assert done.returncode == 0, done.stderr
    numbers = [float(number) for number in re.findall(pattern, done.stdout, re.MULTILINE)]
    assert numbers, done.stdout
    assert low <= numbers[-1] <= high, done.stdout


def test_every_example_is_run_here() -> None:
    assert sorted(SETTINGS) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_every_example_is_short() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert lengths
    assert max(lengths.values()) < 100, lengths


def test_the_readme_of_the_examples_lists_them_all() -> None:
    listed = re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text())
    assert sorted(listed) == sorted(SETTINGS)
