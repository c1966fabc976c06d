"""Modules as pickles: all that they say comes back, and nothing but parts of programs is read."""

import os
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from relaxjax import from_source
from relaxjax.ir import Constant, IRModule, TensorType, Tuple, Var, assert_structural_equal
from relaxjax.passes.infrastructure.pickled_module import pickled, unpickled

TEXT = """
@I.ir_module
class Module:
    I.module_attrs({"param_num": 1, "by": [1.5, True, None, "name"]})

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", 4), "float32")):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.reshape(y, R.shape([n * 2, 2]))
            s = R.add(z, R.const(1.0, "float32"))
            R.output(s)
        return (s, R.strided_slice(s, [0], [0], [T.min(n, 4)]))
"""


def test_a_module_comes_back() -> None:
    mod = from_source(TEXT)
    again = unpickled(pickled(mod))
    assert_structural_equal(again, mod)
    assert again.script() == mod.script()
    lines = [binding.span for binding in mod["main"].body.bindings()]
    assert [binding.span for binding in again["main"].body.bindings()] == lines


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "bfloat16", "float8_e4m3fn", "int4"])
def test_numbers_come_back_bit_for_bit(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    data = np.arange(6).reshape(2, 3).T.astype(kind)
    again = unpickled(pickled(IRModule({}, {"states": (Constant(data),)})))
    (state,) = again.attrs["states"]
    assert (state.data.dtype, state.data.shape) == (kind, (3, 2))
    assert state.data.tobytes() == data.tobytes()


class Mine:
    """A class of somebody else's."""


@pytest.mark.parametrize(
    ("value", "name"), [(len, "len"), (Mine, "Mine"), (Mine(), "Mine"), (lambda x: x, "<lambda>")]
)
def test_what_holds_others_is_an_error(value: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"`.*{name}` is no part of a program"):
        pickled(IRModule({}).with_attr("by", value))


class Calls:
    def __init__(self, function: Any, *args: Any) -> None:
        self.called = function, args

    def __reduce__(self) -> Any:
        return self.called


@pytest.mark.parametrize("function", [os.getcwd, unpickled, eval])
def test_nothing_else_is_called(function: Any) -> None:
    content = pickle.dumps(Calls(function, *(["1"] if function is eval else [])))
    with pytest.raises(ValueError, match=f"{function.__name__}` is no part of a program"):
        unpickled(content)


def test_another_node_is_an_error() -> None:
    with pytest.raises(ValueError, match="it holds a Var"):
        unpickled(pickle.dumps(Var("x", TensorType((2,), "float32"))))


def test_a_module_nested_too_deeply_is_an_error() -> None:
    x = Var("x", TensorType((), "float32"))
    nested: Any = x
    for _ in range(2000):
        nested = Tuple((nested,), ty=x.ty)
    with pytest.raises(TypeError, match="the module cannot be pickled"):
        pickled(IRModule({}).with_attr("by", nested))
