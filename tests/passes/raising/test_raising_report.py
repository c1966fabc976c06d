"""RaiseOps tells what it raised and what it did not, by line."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import relaxjax
from relaxjax.passes import raising_report

X, W = np.ones((3, 5), "float32"), np.ones((5, 4), "float32")


def scores(x: Any, w: Any) -> Any:
    y = x @ w
    y = jnp.matmul(y, y.T, precision=lax.Precision.HIGHEST)
    return jax.nn.softmax(y)


def looped(x: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        return jax.nn.silu(state), jnp.tanh(state)

    return lax.scan(step, x, None, length=2)


def line_of(function: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(place for place, line in enumerate(lines) if text in line)


def test_lines_name_what_was_raised_and_what_was_left() -> None:
    report = raising_report(relaxjax.from_jax(scores, X, W))
    found = {line.span.line: (line.raised, line.left) for line in report.lines if line.span}
    assert found == {
        line_of(scores, "x @ w"): (("relax.matmul",), ()),
        line_of(scores, "precision"): (("relax.permute_dims",), ("lax.dot_general",)),
        line_of(scores, "softmax"): (("relax.nn.softmax",), ()),
    }
    assert [line.left for line in report.left] == [("lax.dot_general",)]


def test_bodies_of_loops_are_looked_at() -> None:
    report = raising_report(relaxjax.from_jax(looped, X))
    (line,) = report.lines
    assert (line.raised, line.left) == (("relax.nn.silu",), ("lax.tanh",))


def test_it_prints_as_a_table() -> None:
    def twice(x: Any) -> Any:
        return jnp.tanh(jnp.tanh(x))

    text = str(raising_report(relaxjax.from_jax(twice, X)))
    head, rule, row = text.splitlines()
    assert head.split() == ["line", "raised", "left"]
    assert set(rule) == {"-", " "}
    assert row.endswith("lax.tanh x2")
    assert f"test_raising_report.py:{line_of(twice, 'jnp.tanh')}" in row


def test_lines_of_sums_alone_are_left_out() -> None:
    assert raising_report(relaxjax.from_jax(lambda x: x + x, X)).lines == ()
