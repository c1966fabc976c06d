"""Loops of PyTorch: which of them have a bound, and so a gradient, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Constant, Expr, Tuple, Var, const
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import post_order
from relaxjax.lowering import to_jax
from relaxjax.ops.emit import call
from relaxjax.passes import Gradient
from relaxjax.passes.differentiation.adjoint import GradientError
from relaxjax.testing.equations import run
from relaxjax.torch import TorchImportError, from_torch
from relaxjax.torch.chosen import Chosen
from relaxjax.torch.interpreter import Interpreter
from relaxjax.torch.program import Argument, Graph, Node, Ref, SubGraph, TensorMeta
from relaxjax.torch.sizes import Sizes

COUNT, X, LIMIT = Ref("i"), Ref("x"), Ref("limit")
INPUTS = (COUNT, X, LIMIT)


def meta(dtype: str = "int64", size: int | None = None) -> TensorMeta:
    sizes = () if size is None else (size,)
    return TensorMeta(dtype, sizes, sizes, (1,) * len(sizes), False)


def node(target: str, result: str, first: Argument, second: Argument, **more: Argument) -> Node:
    return Node(f"aten.{target}", {"self": first, "other": second, **more}, (result,))


def graph(*nodes: Node, outputs: tuple[Ref, ...], dtype: str) -> Graph:
    metas = {"double": meta("float32", 2), "small": meta("bool"), "both": meta("bool")}
    metas |= {"holds": meta("bool"), "next": meta(dtype), "total": meta("float32")}
    return Graph(INPUTS, nodes, outputs, metas)


def looped(
    test: list[Node], step: Node | None, start: Expr | None = None, limit: Any = 7
) -> IRModule:
    """A program that doubles a vector as long as a test holds, and counts by a step."""
    start = const(0, "int64") if start is None else start
    assert isinstance(start.ty, TensorType)
    dtype = str(start.ty.dtype)
    double = node("mul.Tensor", "double", X, 2.0)
    after = (Ref("next") if step else COUNT, Ref("double"))
    cond = graph(*test, outputs=(Ref(test[-1].results[0]),), dtype=dtype)  # type: ignore[arg-type]
    body = graph(double, *([step] if step else []), outputs=after, dtype=dtype)
    carried, others = [Ref("start"), Ref("v")], [Ref("most")]
    arguments = {str(n): one for n, one in enumerate((SubGraph(cond), SubGraph(body)))}
    loop = Node(
        "higher_order.while_loop",
        {**arguments, "2": carried, "3": others},
        ("count", "grown"),
    )
    builder, v = BlockBuilder(), Var("v", TensorType((2,), "float32"))
    params = [v, *([start] if isinstance(start, Var) else [])]
    interpreter = Interpreter(builder, Sizes())
    with builder.function("main", params):
        with builder.dataflow():
            for name, value in (("start", start), ("v", v), ("most", limit)):
                interpreter.bind(name, value)
            results = {"count": meta(dtype), "grown": meta("float32", 2)}
            interpreter.run(Graph((), (loop,), (), results))
            found = [interpreter.read(Ref(name)) for name in ("count", "grown")]
            outputs = [builder.emit_output(one) for one in found]
        builder.emit_func_output(Tuple(tuple(outputs)))
    return builder.get()


def bound(mod: IRModule) -> int | None:
    """The bound of the only loop; None where it is one without."""
    loops = {get_op("relax.while_loop"), get_op("lax.while_loop")}
    (loop,) = (one for one in post_order(mod["main"]) if isinstance(one, Call) and one.op in loops)
    found: int | None = loop.attrs.get("max_iter")
    return found


UP = node("add.Tensor", "next", COUNT, 1)
UP_BY_3 = node("add.Tensor", "next", COUNT, 3)
DOWN = node("sub.Tensor", "next", COUNT, 2)
DOWN_BY_1 = node("add.Tensor", "next", COUNT, -1)
SUM = Node("aten.sum.default", {"self": X}, ("total",))
SMALL = node("lt.Scalar", "small", Ref("total"), 20)


def compared_with(target: str, limit: Argument) -> list[Node]:
    return [node(target, "holds", COUNT, limit)]


def both(target: str) -> list[Node]:
    also = node(target, "both", Ref("small"), Ref("holds"))
    return [SUM, SMALL, *compared_with("lt.Scalar", 4), also]


NINE = const(9, "int64")
# What is tested, how it counts, where it starts, and how many steps there are at most.
COUNTED: dict[str, tuple[list[Node], Node, Expr | None, int]] = {
    "below": (compared_with("lt.Scalar", 4), UP, None, 4),
    "below, by larger steps": (compared_with("lt.Scalar", 4), UP_BY_3, None, 2),
    "not above": (compared_with("le.Scalar", 6), UP_BY_3, None, 3),
    "above": (compared_with("gt.Scalar", 1), DOWN, NINE, 4),
    "not below": (compared_with("ge.Scalar", 1), DOWN, NINE, 5),
    "by a negative step": (compared_with("gt.Scalar", 7), DOWN_BY_1, NINE, 2),
    "a limit of floats": (compared_with("lt.Scalar", 3.5), UP, None, 4),
    "a limit that is a tensor": (compared_with("lt.Tensor", LIMIT), UP, None, 7),
    "never": (compared_with("lt.Scalar", 4), UP, NINE, 0),
    "beside another test": (both("logical_and.default"), UP, None, 4),
    "beside another test, by &": (both("bitwise_and.Tensor"), UP, None, 4),
    "from one that is filled": (
        compared_with("lt.Scalar", 4), UP, call("full", [], const(1, "int64"), "int64"), 3
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_a_loop_that_counts_its_steps_has_a_bound_and_a_gradient(name: str) -> None:
    tests, step, start, most = COUNTED[name]
    mod = looped(tests, step, start, const(7, "int64"))
    assert bound(mod) == most
    v = np.array([0.5, 0.75], "float32")
    count, grown = run(to_jax(mod, "main"), v)
    steps = int(np.log2(grown[0] / v[0]))
    assert steps == most
    assert count == (0 if start is None else 1 if isinstance(start, Call) else 9) + steps * (
        int(step.arguments["other"]) * (-1 if step is DOWN else 1)
    )
    gradient = Gradient("main", mod["main"].params, target_index=1, cotangent=True)(mod)
    _, (slope,) = run(to_jax(gradient, "main_adjoint"), v, np.ones(2, "float32"))
    np.testing.assert_array_equal(slope, [2.0**most] * 2)


INT8 = const(0, "int8")
START = Var("start", TensorType((), "int64"))
# What is tested, how it counts, and where it starts.
UNKNOWN: dict[str, tuple[list[Node], Node | None, Expr | None]] = {
    "one that counts nothing": ([SUM, SMALL], None, None),
    "one whose counter stays": ([*compared_with("lt.Scalar", 4)], None, None),
    "the other way round": (compared_with("lt.Scalar", 4), DOWN, None),
    "no step": (compared_with("lt.Scalar", 4), node("add.Tensor", "next", COUNT, 0), None),
    "a step by alpha": (
        compared_with("lt.Scalar", 4),
        node("add.Tensor", "next", COUNT, 1, alpha=2),
        None,
    ),
    "a start that is an input": (compared_with("lt.Scalar", 4), UP, START),
    "a limit that is carried": (compared_with("ne.Scalar", 4), UP, None),
    "no limit": (compared_with("lt.Scalar", float("inf")), UP, None),
    "a step from another number": (
        compared_with("lt.Scalar", 4), node("add.Tensor", "next", LIMIT, 1), None
    ),
    "a step by a tensor": (
        compared_with("lt.Scalar", 4), node("add.Tensor", "next", COUNT, LIMIT), None
    ),
    "a start that is computed": (
        compared_with("lt.Scalar", 4), UP, call("multiply", const(5, "int64"), const(2, "int64"))
    ),
    "beyond its dtype": (compared_with("lt.Scalar", 127.5), UP, INT8),
    "beyond all counting": (compared_with("lt.Scalar", 2**31), UP, None),
    "one test or the other": (both("logical_or.default"), UP, None),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_loop_whose_steps_are_not_known_has_no_bound(name: str) -> None:
    assert bound(looped(*UNKNOWN[name], const(7, "int64"))) is None


def test_a_loop_without_a_bound_gives_what_it_should_and_refuses_its_gradient() -> None:
    mod = looped([SUM, SMALL], UP, None, const(7, "int64"))
    count, grown = run(to_jax(mod, "main"), np.array([1, 2], "float32"))
    assert count == 3
    np.testing.assert_array_equal(grown, [8, 16])
    with pytest.raises(GradientError, match=r"in PyTorch, `scan`, or a test `i < n` of a count"):
        Gradient("main", mod["main"].params, target_index=1, cotangent=True)(mod)


def test_the_file_has_one_loop_of_each_kind() -> None:
    text = str(from_torch(Path(__file__).parent / "files" / "loops.pt2").mod.script())
    assert [text.count(one) for one in ("R.scan(", "R.while_loop(", "L.while_loop(")] == [2, 1, 1]
    assert "max_iter=4" in text


def test_what_a_mask_chooses_goes_into_no_loop() -> None:
    builder = BlockBuilder()
    interpreter = Interpreter(builder, Sizes())
    data, mask = (Var(name, TensorType((3,), dtype)) for name, dtype in MASKED.items())
    body = Graph((X,), (), (X,), {})
    loop = Node("higher_order.map_impl", {"0": SubGraph(body), "1": [X], "2": []}, (("y",),))
    with builder.function("main", [data, mask]):
        interpreter.bind("x", Chosen(data, mask))
        with pytest.raises(TorchImportError, match=r"a loop takes it: choose by torch\.where"):
            interpreter.run(Graph((), (loop,), (), {}))
        builder.emit_func_output(Constant(np.zeros(())))


MASKED = {"data": "float32", "mask": "bool"}
