"""Where passes, losses and optimizers decide by numbers, and why they may.

What they emit runs compiled: numbers that are computed twice may be rounded otherwise the second
time, and then compare otherwise. A file that names a deciding operator is listed here with what
makes it right; a new one fails until somebody has looked at it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import relaxjax

ROOT = Path(relaxjax.__file__).parent
FOLDERS = ("passes", "losses", "optim", "autodiff", "frontends", "training", "lowering", "torch")
DECIDING = (
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "argmax", "argmin", "argsort", "topk", "top_k"}
    | {"floor", "ceil", "round", "trunc", "sign", "floor_divide", "floor_mod", "mod", "rem"}
    | {"isnan", "isinf", "isfinite", "is_finite"}
)
MODULES = {"R", "L", "jnp", "lax"}


def deciding(tree: ast.Module) -> set[str]:
    """The deciding operators that a file names, as texts or as attributes of a module of them."""
    return {name for name in _names(tree) if name in DECIDING}


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text):
                yield text.removeprefix("relax.").removeprefix("lax.")
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULES:
                yield name


LOOKED_AT = {
    "lowering/emit/forms.py": "writes the calls that a program has",
    "passes/differentiation/near_turns.py": "knows what meets, and emits nothing",
    "passes/differentiation/row_laws.py": "reads a mask of places, which are integers",
    "passes/memory/batch/own_rows.py": "reads a test of places, which are integers",
    "passes/memory/batch/rules.py": "knows where samples are, and emits nothing",
    "passes/memory/loops/carries.py": "counts the steps of a loop, in integers",
    "passes/memory/program/step.py": "knows kernels by what they compute, and emits nothing",
    "passes/operators/multiply_rows_once.py": "compares places, which are integers",
    "passes/raising/losses.py": "compares labels, which are integers",
    "passes/raising/masks.py": "reads masks of positions, which are integers",
    "passes/raising/picking.py": "reads places, which are integers",
    "passes/raising/reading.py": "reads what a program has, and emits nothing",
    "passes/raising/report.py": "names what a program has, and emits nothing",
    "passes/simplification/exact_numbers.py": "computes with numbers of the host",
    "passes/training/fuse_train_step.py": "compares counts, which are integers",
    "passes/training/loss_scale.py": "asks a sum, which is stored; and compares counts",
    "passes/training/master_weights.py": "compares arguments of the step, which are stored",
    "passes/training/row_formula.py": "knows what gives 0 for 0, and emits nothing",
    "torch/aten/aliases.py": "names what others do, and emits nothing",
    "torch/aten/binary.py": "stores the answers that decide for two; else asks what the user asks",
    "torch/aten/checked.py": "asks for what is finite",
    "torch/aten/decompositions.py": "asks for what is finite, and compares places",
    "torch/aten/experts.py": "counts numbers, through which no gradient goes",
    "torch/aten/exponential.py": "stores how often it squares",
    "torch/aten/indexing.py": "compares places; and a tensor with others, of which it is not made",
    "torch/aten/losses.py": "compares ids and targets as they are given",
    "torch/aten/magnitudes.py": "asks for 0, where both branches meet",
    "torch/aten/matrices.py": "stores what it compares with the largest of it",
    "torch/aten/max_places.py": "gives places, out of one reduction",
    "torch/aten/noise.py": "asks what a dropout leaves of ones, which is 0 or one other number",
    "torch/aten/order.py": "stores what it compares with elements chosen among it",
    "torch/aten/padding.py": "computes places, which are integers",
    "torch/aten/pairs.py": "stores the answers that decide for two; else asks what the user asks",
    "torch/aten/places.py": "computes places, which are integers",
    "torch/aten/pointwise.py": "rounds and asks what the user does",
    "torch/aten/reductions.py": "gives places, out of one reduction or one sort",
    "torch/aten/resizing.py": "names how places are rounded, and emits nothing",
    "torch/aten/slicing.py": "compares truth values",
    "torch/aten/special.py": "asks for 0, where both branches meet",
    "torch/aten/spectra.py": "asks for NaN",
    "torch/interpreter.py": "compares sizes, which are integers",
    "torch/loops.py": "knows a test of a count, and emits nothing",
    "training/numerics.py": "looks at arrays that are there",
    "training/step.py": "looks at arrays that are there",
}


def test_what_decides_by_numbers_has_been_looked_at() -> None:
    found = {
        f"{folder}/{path.relative_to((ROOT / folder).resolve()).as_posix()}": names
        for folder in FOLDERS
        for path in sorted((ROOT / folder).resolve().rglob("*.py"))
        if (names := deciding(ast.parse(path.read_text())))
    }
    new = {path: names for path, names in found.items() if path not in LOOKED_AT}
    assert not new, "look at the operators there, and list why they may"
    gone = LOOKED_AT.keys() - found.keys()
    assert not gone, "they name no deciding operator any more: take them from the list"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('call("equal", x, y)', {"equal"}),
        ('get_op("relax.floor")(x)', {"floor"}),
        ("R.argmax(x, 1)", {"argmax"}),
        ("mask = lax.ge(x, y)", {"ge"}),
        ("call('add', x, y)", set()),
    ],
)
def test_how_an_operator_is_named(text: str, names: set[str]) -> None:
    assert deciding(ast.parse(text)) == names
