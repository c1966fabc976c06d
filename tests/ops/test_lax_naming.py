"""Values of JAX programs bear the names that the text they were traced from gives them."""

import ast
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_reading import read_function

from relaxjax import Call, Function, IRModule, from_jax
from relaxjax.ir.op import get_op
from relaxjax.ops.lax import naming

X = np.ones((4, 6), "float32")


def names(function: Function) -> list[str]:
    """The names of a function's values, but for its results and those of no one's choice."""
    named = (binding.var.name for binding in function.body.bindings())
    return [name for name in named if not name.startswith(("lv", "gv"))]


def named(function: Callable[..., Any], *args: Any) -> list[str]:
    return names(read_function(function, *args))


def test_the_last_step_of_a_line_has_the_name() -> None:
    def function(x: Any) -> Any:
        hidden = jnp.tanh(x * 2 + 1)
        weights: jax.Array = jax.nn.softmax(hidden)
        hidden += weights
        return jnp.sum(both := hidden * weights) + jnp.max(both)

    read = read_function(function, X)
    assert names(read) == ["hidden", "weights", "hidden1", "both"]
    values = {binding.var.name: binding.value for binding in read.body.bindings()}
    assert isinstance(values["hidden"], Call)
    assert values["hidden"].op is get_op("lax.tanh")


def test_what_comes_apart_has_a_name_each() -> None:
    def function(x: Any) -> Any:
        (left, right), _ = jnp.split(x, 2, axis=1), None
        first, _ = lax.top_k(left, 1)
        keys, values = jnp.split(right * 2, [1], axis=1)
        return first * keys * values

    assert named(function, X) == ["first", "keys", "values"]


def _scaled(x: Any) -> Any:
    return x * 2


def _shifted(x: Any) -> Any:
    moved = x + 1
    return moved  # noqa: RET504  # the name is what is tested


def test_what_a_function_returns_is_called_as_its_caller_does() -> None:
    def function(x: Any) -> Any:
        for factor in (2, 3):
            x = _scaled(x * factor)
        y = jax.vmap(lambda row: jnp.sin(row))(x)
        return _shifted(y)

    assert named(function, X) == ["x", "x1", "y", "moved"]


def test_compiled_functions_have_names_of_their_own_and_of_each_call() -> None:
    """What JAX compiled once and calls again bears the lines of the first call."""
    compiled, shifted = jax.jit(_scaled), jax.jit(_shifted)

    def function(x: Any) -> Any:
        one = compiled(x)
        two = compiled(one)
        three = jnp.where(two > 1, two, one)
        four = jnp.where(three > 1, three, two)
        return shifted(shifted(four))

    assert named(function, X) == ["one", "two", "three", "four", "moved", "moved1"]


def test_bodies_of_loops_and_branches_have_names() -> None:
    def function(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            state = jnp.tanh(carry + row)
            return state, None

        last, _ = lax.scan(step, jnp.zeros(6), x)
        (total, most), kept = lax.scan(
            lambda pair, row: ((pair[0] + row, jnp.maximum(pair[1], row)), row[0]), (last, last), x
        )
        chosen = lax.cond(last[0] > 0, lambda v: v * kept[0], lambda v: v + 1, total - most)
        return chosen + 1

    text = read_function(function, X).script()
    for name in ("state", "last", "total", "most", "chosen"):
        assert f" {name}: R.Tensor((6,), " in text


def test_rules_of_functions_are_not_named_by_their_calls() -> None:
    def function(x: Any) -> Any:
        hidden = jax.nn.relu(x)
        return hidden * 2

    mod = from_jax(function, X)
    assert isinstance(mod, IRModule)
    found = {name: names(mod[name]) for name in mod}
    assert found == {"main": ["hidden"], "relu": [], "relu_gradient": [], "relu_jvp": []}


def test_a_program_of_no_steps_has_no_names() -> None:
    assert named(lambda x: x, X) == []


def test_a_text_that_cannot_be_read_gives_no_names(tmp_path: Any) -> None:
    lines = "def function(x):\n    doubled = x * 2\n    return doubled\n"
    there = tmp_path / "there.py"
    there.write_text("%magic of a notebook\n" + lines)
    for file in ("<string>", str(tmp_path / "nowhere.py"), str(there)):
        scope: dict[str, Any] = {}
        exec(compile(lines, file, "exec"), scope)
        assert named(scope["function"], X) == []


def test_the_lines_of_a_function_are_read_without_the_rest_of_its_file(tmp_path: Any) -> None:
    """A method's as well, which are indented."""
    lines = """class Model:
    def run(self, x):
        doubled = x * 2
        '''
indented less
'''
        return self.inner(doubled)

    @staticmethod
    def inner(x):
        return (lambda y: y)(x + 1)
"""
    there = tmp_path / "there.py"
    there.write_text(lines + "%magic of a notebook\n")
    scope: dict[str, Any] = {}
    exec(compile(lines, str(there), "exec"), scope)
    assert named(scope["Model"]().run, X) == ["doubled"]


def test_threads_read_text_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 cannot make two trees at once, if the collector lets a thread in."""
    parsing, most = list[int](), list[int]()
    parse = ast.parse

    def slowly(text: str) -> Any:
        parsing.append(1)
        sleep(0.01)
        most.append(len(parsing))
        parsing.pop()
        return parse(text)

    monkeypatch.setattr(ast, "parse", slowly)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(naming._statements, [f"x = {number}" for number in range(4)]))
    assert most == [1] * 4
