"""Recurrent networks: LSTM, GRU and plain ones, of several layers and both directions."""

from collections.abc import Callable, Sequence
from typing import Any

from jax import lax, nn
from jax import numpy as jnp

from relaxjax.ir.expr import Expr, TupleGetItem
from relaxjax.ops.emit import call, dims_of

from .norms import dropped
from .shapes import transpose
from .table import aten, traced

# One step: the products of the input with its biases, the state, what multiplies the state and its
# bias; and of an LSTM, what may multiply its output.
Cell = Callable[..., tuple[Any, ...]]


def _lstm_cell(
    products: Any, state: tuple[Any, ...], weight: Any, bias: Any, projection: Any = None
) -> tuple[Any, ...]:
    hidden, memory = state
    gates = products + hidden @ weight.T + bias
    enter, forget, new, leave = jnp.split(gates, 4, axis=-1)
    memory = nn.sigmoid(forget) * memory + nn.sigmoid(enter) * jnp.tanh(new)
    hidden = nn.sigmoid(leave) * jnp.tanh(memory)
    return hidden if projection is None else hidden @ projection.T, memory


def _gru_cell(products: Any, state: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    (hidden,) = state
    reset, update, new = jnp.split(products, 3, axis=-1)
    of_reset, of_update, of_new = jnp.split(hidden @ weight.T + bias, 3, axis=-1)
    kept = nn.sigmoid(update + of_update)
    fresh = jnp.tanh(new + nn.sigmoid(reset + of_reset) * of_new)
    return ((1 - kept) * fresh + kept * hidden,)


def _tanh_cell(products: Any, state: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    return (jnp.tanh(products + state[0] @ weight.T + bias),)


def _relu_cell(products: Any, state: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    return (nn.relu(products + state[0] @ weight.T + bias),)


def _run(cell: Cell, reverse: bool, count: int, has_biases: bool) -> Callable[..., Any]:
    """One layer in one direction, as JAX says it: time is the first axis."""

    def layer(x: Any, *rest: Any) -> Any:
        state, (inner, outer, *others) = rest[:count], rest[count:]
        before, within = (others[0][None, None], others[1][None]) if has_biases else (0, 0)
        projections = others[2:] if has_biases else others
        products = x @ inner.T + before

        def step(carry: tuple[Any, ...], products_now: Any) -> tuple[tuple[Any, ...], Any]:
            new = cell(products_now, carry, outer, within, *projections)
            return new, new[0]

        last, outputs = lax.scan(step, tuple(state), products, reverse=reverse)
        return (outputs, *last)

    return layer


def _layers(
    cell: Cell,
    x: Expr,
    states: Sequence[Expr],
    params: Sequence[Expr],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Expr, list[list[Expr]]]:
    """The outputs of the last layer, and the last states of all layers and directions."""
    directions = 1 + bidirectional
    per_run = len(params) // (num_layers * directions)
    last: list[list[Expr]] = [[] for _ in states]
    for number in range(num_layers):
        outputs = []
        for direction in range(directions):
            place = number * directions + direction
            given = params[place * per_run : (place + 1) * per_run]
            start = [call("squeeze", _row(state, place), [0]) for state in states]
            found = traced(_run(cell, direction == 1, len(states), has_biases), x, *start, *given)
            outputs.append(TupleGetItem(found, 0))
            for index, rows in enumerate(last):
                rows.append(TupleGetItem(found, index + 1))
        x = outputs[0] if directions == 1 else call("concat", outputs, 2)
        if number < num_layers - 1:
            x = dropped(x, dropout, train)
    return x, last


def _row(x: Expr, place: int) -> Expr:
    return call("strided_slice", x, [0], [place], [place + 1], [1])


def _stacked(rows: Sequence[Expr]) -> Expr:
    return call("stack", list(rows), 0)


def _whole(
    cell: Cell, x: Expr, states: Sequence[Expr], batch_first: bool, *rest: Any
) -> tuple[Expr, ...]:
    alone = len(dims_of(x)) == 2
    if alone:
        x, states = call("expand_dims", x, 1), [call("expand_dims", one, 1) for one in states]
    elif batch_first:
        x = transpose(x, 0, 1)
    outputs, last = _layers(cell, x, states, *rest)
    found = [outputs, *map(_stacked, last)]
    if alone:
        return tuple(call("squeeze", one, [1]) for one in found)
    return (transpose(outputs, 0, 1) if batch_first else outputs, *found[1:])


def _network(cell: Cell) -> Callable[..., tuple[Expr, ...]]:
    def rule(
        input: Expr,  # torch's name
        hx: Expr | Sequence[Expr],
        params: Sequence[Expr],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Expr, ...]:
        rest = params, has_biases, num_layers, dropout, train, bidirectional
        states = [hx] if isinstance(hx, Expr) else hx
        return _whole(cell, input, states, batch_first, *rest)

    return rule


for _name, _cell in (
    ("lstm", _lstm_cell),
    ("gru", _gru_cell),
    ("rnn_tanh", _tanh_cell),
    ("rnn_relu", _relu_cell),
):
    aten(f"{_name}.input")(_network(_cell))


def _one_step(
    cell: Cell,
    x: Expr,
    states: Sequence[Expr],
    weights: Sequence[Expr],
    biases: Sequence[Expr | None],
) -> Expr:
    """What one step of a cell gives, as a tuple where it has several states."""
    count = len(states)

    def step(x: Any, *rest: Any) -> Any:
        inner, outer, *given = rest[count:]
        before, within = (0 if one is None else given.pop(0) for one in biases)
        new = cell(x @ inner.T + before, rest[:count], outer, within)
        return new[0] if count == 1 else new

    return traced(step, x, *states, *weights, *(one for one in biases if one is not None))


@aten("lstm_cell.default")
def lstm_cell(
    input: Expr,  # torch's name
    hx: Sequence[Expr],
    w_ih: Expr,
    w_hh: Expr,
    b_ih: Expr | None = None,
    b_hh: Expr | None = None,
) -> tuple[Expr, ...]:
    found = _one_step(_lstm_cell, input, hx, (w_ih, w_hh), (b_ih, b_hh))
    return TupleGetItem(found, 0), TupleGetItem(found, 1)


def _cell_of_one_state(cell: Cell) -> Callable[..., Expr]:
    def rule(
        input: Expr,
        hx: Expr,
        w_ih: Expr,
        w_hh: Expr,
        b_ih: Expr | None = None,
        b_hh: Expr | None = None,
    ) -> Expr:
        return _one_step(cell, input, [hx], (w_ih, w_hh), (b_ih, b_hh))

    return rule


for _name, _cell in (("gru", _gru_cell), ("rnn_tanh", _tanh_cell), ("rnn_relu", _relu_cell)):
    aten(f"{_name}_cell.default")(_cell_of_one_state(_cell))
