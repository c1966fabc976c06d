"""Random loops, choices and sums of what these add up: by SumInLoops they give the same."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import chex
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jax import lax
from unknown_loops import steps

from relaxjax import from_jax, to_jax
from relaxjax.ir import well_formed
from relaxjax.passes import SumInLoops

# Sums of whole numbers are exact.
X, Y = np.array([[1.0, -2], [3, 1], [0, 2]]), np.array([[2.0, 1], [-1, 1], [3, -3]])
COUNT = 3  # arrays that a program changes

Arrays: TypeAlias = tuple[Any, ...]
Statement: TypeAlias = tuple[Any, ...]

PLACES = st.integers(0, COUNT - 1)
PLAIN = st.one_of(
    st.tuples(st.just("add"), PLACES, st.sampled_from([-1.0, 1.0, 2.0])),
    st.tuples(st.sampled_from(["sum", "difference", "exchange"]), PLACES, PLACES),
    st.tuples(st.just("negate"), PLACES),
    st.tuples(st.just("restart"), PLACES),
    st.tuples(st.sampled_from(["sine", "number"]), PLACES),
)
# Sums move through all of these but "sine" and "number".
STATEMENTS = st.recursive(
    st.lists(PLAIN, min_size=1, max_size=3),
    lambda inner: st.lists(
        st.one_of(
            PLAIN,
            st.tuples(st.sampled_from(["loop", "rows"]), inner),
            st.tuples(st.just("choice"), inner, inner),
        ),
        min_size=1,
        max_size=3,
    ),
    max_leaves=6,
)
READS = st.lists(st.sampled_from(["first", "last", "whole", "nothing"]), min_size=3, max_size=3)


def run(statements: Sequence[Statement], arrays: Arrays, number: Any, n: Any) -> Arrays:
    for name, *rest in statements:
        arrays = CHANGES[name](arrays, number, n, *rest)
    return arrays


def put(arrays: Arrays, place: int, value: Any) -> Arrays:
    return (*arrays[:place], value, *arrays[place + 1 :])


def with_sample(arrays: Arrays, number: Any, n: Any, at: int, factor: Any) -> Arrays:
    factor *= jnp.asarray(number + 1, float)
    return put(arrays, at, arrays[at] + jnp.einsum("bi,bj->bij", X, Y * factor))


def loop(arrays: Arrays, number: Any, n: Any, inner: Sequence[Statement]) -> Arrays:
    done: Arrays = steps(n, lambda count, carry: run(inner, carry, count, n), arrays)
    return done


def rows(arrays: Arrays, number: Any, n: Any, inner: Sequence[Statement]) -> Arrays:
    """A loop of a known number of steps."""

    def step(carry: Arrays, row: Any) -> Any:
        changed = run(inner, carry, row + number, n)
        return changed, row * 2

    done, doubled = lax.scan(step, arrays, jnp.arange(2))
    return with_sample(done, doubled.sum(), n, 0, 1.0)


def choice(arrays: Arrays, number: Any, n: Any, *branches: Sequence[Statement]) -> Arrays:
    taken = [lambda arrays, one=one: run(one, arrays, number, n) for one in branches]
    done: Arrays = lax.cond((number + n) % 2 == 0, *taken, arrays)
    return done


CHANGES: dict[str, Callable[..., Arrays]] = {
    "add": with_sample,
    "sum": lambda arrays, _, n, a, b: put(arrays, a, arrays[a] + arrays[b]),
    "difference": lambda arrays, _, n, a, b: put(arrays, a, arrays[b] - arrays[a]),
    "exchange": lambda arrays, _, n, a, b: put(put(arrays, a, arrays[b]), b, arrays[a]),
    "negate": lambda arrays, _, n, a: put(arrays, a, -arrays[a]),
    "restart": lambda arrays, _, n, a: put(arrays, a, jnp.einsum("bi,bj->bij", Y, X)),
    "sine": lambda arrays, _, n, a: put(arrays, a, jnp.sin(arrays[a])),
    "number": lambda arrays, _, n, a: put(arrays, a, arrays[a] + 1.0),
    "loop": loop,
    "rows": rows,
    "choice": choice,
}


def read(how: str, array: Any) -> Any:
    match how:
        case "first":
            return array.sum(0)
        case "last":
            return array.sum(2)
        case "whole":
            return array
        case _:
            return 0.0


@settings(max_examples=10)
@given(statements=STATEMENTS, reads=READS)
def test_random_loops_give_the_same(statements: list[Statement], reads: list[str]) -> None:
    def program(n: Any, x: Any) -> Any:
        start = (jnp.zeros((3, 2, 2)), jnp.einsum("bi,bj->bij", x, Y), jnp.ones((3, 2, 2)))
        return tuple(map(read, reads, loop(start, 0, n, statements)))

    with jax.enable_x64(True):
        before = from_jax(program, 2, X)
        after = SumInLoops()(before)
        well_formed(after)
        for n in (0, 2, 3):
            wanted = to_jax(before, "main")(n, X)
            largest = max(map(jnp.max, map(jnp.abs, wanted)))
            assume(largest < 2**50)
            found = to_jax(after, "main")(n, X)
            chex.assert_trees_all_close(found, wanted, rtol=1e-9, atol=1e-9 * (1 + largest))
