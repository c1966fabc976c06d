"""Random dimensions, attributes and well-typed modules, for properties that hold of all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax import FuncType, If, IRModule, SeqExpr, TensorType
from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import Dim, SymbolicVar, dim_max, dim_min
from relaxjax.ir.expr import (
    Constant,
    DataflowVar,
    Expr,
    GlobalVar,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from relaxjax.ir.op import get_op

# Dimensions

# An arithmetic formula: an integer, the index of a variable, or an operation on two formulas.
Formula: TypeAlias = "int | str | tuple[str, Formula, Formula]"
VARIABLES = ("a", "b", "c")

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
}
_SYMBOLIC = {**_ARITHMETIC, "max": dim_max, "min": dim_min}
_NUMERIC = {**_ARITHMETIC, "max": max, "min": min}


def formulas(operators: str = "+ - * // % max min") -> st.SearchStrategy[Formula]:
    """Formulas over three variables."""
    leaves = st.sampled_from(VARIABLES) | st.integers(-4, 9)
    kinds = st.sampled_from(operators.split())
    return st.recursive(leaves, lambda inner: st.tuples(kinds, inner, inner), max_leaves=8)


def dim_of(formula: Formula, values: dict[str, Any]) -> Dim:
    """The formula in the arithmetic of dimensions."""
    return _evaluated(formula, values, _SYMBOLIC)  # type: ignore[no-any-return]  # dims go in


def number_of(formula: Formula, values: dict[str, int]) -> int:
    """The formula in the arithmetic of integers."""
    return _evaluated(formula, values, _NUMERIC)  # type: ignore[no-any-return]  # ints go in


def computed(compute: Callable[..., Any], *args: Any) -> Any:
    """The result, or a discarded example where it divides by zero."""
    try:
        return compute(*args)
    except ZeroDivisionError:
        assume(False)


def _evaluated(formula: Formula, values: dict[str, Any], operators: dict[str, Any]) -> Any:
    match formula:
        case int():
            return formula
        case str():
            return values[formula]
        case (kind, lhs, rhs):
            sides = (_evaluated(side, values, operators) for side in (lhs, rhs))
            return operators[kind](*sides)


# Attributes


def attribute_values() -> st.SearchStrategy[Any]:
    """What attributes may hold: scalars of all kinds, in tuples and in attributes."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    names = st.text("abc", min_size=1, max_size=2)
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(names, inner, max_size=3).map(Attrs)
        ),
        max_leaves=6,
    )


# Modules


@st.composite
def modules(draw: st.DrawFn) -> IRModule:
    """A well-formed module: dataflow and other blocks, choices, closures, calls, casts, tuples."""
    builder = BlockBuilder()
    callees: list[GlobalVar] = []
    for index in range(draw(st.integers(0, 2))):
        name, private = f"helper{index}", draw(st.booleans())
        callees.append(_function(draw, builder, name, callees, private=private))
    _function(draw, builder, "main", callees)
    attrs = {"seed": draw(attribute_values())} if draw(st.booleans()) else {}
    module = builder.get()
    return module.with_attrs(attrs) if attrs else module


def _function(
    draw: st.DrawFn,
    builder: BlockBuilder,
    name: str,
    callees: list[GlobalVar],
    private: bool = False,
) -> GlobalVar:
    """One function of two tensors and a condition, with a body of a few blocks."""
    sizes: list[Dim] = [2, SymbolicVar("n"), SymbolicVar("rows")]
    rows = draw(st.sampled_from(sizes))
    ty = TensorType((rows, draw(st.integers(2, 3))), draw(st.sampled_from(["float32", "float16"])))
    params = [Var("x", ty), Var("y", ty), Var("flag", TensorType((), "bool"))]
    attrs = {"note": draw(attribute_values())} if draw(st.booleans()) else None
    with builder.function(name, params, attrs=attrs, private=private):
        maker = _Maker(draw, builder, ty, params[2], list(params[:2]), callees)
        maker.blocks(draw(st.integers(0, 3)))
        return builder.emit_func_output(draw(st.sampled_from(maker.tensors)))


@dataclass
class _Maker:
    """Emits random bindings; `tensors` are the visible values of type `ty`."""

    draw: st.DrawFn
    builder: BlockBuilder
    ty: TensorType
    flag: Var
    tensors: list[Expr]
    callees: list[GlobalVar]

    def blocks(self, count: int) -> None:
        for _ in range(count):
            if self.draw(st.booleans()):
                self.dataflow()
            else:
                self.bindings(_STEPS + _CONTROL_STEPS)

    def dataflow(self) -> None:
        with self.builder.dataflow():
            self.bindings(_STEPS)
            output = self.builder.emit_output(self.tensor())
        visible = [item for item in self.tensors if not isinstance(item, DataflowVar)]
        self.tensors = [*visible, output]

    def bindings(self, steps: "tuple[Callable[[_Maker], None], ...]") -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            self.draw(st.sampled_from(steps))(self)

    def tensor(self) -> Expr:
        return self.draw(st.sampled_from(self.tensors))

    def keep(self, value: Expr) -> None:
        self.tensors.append(self.builder.emit(value, self.draw(st.sampled_from(["", "x", "z"]))))

    def operator(self) -> None:
        name = self.draw(st.sampled_from(["relax.add", "relax.multiply", "relax.subtract"]))
        self.keep(get_op(name)(self.tensor(), self.tensor()))

    def nested(self) -> None:
        self.keep(self.tensor() * (self.tensor() + self.tensor()))

    def alias(self) -> None:
        self.keep(self.tensor())

    def constant(self) -> None:
        dtype = self.ty.dtype or "float32"
        number = self.draw(st.floats(width=16))
        self.keep(self.tensor() + Constant(np.full((), number, dtype)))

    def pair(self) -> None:
        both = self.builder.emit(Tuple((self.tensor(), Tuple((self.tensor(),)))), "pair")
        self.keep(TupleGetItem(both, 0))

    def shape(self) -> None:
        self.builder.emit(ShapeExpr(self.ty.dims or ()), "shape")

    def cast(self) -> None:
        assert self.ty.dims is not None
        width = self.ty.dims[-1]
        symbol = SymbolicVar(self.draw(st.sampled_from(["n", "m"])))
        free = self.builder.match_cast(self.tensor(), TensorType((symbol, width), self.ty.dtype))
        self.builder.emit(free + free)
        self.tensors.append(self.builder.match_cast(free, self.ty))

    def choice(self) -> None:
        branches = [self.branch(), self.branch()]
        self.keep(If(self.flag, *branches))

    def branch(self) -> SeqExpr:
        before = list(self.tensors)
        with self.builder.scope():
            self.blocks(self.draw(st.integers(0, 1)))
            sequence = self.builder.sequence(self.tensors[-1])
        self.tensors = before
        return sequence

    def closure(self) -> None:
        param, before = Var("inner", self.ty), list(self.tensors)
        self.tensors.append(param)
        with self.builder.scope():
            self.bindings(_STEPS)
            body = self.builder.sequence(self.tensors[-1])
        self.tensors = before
        function = make_function([param], body, ret_ty=self.ty)
        self.keep(self.builder.emit(function, "closure")(self.tensor()))

    def call(self) -> None:
        for callee in self.callees:
            # The callee's rows may be its own dimension, whose value the call tells.
            match callee.ty:
                case FuncType(params=(TensorType() as first, *_)) if (
                    first.dtype == self.ty.dtype
                    and first.dims is not None
                    and self.ty.dims is not None
                    and first.dims[1] == self.ty.dims[1]
                    and (first.dims[0] == self.ty.dims[0] or not isinstance(first.dims[0], int))
                ):
                    self.keep(callee(self.tensor(), self.tensor(), self.flag))


_STEPS = (_Maker.operator, _Maker.nested, _Maker.alias, _Maker.constant, _Maker.pair, _Maker.shape)
_CONTROL_STEPS = (_Maker.cast, _Maker.choice, _Maker.closure, _Maker.call, _Maker.call)
