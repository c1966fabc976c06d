"""What a mask chooses: what may be computed of it without its size, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aten_results import value

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Constant, Expr, Var, const
from relaxjax.ir.types import TensorType
from relaxjax.lowering import VirtualMachine, build
from relaxjax.ops.emit import call
from relaxjax.torch.aten import TABLE
from relaxjax.torch.chosen import Chosen, ChosenCount, computed, concerned, same_value

X = Var("x", TensorType((2, 3), "float32"))
Y = Var("y", TensorType((2, 3), "float32"))
LABELS = Var("labels", TensorType((2, 3), "int64"))
ROWS, COLUMNS = (Var(name, TensorType((2,), "bool")) for name in ("rows", "columns"))
EACH = Var("each", TensorType((2, 3), "bool"))


def chosen(x: Expr = X, mask: Expr = ROWS) -> Any:
    return run("index.Tensor", self=x, indices=[mask])


def run(name: str, **given: Any) -> Any:
    assert concerned(f"aten.{name}", given)
    return computed(f"aten.{name}", given, lambda one, other: one is other)


CASES: dict[str, Callable[[], Any]] = {
    "sums of rows": lambda: run("sum.dim_IntList", self=chosen(), dim=[0]),
    "means of rows": lambda: run("mean.dim", self=chosen(), dim=[0, 1]),
    "by their axes": lambda: run(
        "sum.default", self=run("mean.dim", self=chosen(), dim=[-1], keepdim=True)
    ),
    "squares": lambda: run(
        "sum.default", self=run("pow.Tensor_Scalar", self=chosen(mask=EACH), exponent=2)
    ),
    "written": lambda: run(
        "index_put.default",
        self=Y,
        indices=[ROWS],
        values=run("div.Tensor", self=chosen(), other=2),
        accumulate=True,
    ),
    "errors": lambda: run("l1_loss.default", self=chosen(), target=chosen(Y), reduction=2),
}
XS, YS = np.arange(6.0, dtype="float32").reshape(2, 3), np.ones((2, 3), "float32")
WANTED = {
    "sums of rows": XS[1],
    "means of rows": XS[1].mean(),
    "by their axes": XS[1].mean(),
    "squares": XS[0, 1] ** 2 + XS[1, 2] ** 2,
    "written": np.stack([YS[0], YS[1] + XS[1] / 2]),
    "errors": np.abs(XS[1] - 1).sum(),
}


@pytest.mark.parametrize("name", CASES)
def test_what_needs_no_size(name: str) -> None:
    builder = BlockBuilder()
    with builder.function("main", [X, Y, ROWS, EACH]):
        builder.emit_func_output(CASES[name]())
    rows, each = np.array([False, True]), np.array([[0, 1, 0], [0, 0, 1]], bool)
    found = VirtualMachine(build(builder.get()))["main"](XS, YS, rows, each)
    np.testing.assert_allclose(found, WANTED[name], rtol=1e-6)


def test_sizes_that_are_known_and_the_one_that_is_not() -> None:
    assert run("sym_size.int", self=chosen(), dim=1) == 3
    assert run("sym_size.int", self=chosen(), dim=-2) == ChosenCount()
    assert run("broadcast_tensors.default", tensors=[chosen(), chosen(Y)])[1].mask is ROWS


EVERY_OTHER = np.array([True, False, True])


def test_what_is_chosen_by_a_mask_that_the_program_holds() -> None:
    """Its size is known, as that of places is."""
    mask, table = Constant(EVERY_OTHER), TABLE
    given = {"self": X, "indices": [None, mask]}
    assert not concerned("aten.index.Tensor", given)
    assert not concerned("aten.masked_select.default", {"self": X, "mask": mask})

    def written(x: Expr) -> Expr:
        values = const(np.array([[7.0, 8.0], [9.0, 10.0]], "float32"))
        found: Expr = table["aten.index_put.default"].rule(x, [None, mask], values)
        return found

    calls: list[tuple[Callable[[Expr], Expr], Any]] = [
        (lambda x: table["aten.index.Tensor"].rule(x, [None, mask]), XS[:, EVERY_OTHER]),
        (lambda x: table["aten.masked_select.default"].rule(x, mask), XS[:, EVERY_OTHER].ravel()),
        (lambda x: table["aten.index.Tensor"].rule(x, [Constant(XS > 2)]), XS[XS > 2]),
        (lambda x: table["aten.index.Tensor"].rule(x, [Constant(XS > 9)]), XS[XS > 9]),
        (written, [[7, 1, 8], [9, 4, 10]]),
    ]
    for ours, wanted in calls:
        np.testing.assert_array_equal(value(ours, XS), wanted)
    x = Var("x", TensorType((SymbolicVar("n"), 3), "float32"))
    with pytest.raises(ValueError, match=r"\(n, 3\) has a size that no compiled program knows"):
        table["aten.masked_select.default"].rule(x, mask)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "two masks": (
        lambda: run("add.Tensor", self=chosen(), other=chosen(mask=COLUMNS)),
        "two masks meet",
    ),
    "another shape": (
        lambda: run("add.Tensor", self=chosen(), other=X),
        "a tensor of another shape",
    ),
    "a logarithm": (lambda: run("log.default", self=chosen()), "written back by the same mask"),
    "a root": (
        lambda: run("pow.Tensor_Scalar", self=chosen(), exponent=0.5),
        "written back by the same mask",
    ),
    "a quotient": (
        lambda: run("div.Tensor", self=chosen(), other=chosen(Y)),
        "written back by the same mask",
    ),
    "a kept axis": (
        lambda: run("sum.dim_IntList", self=chosen(), dim=[0], keepdim=True),
        "the axis is kept",
    ),
    "a size": (lambda: run("full.default", size=[ChosenCount()]), r"divide by `mask.sum\(\)`"),
    "twice": (lambda: run("index.Tensor", self=chosen(), indices=[ROWS]), "may be added to"),
    "another mask": (
        lambda: run("index_put.default", self=Y, indices=[COLUMNS], values=chosen()),
        "written back by the same mask",
    ),
    "losses of each": (
        lambda: run(
            "cross_entropy_loss.default",
            self=chosen(),
            target=chosen(LABELS, EACH),
            reduction=1,
        ),
        "two masks meet",
    ),
    "shares": (
        lambda: run("cross_entropy_loss.default", self=chosen(), target=chosen(Y)),
        "choose by torch.where",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"which no compiled program knows.*{message}"):
        make()


def test_values_that_are_computed_alike_are_the_same() -> None:
    builder = BlockBuilder()
    with builder.function("main", [X, Y]):
        signs = [builder.emit(call("sign", builder.emit(call("exp", x)))) for x in (X, X, Y)]
        drawn = [builder.emit(call("nn.dropout", X)[0]) for _ in range(2)]
        builder.emit_func_output(signs[0])
    assert same_value(signs[0], signs[1], builder.lookup_binding)
    assert not same_value(signs[0], signs[2], builder.lookup_binding)
    assert not same_value(drawn[0], drawn[1], builder.lookup_binding)
    assert same_value(drawn[0], drawn[0], builder.lookup_binding)


def test_a_mask_of_the_later_axes_is_not_read() -> None:
    assert not concerned("aten.index.Tensor", {"self": X, "indices": [None, EACH]})
    assert isinstance(chosen(), Chosen)


def test_values_for_each_chosen_row_are_the_same_ones() -> None:
    put = TABLE["aten.index_put.default"].rule
    builder = BlockBuilder()
    row = Var("row", TensorType((3,), "float32"))
    with builder.function("main", [X, ROWS, row]):
        builder.emit_func_output(put(X, [ROWS], row))
    found = VirtualMachine(build(builder.get()))["main"](XS, np.array([False, True]), YS[0])
    np.testing.assert_array_equal(found, [XS[0], YS[0]])
