"""Equal calls are spelt out alike: the program of a lowering is read once."""

from typing import Any

import pytest

from relaxjax import IRModule, from_source
from relaxjax.lowering import legalize
from relaxjax.lowering.spelling import Spelling
from relaxjax.ops.lax import read_jaxpr

LAYERS = """
@R.function
def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
    with R.dataflow():
        a = R.nn.softmax(R.matmul(x, w))
        b = R.nn.softmax(R.matmul(a, w))
        c = R.nn.softmax(R.const([[1.0] * 8] * 2, "float32"))
        parts = R.split(b, 2, axis=1)
        others = R.split(c, 2, axis=1)
        y = R.cumprod(R.add(parts[0], others[1]), axis=1)
        z = R.cumprod(y, axis=1)
        R.output(z, others)
    return z, others
"""


def legal() -> IRModule:
    main: Any = from_source(LAYERS)
    return legalize(IRModule({"main": main}), "cpu")


def test_equal_calls_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    def counted(program: Any, *args: Any, **options: Any) -> Any:
        read.append(program)
        return read_jaxpr(program, *args, **options)

    monkeypatch.setitem(legalize.__globals__, "read_jaxpr", counted)
    text = legal().script()
    assert text.count("L.exp(") == 3
    assert len(set(map(id, read))) == len(read)


def test_they_are_spelt_out_as_if_each_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    once = legal().script()
    monkeypatch.setattr(Spelling, "of", lambda *_: None)
    assert legal().script() == once
