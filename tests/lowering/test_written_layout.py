"""Long lines of written programs, broken as formatters of Python break them."""

import ast
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_functions
from small_models import Classifier, trainable

from relaxjax import TensorType, to_python
from relaxjax.ir.wording import tuple_text
from relaxjax.losses import CrossEntropyLoss
from relaxjax.lowering.emit.layout import WIDTH, broken, commented
from relaxjax.optim import Adam

RUFF = [sys.executable, "-m", "ruff"]
needs_ruff = pytest.mark.skipif(find_spec("ruff") is None, reason="ruff is a tool of development")


def formatted(text: str, folder: Path) -> str:
    """A text as ruff writes it."""
    path = folder / "program.py"
    path.write_text(text)
    options = ["--isolated", "--line-length", str(WIDTH), "--target-version", "py311"]
    subprocess.run([*RUFF, "format", "--quiet", *options, path], check=True)
    return path.read_text()


NAMES = ["first_operand", "second_operand", "third_operand", "fourth_operand", "fifth_operand"]


@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        ("x = f(a, b)", ["x = f(a, b)"]),
        (
            f"result = function_of_many({', '.join(NAMES)})",
            ["result = function_of_many(", f"    {', '.join(NAMES)}", ")"],
        ),
        (
            f"result = function_of_many({', '.join(NAMES * 2)})",
            ["result = function_of_many(", *(f"    {name}," for name in NAMES * 2), ")"],
        ),
        (
            f"result = ({', '.join(NAMES)}, sixth_operand, seventh_operand)",
            ["result = (", *(f"    {n}," for n in NAMES), "    sixth_operand,",
             "    seventh_operand,", ")"],
        ),
        (
            f"return f([{', '.join(NAMES * 2)}], axis=(0, 1))",
            ["return f(", "    [", *(f"        {name}," for name in NAMES * 2), "    ],",
             "    axis=(0, 1),", ")"],
        ),
        (
            f"call(é={', '.join(NAMES * 2)})".replace("é=", ""),
            ["call(", *(f"    {name}," for name in NAMES * 2), ")"],
        ),
        (f"def f({', '.join(NAMES * 2)}):", ["def f(", *(f"    {n}," for n in NAMES * 2), "):"]),
        (
            f"def function_of_many_arguments({', '.join(NAMES)}):",
            ["def function_of_many_arguments(", f"    {', '.join(NAMES)}", "):"],
        ),
        (f"def f({'x' * 100}):", ["def f(", f"    {'x' * 100},", "):"]),
        (f"x = {'y' * 100}", [f"x = {'y' * 100}"]),
    ],
)  # fmt: skip
def test_statements(statement: str, lines: list[str]) -> None:
    assert broken(statement) == lines
    assert broken(statement, "    ") == [f"    {line}" for line in lines]


def test_letters_beyond_ascii() -> None:
    """Python counts the bytes of a line, and people its letters."""
    assert broken(f"ä = g({', '.join(['é'] * 40)})") == ["ä = g(", *["    é,"] * 40, ")"]


def test_comments_are_cut() -> None:
    assert commented("x", "    ") == "    # x"
    assert len(commented("x" * 200, "    ")) == WIDTH
    assert commented("x" * 200, "    ").endswith("xxx...")


def expressions() -> st.SearchStrategy[str]:
    """Nested calls, tuples and lists of names."""
    names = st.sampled_from(["x", "value", "a_longer_name", "the_longest_name_of_them_all", "1.5"])

    def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        items = st.lists(inner, min_size=1, max_size=6)
        named = st.lists(inner.map(lambda text: f"key={text}"), max_size=1)
        return st.one_of(
            st.tuples(items, named).map(lambda both: f"lax.f({', '.join([*both[0], *both[1]])})"),
            items.map(tuple_text),
            items.map(lambda texts: f"[{', '.join(texts)}]"),
        )  # fmt: skip

    return st.recursive(names, nested, max_leaves=25).filter(lambda text: text.endswith((")", "]")))


@given(st.lists(expressions(), min_size=1, max_size=10))
@settings(max_examples=10)
@needs_ruff
def test_a_formatter_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, values: list[str]
) -> None:
    statements = [f"{head}{text}" for text in values for head in ("result = ", "return ")]
    lines = [line for statement in statements for line in broken(statement, "    ")]
    text = "\n".join(["def f():", *lines, ""])
    for statement, same in zip(statements, ast.parse(text).body[0].body, strict=True):  # type: ignore[attr-defined]  # a function has a body
        assert ast.dump(ast.parse(textwrap.dedent(statement)).body[0]) == ast.dump(same)
    assert formatted(text, tmp_path_factory.mktemp("format")) == text


PROGRAM = parse_functions("""
@R.function
def main(
    flag: R.Tensor((), "bool"),
    x: R.Tensor(("batch", "channels", "height", "width"), "float32"),
    weights_of_the_convolution: R.Tensor((4, "channels", 3, 3), "float32"),
) -> R.Tuple(R.Tensor("float32", ndim=4), R.Tensor("float32", ndim=4), R.Tensor((17,), "float32")):
    batch, channels, height, width = T.int64(), T.int64(), T.int64(), T.int64()

    @R.function
    def softmax(y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        z = R.nn.softmax(y)
        return z

    if flag:
        a = R.nn.conv2d(x, weights_of_the_convolution, padding=1)
        b = R.nn.relu(a)
        result_with_a_name_that_is_really_much_too_long = R.cumsum(b, axis=1)
    else:
        result_with_a_name_that_is_really_much_too_long = R.cumsum(
            R.nn.conv2d(x, weights_of_the_convolution, padding=1), axis=0
        )
    large = R.const([[1.5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]], "float32")
    flat = R.squeeze(large)
    again = softmax(flat)
    big = R.full(R.shape([17]), R.const(0.1, "float32"))
    return (
        result_with_a_name_that_is_really_much_too_long,
        result_with_a_name_that_is_really_much_too_long,
        R.add(big, again),
    )
""")


@needs_ruff
def test_whole_programs_are_formatted_and_free_of_faults(tmp_path: Path) -> None:
    scores, labels = TensorType((8, 3), "float32"), TensorType((8,), "int32")
    step = trainable(Classifier, CrossEntropyLoss(), Adam(0.01), scores, labels)
    for mod in (PROGRAM, step):
        text = to_python(mod)
        assert formatted(text, tmp_path) == text
        assert max(map(len, text.splitlines())) <= WIDTH
        rules = ["--isolated", "--select", "E,F,I,W,B", "--line-length", str(WIDTH)]
        subprocess.run([*RUFF, "check", "--quiet", *rules, tmp_path / "program.py"], check=True)
