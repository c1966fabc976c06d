"""Operators with an effect when they run, and those between tensors and shapes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from relaxjax.ir.op import get_op
from relaxjax.ops.plain_jax import require, show


def run(name: str, *args: Any, **attrs: Any) -> Any:
    lower = get_op(f"relax.{name}").lower
    assert lower is not None
    return lower(*args, **attrs)


@pytest.mark.parametrize("compiled", [False, True])
def test_print_writes_when_the_program_runs(
    compiled: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def program(x: Any) -> Any:
        run("print", x, (2, 3), format="x is {} of {}")
        run("print", x, format="")
        return x

    (jax.jit(program) if compiled else program)(jnp.float32(1.5))
    jax.effects_barrier()
    assert capsys.readouterr().out.splitlines() == ["x is 1.5 of (2, 3)", "1.5"]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_tuples_are_printed_when_the_program_runs(
    compiled: bool, plain: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """At each run, the values of tensors in tuples too, in the order of the program."""

    def program(x: Any) -> Any:
        for values, text in (((x,), ""), (((x, (x, 2), ("a",)),), "{} of it"), ((x, (), (x,)), "")):
            (show if plain else partial(run, "print"))(*values, format=text)
        return x

    call = jax.jit(program) if compiled else program
    for number in (1, 2):
        call(jnp.int32(number))
    jax.effects_barrier()
    assert capsys.readouterr().out.splitlines() == [
        line.replace("x", str(number))
        for number in (1, 2)
        for line in ("x", "(x, (x, 2), (a,)) of it", "x () (x,)")
    ]


@pytest.mark.parametrize("plain", [False, True])
def test_an_assertion_tells_of_tuples(plain: bool) -> None:
    def program(x: Any) -> Any:
        check = require if plain else partial(run, "assert_op")
        check(x > 0, (x, 3), format="{} is wrong")
        return x

    def finished(call: Any) -> None:
        jax.block_until_ready(call(jnp.int32(-1)))
        jax.effects_barrier()

    for call in (program, jax.jit(program)):
        with pytest.raises(Exception, match=r"Assert Failed: \(-1, 3\) is wrong"):
            finished(call)


def test_assertions_stop_the_program() -> None:
    assert run("assert_op", True, format="") == ()
    with pytest.raises(AssertionError, match=r"^Assert Failed$"):
        run("assert_op", jnp.asarray(False), format="")
    with pytest.raises(AssertionError, match=r"^Assert Failed: 3 is not 2$"):
        run("assert_op", False, jnp.int32(3), 2, format="{} is not {}")


def test_assertions_stop_a_compiled_program() -> None:
    @jax.jit
    def program(x: Any) -> Any:
        run("assert_op", x > 0, x, format="{} is too small")
        return x

    def finished(x: Any) -> Any:
        done = program(x).block_until_ready()
        jax.effects_barrier()
        return done

    assert finished(jnp.float32(1)) == 1
    with pytest.raises(Exception, match=r"Assert Failed: -1\.0 is too small"):
        finished(jnp.float32(-1))


def test_shapes_and_vectors_of_their_dimensions() -> None:
    x = jnp.zeros((2, 3))
    assert run("shape_of", x) == (2, 3)
    assert run("size", x) == 6
    assert run("tensor_to_shape", run("shape_to_tensor", (2, 3))) == (2, 3)
    # Known dimensions stay known while a program is traced, so that shapes may depend on them.
    traced = jax.jit(lambda y: y.reshape(run("tensor_to_shape", run("shape_to_tensor", (3, 2)))))
    assert traced(x).shape == (3, 2)
