"""Gradients of tables as rows and places: printed, read back, and the same as whole ones."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from full import how_many
from parsing import parse_functions, parse_main

from relaxjax import from_jax, from_source, to_jax
from relaxjax.ir import IRModule, TensorType, Var, assert_structural_equal, well_formed
from relaxjax.ops import OpError
from relaxjax.ops.emit import call
from relaxjax.passes import Gradient

ROWS, WIDTH, IDS = 9, 2, 5
PROGRAMS = how_many(6)

LOOKUP = """
    @R.function
    def main(
        t: R.Tensor((9, 2), "float32"), ids: R.Tensor(("n",), "int32")
    ) -> R.Tensor((), "float32"):
        n = T.int64()
        with R.dataflow():
            rows = R.take(t, ids, axis=0, mode="nan")
            loss = R.sum(rows)
            R.output(loss)
        return loss
"""

SPARSE = """
@R.function
def main_adjoint(
    t: R.Tensor((9, 2), "float32"), ids: R.Tensor(("n",), "int32")
) -> R.Tuple(
    R.Tensor((), "float32"),
    R.Tuple(R.Tuple(R.Tensor(("n", 2), "float32"), R.Tensor(("n",), "int32"))),
):
    n = T.int64()
    with R.dataflow():
        rows = R.take(t, ids, axis=0, mode="nan")
        loss = R.sum(rows)
        one = R.ones((), "float32")
        values = R.broadcast_to(one, (n, 2))
        R.output(loss, values)
    return (loss, ((values, ids),))
"""


def test_a_gradient_may_be_given_as_its_rows() -> None:
    adjoint = Gradient("main", "t", lazy=True, sparse=True)(parse_functions(LOOKUP))
    wanted = from_source(SPARSE)
    assert_structural_equal(adjoint["main_adjoint"], wanted)


def test_it_is_whole_unless_rows_are_asked_for() -> None:
    adjoint = Gradient("main", "t", lazy=True)(parse_functions(LOOKUP))["main_adjoint"]
    assert "take_backward" in adjoint.script()
    assert "grad.rows" not in adjoint.script()


def test_rows_are_printed_and_read_back() -> None:
    text = """
@R.function
def main(v: R.Tensor((3, 2), "float32"), i: R.Tensor((3,), "int32")) -> R.Tensor((9, 2), "float32"):
    y = R.grad.rows(v, i, R.shape([9, 2]))
    return y
"""
    function = from_source(text)
    assert "R.grad.rows(v, i, R.shape([9, 2]))" in str(function)
    assert_structural_equal(from_source(str(function)), function)


Read = Callable[[Any, Any], Any]
READS: dict[str, Read] = {
    "by brackets": lambda table, ids: table[ids],
    "taken": lambda table, ids: jnp.take(table, ids, axis=0),
    "filled": lambda table, ids: jnp.take(table, ids, axis=0, mode="fill", fill_value=0.0),
    "clipped": lambda table, ids: table.at[ids].get(mode="clip"),
    "wrapped": lambda table, ids: jnp.take(table, ids, axis=0, mode="wrap"),
    "of narrow ids": lambda table, ids: table[ids.astype("int8")],
    "of unsigned ids": lambda table, ids: table.at[abs(ids).astype("uint32")].get(mode="clip"),
    "of more axes": lambda table, ids: table[jnp.stack([ids, ids[::-1]])].sum(0),
    "of a scaled table": lambda table, ids: (table * 0.5)[ids],
    "of a cast table": lambda table, ids: table.astype("float32")[ids].astype(table.dtype),
    "of a negative table": lambda table, ids: (-table)[ids],
}


def check(loss: Callable[[Any, Any], Any], ids: Any, is_rows: bool = True) -> None:
    """The gradient of a table as rows and places is JAX's."""
    table = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
    with jax.enable_x64(True):
        module = from_jax(loss, table, ids)
        name = module["main"].params[0].name
        adjoint = Gradient("main", name, lazy=True, sparse=True)(module)
        well_formed(adjoint)
        value, (given,) = to_jax(adjoint, "main_adjoint")(table, ids)
        wanted, gradient = jax.value_and_grad(loss)(table, ids)
        assert isinstance(given, tuple) is is_rows
        found = to_jax(whole(given), "main")(*given) if is_rows else given
        chex.assert_trees_all_close((value, found), (wanted, gradient), rtol=1e-5, atol=1e-6)


def whole(pair: Any) -> IRModule:
    """The function that makes rows at places whole."""
    values, places = (f'R.Tensor({tuple(x.shape)}, "{x.dtype}")' for x in pair)
    body = f"y = R.grad.rows(values, places, ({ROWS}, {WIDTH}))\nreturn y"
    return parse_main(body, values=values, places=places)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_rows_come_back_however_they_are_read(read: Read) -> None:
    """Some ids come twice, some count from the back, and some are outside."""
    ids = np.array([3, 3, -1, 12, -11], "int32")
    check(lambda table, ids: jnp.sum(jnp.nan_to_num(read(table, ids)) ** 2), ids)


def random_loss(seed: int) -> Callable[[Any, Any], Any]:
    """A loss of a few lookups, each scaled, joined by sums and products."""
    random = np.random.default_rng(seed)
    reads = [list(READS.values())[n] for n in random.integers(0, len(READS), 3)]
    factors, shifts = random.normal(size=3), random.integers(-2, 3, 3)

    def loss(table: Any, ids: Any) -> Any:
        found = jnp.ones((), table.dtype)
        for read, factor, shift in zip(reads, factors, shifts, strict=True):
            scaled = factor * table if shift > 0 else table
            found = found + jnp.tanh(read(scaled, ids + int(shift))) * found
        return jnp.sum(found)

    return loss


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_lookups(seed: int) -> None:
    ids = np.random.default_rng(seed).integers(0, ROWS - 3, IDS).astype("int32")
    check(random_loss(seed), ids + 2 * (seed % 2))


NOT_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "a product, too": lambda table, ids: jnp.sum(table[ids] @ table.T),
    "columns": lambda table, ids: jnp.sum(table[:, ids % WIDTH] ** 2),
    "rows by batch": lambda table, ids: jnp.sum(
        jax.vmap(lambda row, i: row[i])(table[:5], ids % 2)
    ),
    "pairs": lambda table, ids: jnp.sum(table[ids, ids % WIDTH] ** 2),
}


@pytest.mark.parametrize("loss", NOT_ROWS.values(), ids=NOT_ROWS)
def test_what_is_no_row_stays_whole(loss: Callable[[Any, Any], Any]) -> None:
    check(loss, np.array([3, 3, 1, 2, 4], "int32"), is_rows=False)


def v(*shape: int, dtype: str = "float32") -> Var:
    return Var("v", TensorType(shape, dtype))


REFUSED = {
    "no row": (lambda: call("grad.rows", v(3), v(3, dtype="int32"), ()), "without dimensions"),
    "rank": (
        lambda: call("grad.rows", v(3, 2, 2), v(3, dtype="int32"), (9, 2)),
        "`values` must have 2 dimensions, those of `places` and of a row, found 3",
    ),
    "shape": (
        lambda: call("grad.put_rows", v(9, 2), v(4, 2), v(3, dtype="int32")),
        r"`values` must have shape \(3, 2\), one row for each place, found \(4, 2\)",
    ),
    "places": (lambda: call("grad.summed_rows", v(3, 2), v(3), (9, 2)), "an integer dtype"),
    "dtype": (
        lambda: call("grad.put_rows", v(9, dtype="float64"), v(3), v(3, dtype="int32")),
        "the dtypes must be the same",
    ),
}


@pytest.mark.parametrize(("made", "said"), REFUSED.values(), ids=REFUSED)
def test_rows_that_cannot_be_are_refused(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(OpError, match=said):
        made()
