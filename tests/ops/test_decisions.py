"""Which values of a program are decisions by floats that may be rounded otherwise the next time."""

import pytest
from parsing import parse_functions

from relaxjax.ir.function import Function
from relaxjax.ops.decisions import decisions


def found(body: str, given: bool = True) -> set[str]:
    """The names of the decisions in a function of `x` and `w`, of floats, and of a random `key`."""
    lines = body.replace("\n", "\n    ")
    mod = parse_functions(
        "@R.function\ndef main(\n    x: R.Tensor((4, 6), 'float32'),\n"
        "    w: R.Tensor((6,), 'float32'),\n"
        f"    key: R.Tensor((2,), 'uint32'),\n):\n    {lines}\n    return y"
    )
    function = mod["main"]
    assert isinstance(function, Function)
    params = function.params if given else ()
    return {var.name for var in decisions(function.body.bindings(), params)}


@pytest.mark.parametrize(
    "decision",
    [
        "R.greater(z, R.const(0.0))",
        "R.argmax(z, 1)",
        "R.argsort(z, 1)",
        "R.topk(z, 2, 1)",
        "R.astype(z, 'int32')",
        "R.floor(z)",
        "R.sign(z)",
        "R.mod(z, w)",
        "R.isnan(z)",
        "L.ge(z, z)",
        "L.round(z, rounding_method={'RoundingMethod': 'AWAY_FROM_ZERO'})",
    ],
)
def test_what_jumps_where_numbers_move_is_a_decision(decision: str) -> None:
    assert found(f"z = R.sin(x)\ny = {decision}") == {"y"}


@pytest.mark.parametrize(
    "value",
    ["R.exp(z)", "R.max(z, 1)", "R.maximum(z, w)", "R.nn.relu(z)", "R.sort(z)", "R.zeros_like(z)"],
)
def test_what_moves_a_little_is_none(value: str) -> None:
    assert found(f"z = R.sin(x)\ny = {value}") == set()


def test_what_is_given_decides_the_same_each_time_however_it_is_arranged() -> None:
    body = (
        "z = R.permute_dims(R.reshape(x, (6, 4)))\nh = R.astype(z, 'float16')\ny = R.argmax(h, 1)"
    )
    assert found(body) == set()
    assert found(body, given=False) == {"y"}


def test_so_do_random_numbers_and_integers() -> None:
    draws = "n = R.astype(key, 'float32')\np = R.exp(R.multiply(n, R.const(0.1)))\n"
    assert found(draws + "y = R.less(p, R.const(0.5))") == set()
    assert found("m = R.greater(R.sin(x), R.const(0.0))\ny = R.logical_not(m)") == {"m"}


def test_random_numbers_beside_rounded_ones_decide_by_those() -> None:
    draws = "n = R.broadcast_to(R.astype(R.sum(key), 'float32'), (4, 6))\n"
    assert found(draws + "y = R.less(n, R.sin(x))") == {"y"}
