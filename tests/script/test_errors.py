"""What scripts may not say: each error names the fault, points at it, and says how to mend it."""

import pickle
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

from relaxjax.ir.fault import WellFormedError
from relaxjax.script import ScriptError, from_source
from relaxjax.script import relax as R

MATRIX = 'R.Tensor((2, 3), "float32")'
FUNCTION = f'@R.function\ndef f(x: {MATRIX}, c: R.Tensor((), "bool"), t: R.Tuple({MATRIX})):\n'


@dataclass(frozen=True)
class Case:
    """A faulty text, the message, the mend, and the place: line, column, and what is underlined."""

    text: str
    message: str
    mend: str | None
    place: tuple[int, int, str]


def read_cases(name: str) -> list[Case]:
    """The cases of a file. Each is a message, a mend after `>`, and code with carets below it."""
    text = (Path(__file__).parent / "errors" / name).read_text(encoding="utf-8")
    return [read_case(block) for block in text.rstrip("\n").split("\n\n")]


def read_case(block: str) -> Case:
    message, *lines = block.split("\n")
    mend = lines.pop(0).removeprefix("> ") if lines[0].startswith(">") else None
    code: list[str] = []
    place = None
    for line in dedent("\n".join(lines)).split("\n"):
        if set(line.strip()) == {"^"}:
            column = line.index("^")
            place = (len(code), column + 1, code[-1][column : len(line)])
        else:
            code.append(line)
    assert place is not None, f"no carets in {block}"
    return Case("\n".join(code), message, mend, place)


def error_of(text: str, **extra_vars: Any) -> ScriptError:
    with pytest.raises(ScriptError) as caught:
        from_source(text, extra_vars)
    return caught.value


def place_of(error: ScriptError) -> tuple[int, int, str]:
    """The line and column of an error, and the text under its carets."""
    assert error.lineno is not None
    assert error.text is not None
    assert error.offset is not None
    assert error.end_offset is not None
    return error.lineno, error.offset, error.text[error.offset - 1 : error.end_offset - 1]


def check(error: ScriptError, case: Case) -> None:
    assert case.message in error.msg
    if case.mend is not None:
        assert case.mend in (error.mend or "")
        assert error.__notes__ == [error.mend]
    # Python itself shows the user's line, with the same carets.
    shown = traceback.format_exception_only(error)
    assert shown[1].strip() == (error.text or "").strip()
    assert shown[2].count("^") == len(case.place[2])


@pytest.mark.parametrize("case", read_cases("in_functions.txt"), ids=lambda case: case.text)
def test_in_the_body_of_a_function(case: Case) -> None:
    error = error_of(FUNCTION + indent(case.text, "    "))
    line, column, underlined = place_of(error)
    assert (line - 2, column - 4, underlined) == case.place
    check(error, case)


@pytest.mark.parametrize("case", read_cases("in_texts.txt"), ids=lambda case: case.text)
def test_in_a_whole_text(case: Case) -> None:
    error = error_of(case.text)
    assert place_of(error) == case.place
    check(error, case)


def test_an_empty_text() -> None:
    error = error_of("")
    assert error.lineno == 1
    assert error.msg == "the text defines no module and no function"


def test_an_error_points_into_the_file_that_is_named() -> None:
    with pytest.raises(ScriptError) as caught:
        from_source("@R.function\ndef f(ö: R.Tensor):\n    return R.ad(ö, ö)", file="models/net.py")
    assert "".join(traceback.format_exception_only(caught.value)).startswith(
        '  File "models/net.py", line 3\n    return R.ad(ö, ö)\n           ^^^^\n'
    )


def test_an_error_beyond_the_first_bytes_of_a_line_counts_characters() -> None:
    error = error_of("@R.function\ndef f(öö: R.Tensor):\n    return R.add(öö, undefined)")
    assert place_of(error) == (3, 22, "undefined")


def test_a_truncated_text_is_python_to_tell() -> None:
    with pytest.raises(SyntaxError, match=re.escape("'(' was never closed")) as caught:
        from_source("@R.function\ndef f(x: R.Tensor((2, 3)", file="half.py")
    assert (caught.value.filename, caught.value.lineno) == ("half.py", 2)


def test_what_is_nested_too_deeply() -> None:
    error = error_of(f"{FUNCTION}    return {' + '.join(['x'] * 600)}")
    assert error.msg == "this is nested too deeply to be read"
    assert error.mend == "Bind parts of it to names."
    assert error.lineno == 3
    error = error_of(f"x = {'-' * 100_000}1")
    assert error.msg == "the text is nested too deeply to be read"


@pytest.mark.parametrize(
    "expression",
    [
        "range(10**12)",
        "sum(range(5, 10**30, 3))",
        "10 ** 10 ** 10",
        "1 << 10 ** 12",
        "[0] * 10 ** 10",
        "10 ** 10 * 'a'",
        "f'{1:{10 ** 9}}'",
        "[0 for i in range(10**4) for j in range(10**4)]",
        "[[0 for i in range(10**4)] for j in range(10**4)]",
    ],
)
def test_a_text_cannot_make_its_reader_compute_for_ever(expression: str) -> None:
    error = error_of(f"x = {expression}")
    assert "a text may not make more than 1,000,000 items or digits at once" in error.msg
    assert "`extra_vars`" in error.msg


def test_a_text_does_not_format_by_percent() -> None:
    assert "write an f-string" in error_of("x = '%1000000000d' % 1").msg


def test_what_is_no_character() -> None:
    error = error_of("x = 1\ny = '\ud800'")
    assert error.msg == "the text has half of a surrogate pair, which is no character"
    assert error.lineno == 2


def test_a_null_character_has_a_line() -> None:
    error = error_of("x = 1\ny = 2\0")
    assert error.msg == "the text has a null character"
    assert error.lineno == 2


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_for_python(end: str) -> None:
    """Not at a form feed, nor at the other signs that end lines of text."""
    lines = ["@R.function", "def f(x: R.Tensor):", "    # \x0c \u2028", "    return undefined"]
    error = error_of(end.join(lines))
    assert place_of(error) == (4, 12, "undefined")
    assert error.text == lines[3]


def test_a_text_is_text() -> None:
    with pytest.raises(TypeError, match="a script is given as text, not as bytes"):
        from_source(b"")  # type: ignore[arg-type]  # that is the point


def test_a_program_that_is_not_well_formed_shows_its_faults() -> None:
    text = """
        @R.function
        def f(x: R.Tensor((2, 3), "float32")):
            n = T.int64()
            y = R.zeros((n, 3), "float32")
            return y
        """
    with pytest.raises(WellFormedError, match="`n`"):
        from_source(dedent(text))


def test_an_array_is_no_operand() -> None:
    error = error_of(f"{FUNCTION}    return x + data", data=np.ones(3, "float32"))
    assert error.msg == "an array of numpy is no operand of `+`"
    error = error_of(f"{FUNCTION}    return (x, data)", data=np.ones(3, "float32"))
    assert error.msg == "an array of numpy is no Relax value: write R.const(array)"


def test_an_error_of_a_users_function_keeps_its_cause() -> None:
    def helper(_: Any) -> Any:
        raise RuntimeError("out of luck")

    error = error_of(f"{FUNCTION}    return helper(x)", helper=helper)
    assert place_of(error) == (3, 12, "helper(x)")
    assert error.msg == "out of luck"
    assert isinstance(error.__cause__, RuntimeError)


def test_a_surprise_stays_in_sight() -> None:
    class Odd:
        @property
        def width(self) -> int:
            raise RuntimeError("out of order")

    error = error_of(f"{FUNCTION}    return odd.width", odd=Odd())
    assert error.msg == "out of order"
    assert isinstance(error.__cause__, RuntimeError)


def test_an_error_travels_between_processes() -> None:
    error = error_of(f"{FUNCTION}    return x == x")
    again = pickle.loads(pickle.dumps(error))
    assert traceback.format_exception_only(again) == traceback.format_exception_only(error)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("linalgs", "; did you mean `R.linalg.svd` or"),
        ("fft", ": JAX has it as L.fft"),
        ("relu", "; did you mean `R.nn.relu` or"),
        ("zzz", "$"),  # the owner's name is no part of what looks alike
    ],
)
def test_what_is_suggested_for_a_name_that_is_not_there(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=rf"^there is no `R\.{name}`{hint}"):
        getattr(R, name)


def test_what_cannot_be_imported_is_written_or_passed_from_python() -> None:
    error = error_of("import os")
    assert error.mend == "Write values into the text, or pass them from Python, in `extra_vars`."
