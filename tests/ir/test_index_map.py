"""Index maps: from functions and from layouts, as text, compared, saved."""

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from relaxjax import Call, TensorType, Var, from_source
from relaxjax.ir import SymbolicVar, load_json, save_json, structural_equal, structural_hash
from relaxjax.ir.index_map import index_map
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (lambda n, c: (n, c // 4, c % 4), "lambda n, c: (n, c // 4, c % 4)"),
        (lambda n: n, "lambda n: (n,)"),
        (lambda i, j: [i * 8 + j], "lambda i, j: (i * 8 + j,)"),
        ("NCHW -> NHWC", "lambda N, C, H, W: (N, H, W, C)"),
        ("NCHW->NCHW16c", "lambda N, C, H, W: (N, C // 16, H, W, C % 16)"),
        ("NCHW16c -> NCHW", "lambda N, C, H, W, c: (N, C * 16 + c, H, W)"),
        # The canonical form takes out of (C * 4 + c) // 2 what is exact.
        ("NC4c -> NC2c", "lambda N, C, c: (N, C * 2 + (c // 2), c % 2)"),
    ],
)
def test_a_map_is_written_as_a_lambda(layout: Any, text: str) -> None:
    assert repr(index_map(layout)) == f"T.index_map({text})"


def test_the_names_of_parameters_do_not_count() -> None:
    assert index_map(lambda a, b: (b, a)) == index_map(lambda x, y: (y, x))
    assert hash(index_map("AB -> BA")) == hash(index_map("NC -> CN"))
    assert index_map(lambda a, b: (b, a)) != index_map(lambda a, b: (a, b))
    assert index_map(lambda a: (a, 0)) != index_map(lambda a, b: (a, 0))


def test_a_map_survives_copies_and_pickling() -> None:
    layout = index_map("NCHW -> NCHW16c")
    for again in (copy.deepcopy(layout), pickle.loads(pickle.dumps(layout))):
        assert again == layout
        assert repr(again) == repr(layout)


def _call() -> Call:
    x = Var("x", TensorType((2, 6), "float32"))
    return get_op("relax.layout_transform")(x, lambda n, c: (n, c // 4, c % 4), 1.0)


def test_a_map_is_saved_and_compared_as_part_of_a_program() -> None:
    call, again = _call(), _call()
    assert structural_equal(call, again, map_free_vars=True)
    assert structural_hash(call) == structural_hash(again)
    assert structural_equal(load_json(save_json(call)), call, map_free_vars=True)
    other = replace(call, attrs=call.attrs.updated(index_map=index_map("NC -> NC6c")))
    assert structural_hash(call) != structural_hash(other)


def test_a_map_of_a_text_reads_back() -> None:
    text = """
@R.function
def f(x: R.Tensor((2, 6), dtype="float32")):
    y = R.layout_transform(x, index_map=T.index_map(lambda n, c: (n, c // 4, c % 4)), pad_value=1.0)
    return y
"""
    function = from_source(text)
    assert "index_map=T.index_map(lambda n, c: (n, c // 4, c % 4))" in function.script()
    assert structural_equal(from_source(function.script()), function)


n = SymbolicVar("n")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: index_map(cast(Any, 3)), "must be a function such as `lambda n, c: (c, n)`"),
        (lambda: index_map(lambda *a: a), "must have plain parameters, one for each axis: no `*`"),
        (lambda: index_map(lambda i: (i, n)), "may use its own parameters only, but it uses ['n']"),
        (lambda: index_map(lambda i: (i, 0.5)), "`0.5` is no dimension"),
        (lambda: index_map("NCHW"), 'must be two layouts of the same axes, as "NCHW -> NHWC"'),
        (lambda: index_map("NC -> NW"), "must be two layouts of the same axes"),
        (lambda: index_map("NC -> NCc"), 'must be layouts such as "NCHW" or "NCHW16c"'),
        (lambda: index_map("NC -> N4c"), 'must be layouts such as "NCHW" or "NCHW16c"'),
        (lambda: index_map("NN -> NN"), 'must be layouts such as "NCHW" or "NCHW16c"'),
    ],
)
def test_what_is_no_map_is_told(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        make()


def test_a_saved_map_must_name_its_parameters() -> None:
    text = save_json(_call()).replace('"names": ["n", "c"]', '"names": ["n", "n"]')
    with pytest.raises(ValueError, match="must name each of its 2 parameters once"):
        load_json(text)
