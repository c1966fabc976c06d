"""Random programs that have derivatives almost everywhere, with arguments to differentiate them at.

What a program computes stays moderate: operators that grow fast, or whose domain has an end, get
operands that are bounded or bounded away from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from differentiable_control import choice, closure, scan, while_loop
from guarded_operators import BINARY, UNARY, bounded, broadcast, dims_of, tensor
from hypothesis import HealthCheck
from hypothesis import strategies as st

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax.ir import BlockBuilder, FuncType, IRModule, TensorType, TupleType, Type, Var
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import DataflowVar, Expr, GlobalVar, ShapeExpr, Tuple, TupleGetItem, np_dtype
from relaxjax.ir.function import SeqExpr
from relaxjax.ops.emit import call, scalar
from relaxjax.ops.shapes import element_count

# Such programs are large, and take long to draw.
LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much,
    HealthCheck.large_base_example]  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A module whose `main` is to be differentiated, at `args`, by `target_index` of its result.

    With `cotangent`, the target is no scalar, and may be a tuple.
    """

    module: IRModule
    args: tuple[Any, ...]
    paired: bool  # whether the target is one of two results
    target_index: int
    cotangent: bool
    dtypes: frozenset[str]  # the floating-point dtypes that occur


@st.composite
def programs(draw: st.DrawFn, dtypes: Sequence[str] = ("float32", "float64")) -> Program:
    """A program of one dtype, with excursions into others of `dtypes`."""
    builder = BlockBuilder()
    maker = Maker(draw, builder, tuple(dtypes), draw(st.sampled_from(dtypes)))
    for index in range(draw(st.integers(0, 2))):
        maker.helper(f"helper{index}")
    return maker.main()


@dataclass
class Maker:
    """Emits random bindings; `floats` are the visible tensors of floating-point dtypes."""

    draw: st.DrawFn
    builder: BlockBuilder
    dtypes: tuple[str, ...]
    dtype: str
    floats: list[Expr] = field(default_factory=list)
    helpers: list[GlobalVar] = field(default_factory=list)
    base: Expr = field(default_factory=lambda: Var("unset"))
    flag: Expr = field(default_factory=lambda: Var("unset"))
    places: Expr = field(default_factory=lambda: Var("unset"))
    cols: int = 2
    depth: int = 0

    # Functions

    def params(self) -> list[Var]:
        """A matrix of static or symbolic height, a vector, a nested tuple, a flag, and indices."""
        sizes: list[Dim] = [1, 2, SymbolicVar("n"), SymbolicVar("m")]
        rows = self.choose(sizes)
        vector = TensorType((self.cols,), self.dtype)
        number = TensorType((), self.choose(self.dtypes))
        column = TensorType((rows, 1), self.dtype)
        params = [
            Var("x", TensorType((rows, self.cols), self.dtype)),
            Var("v", vector),
            Var("t", TupleType((number, TupleType((column, vector))))),
            Var("flag", TensorType((), "bool")),
            Var("places", TensorType((self.choose([1, 3]),), "int32")),
        ]
        self.base, _, nested, self.flag, self.places = params
        inner = TupleGetItem(nested, 1)
        self.floats = [*params[:2], TupleGetItem(nested, 0)]
        self.floats += [TupleGetItem(inner, 0), TupleGetItem(inner, 1)]
        return params

    def helper(self, name: str) -> None:
        """A function that others call: of a tensor, or of a tuple."""
        outside, self.depth = self.depth, 1
        params = self.params()
        private = self.draw(st.booleans())
        with self.builder.function(name, params, private=private):
            self.blocks(self.draw(st.integers(1, 2)))
            result = self.result_like(self.base)
            if self.draw(st.booleans()):
                result = Tuple((result, self.value()))
            self.helpers.append(self.builder.emit_func_output(result))
        self.depth = outside

    def main(self) -> Program:
        params = self.params()
        cotangent = self.draw(st.booleans())
        with self.builder.function("main", params):
            self.blocks(self.draw(st.integers(1, 3)))
            target = self.target(cotangent)
            paired, index = self.draw(st.booleans()), 0
            if paired:
                index = self.choose([0, 1])
                other = self.builder.emit(self.value())
                self.builder.emit_func_output((target, other) if index == 0 else (other, target))
            else:
                self.builder.emit_func_output(target)
        args, dtypes = self.arguments(params), frozenset(self.dtypes)
        return Program(self.builder.get(), args, paired, index, cotangent, dtypes)

    def target(self, cotangent: bool) -> Var:
        if cotangent:
            value = self.value()
            pair = Tuple((value, Tuple((self.value(), value))))
            return self.builder.emit(self.choose([value, pair]), "target")
        count = self.draw(st.integers(1, 3))
        total = self.cast(call("mean", self.floats[-1]), self.dtype)
        for _ in range(count):
            total = total + self.cast(call("sum", self.value()), self.dtype)
        return self.builder.emit(total, "loss")

    def arguments(self, params: Sequence[Var]) -> tuple[Any, ...]:
        """An array for each parameter, no two elements alike."""
        sizes: dict[Dim, int] = {}
        random = np.random.default_rng(self.draw(st.integers(0, 2**16)))

        def array(ty: Type | None) -> Any:
            if isinstance(ty, TupleType):
                return tuple(map(array, ty.fields))
            assert isinstance(ty, TensorType)
            shape = [
                dim if isinstance(dim, int) else sizes.setdefault(dim, self.draw(st.integers(1, 3)))
                for dim in dims_of(ty)
            ]
            if ty.dtype == "bool":
                return np.asarray(random.integers(0, 2, shape), bool)
            if ty.dtype == "int32":
                return np.asarray(random.integers(0, 2, shape), "int32")
            return np.asarray(random.uniform(-1.5, 1.5, shape), np_dtype(ty.dtype))

        return tuple(array(param.ty) for param in params)

    # Choices

    def choose(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def value(self) -> Expr:
        """A value to go on with, often the newest: long chains need no luck then."""
        return self.floats[-1] if self.draw(st.booleans()) else self.choose(self.floats)

    def cast(self, x: Expr, dtype: str) -> Expr:
        return x if tensor(x).dtype == dtype else x.astype(dtype)

    def result_like(self, base: Expr) -> Expr:
        """A value of the type of `base`, made of the newest one."""
        ty = tensor(base)
        newest = self.floats[-1]
        if newest.ty == ty and self.draw(st.booleans()):
            return newest
        return base * bounded(self.cast(call("sum", newest), ty.dtype or ""))

    def keep(self, value: Expr) -> None:
        var = self.builder.emit(value, self.choose(["", "x", "z"]))
        if tensor(var).dims is not None:
            self.floats.append(var)

    # Blocks

    def blocks(self, count: int) -> None:
        for _ in range(count):
            if self.draw(st.booleans()):
                self.dataflow()
            else:
                self.steps(_STEPS + _CONTROL)

    def dataflow(self) -> None:
        with self.builder.dataflow():
            self.steps(_STEPS)
            output = self.builder.emit_output(self.value())
        # What was bound to a variable of the block is out of sight.
        self.floats = [item for item in self.floats if not isinstance(item, DataflowVar)]
        self.floats.append(output)

    def steps(self, steps: "Sequence[Step]") -> None:
        for _ in range(self.draw(st.integers(1, 4))):
            self.choose(steps)(self)

    def sequence(
        self, taken: Sequence[Expr] = (), *, like: Expr | None = None, paired: bool = False
    ) -> SeqExpr:
        """Bindings of their own, which see all of what stands around them.

        Their result is of the type of `like`, if given, and paired with another value if so asked.
        """
        before = list(self.floats)
        self.depth += 1
        with self.builder.scope():
            self.floats += taken
            self.steps(_STEPS + _CONTROL if self.depth < 3 else _STEPS)
            result = self.floats[-1] if like is None else self.result_like(like)
            sequence = self.builder.sequence((bounded(result), self.value()) if paired else result)
        self.depth -= 1
        self.floats = before
        return sequence

    # Steps without control flow

    def unary(self) -> None:
        self.keep(UNARY[self.choose(list(UNARY))](self.value()))

    def binary(self) -> None:
        """Two values that broadcast, in either order."""
        x = self.value()
        fitting = [y for y in self.floats if broadcast(tensor(x), tensor(y))]
        y = self.cast(self.choose(fitting), tensor(x).dtype or "")
        pair = (x, y) if self.draw(st.booleans()) else (y, x)
        self.keep(BINARY[self.choose(list(BINARY))](*pair))

    def with_constant(self) -> None:
        x = self.value()
        number = scalar(self.choose([0.375, -1.25, 2.5]), x)
        self.keep(self.choose([lambda: x * number, lambda: number - x, lambda: x + number])())

    def reduction(self) -> None:
        x = self.value()
        ndim = tensor(x).ndim
        axes = st.lists(st.integers(-ndim, ndim - 1), max_size=ndim, unique_by=lambda a: a % ndim)
        axis = self.draw(st.none() | axes) if ndim else None
        name = self.choose(["sum", "mean", "variance", "max", "min", "prod"])
        self.keep(call(name, x, axis=axis, keepdims=self.draw(st.booleans())))

    def along_axis(self) -> None:
        x = self.value()
        if not tensor(x).ndim:
            return self.unary()
        axis = self.draw(st.integers(-tensor(x).ndim, tensor(x).ndim - 1))
        exclusive = self.draw(st.booleans())
        options: list[Callable[[], Expr]] = [
            lambda: call("cumsum", x, axis=axis, exclusive=exclusive),
            lambda: call("nn.softmax", x, axis=axis),
            lambda: call("nn.log_softmax", x, axis=axis),
            lambda: call("flip", x, axis=axis),
            lambda: call("expand_dims", x, axis=axis),
            lambda: call("repeat", x, 2, axis=axis),
            lambda: call("concat", [x, bounded(x)], axis=axis),
            lambda: call("stack", [x, bounded(x)], axis=axis),
            lambda: call("sort", x, axis=axis),
        ]
        return self.keep(self.choose(options)())

    def rearranged(self) -> None:
        x = self.value()
        dims = dims_of(tensor(x))
        order = self.draw(st.permutations(range(len(dims))))
        options: list[Callable[[], Expr]] = [
            lambda: call("permute_dims", x, axes=order),
            lambda: call("reshape", x, ShapeExpr((element_count(dims),))),
            lambda: call("reshape", x, ShapeExpr((1, *dims))),
            lambda: call("flatten", x),
            lambda: call("squeeze", x),
            lambda: call("broadcast_to", x, ShapeExpr((2, *dims))),
            lambda: call("tile", x, [2] * max(len(dims), 1)),
        ]
        self.keep(self.choose(options)())

    def product(self) -> None:
        """A matrix product: of matrices, with a vector, in batches."""
        x = self.value()
        ty = tensor(x)
        if ty.ndim == 0:
            return self.unary()
        if ty.ndim == 1:
            weight = self.choose([x, call("outer", x, bounded(x))])
        else:
            swapped = (*range(ty.ndim - 2), ty.ndim - 1, ty.ndim - 2)
            weight = call("permute_dims", bounded(x), axes=swapped)
        return self.keep(call("matmul", bounded(x), weight))

    def elements(self) -> None:
        """Elements picked by the indices, out of an axis that has as many as they need."""
        x = self.value()
        dims = dims_of(tensor(x))
        long = [a for a, dim in enumerate(dims) if isinstance(dim, int) and dim >= 2]
        if not long:
            return self.with_constant()
        axis = self.choose(long) - self.choose([0, len(dims)])
        length: Any = dims[axis]
        options: list[Callable[[], Expr]] = [
            lambda: call("take", x, self.places, axis=axis),
            lambda: TupleGetItem(call("split", x, [1], axis=axis), self.choose([0, 1])),
            lambda: call("strided_slice", x, [axis], [0], [length], [2]),
            lambda: call("strided_slice", x, [axis], [-1], [-length - 1], [-1]),
        ]
        return self.keep(self.choose(options)())

    def whole_numbers(self) -> None:
        """A way through integers, along which no gradient flows."""
        x = self.value()
        dtype = tensor(x).dtype
        bits = x.astype("int32").astype(dtype)
        if not tensor(x).ndim:
            return self.keep(x + bits)
        best = call("argmax", x, axis=-1, keepdims=True).astype(dtype)
        return self.keep(x * self.choose([bits, best]))

    def excursion(self) -> None:
        """Another dtype, for good or there and back."""
        x = self.value()
        other = x.astype(self.choose(self.dtypes))
        back = self.cast(bounded(other), tensor(x).dtype or "")
        self.keep(self.choose([other, back]))

    def pair(self) -> None:
        x, y = self.value(), self.value()
        both = self.builder.emit(Tuple((x, Tuple((y, x)))), "pair")
        inner = TupleGetItem(both, 1)
        self.keep(self.choose([TupleGetItem(both, 0), TupleGetItem(inner, 0)]))

    def alias(self) -> None:
        self.keep(self.value())

    def loss(self) -> None:
        x = self.value()
        if tensor(x).ndim not in (1, 2):
            return self.unary()
        labels = call("nn.softmax", call("cos", x))
        return self.keep(call("nn.cross_entropy_with_logits", x, labels))

    def normalization(self) -> None:
        x = self.value()
        if dims_of(tensor(x))[-1:] != (self.cols,):
            return self.unary()
        weights = [v for v in self.floats if tensor(v).dims == (self.cols,)]
        gamma, beta = (self.cast(self.choose(weights), tensor(x).dtype or "") for _ in range(2))
        options: list[Callable[[], Expr]] = [
            lambda: call("nn.layer_norm", x, gamma, beta, axes=[-1], epsilon=0.1),
            lambda: call("nn.rms_norm", x, gamma, axes=[-1], epsilon=0.1),
        ]
        return self.keep(self.choose(options)())

    def mark(self) -> None:
        self.keep(call(f"grad.{self.choose(['start', 'end'])}_checkpoint", self.value()))

    def match_cast(self) -> None:
        x = self.value()
        ty = tensor(x)
        fresh = TensorType([SymbolicVar(f"k{axis}") for axis in range(ty.ndim)], ty.dtype)
        free = self.builder.match_cast(x, fresh)
        self.floats.append(self.builder.match_cast(call("tanh", free), ty))

    def call(self) -> None:
        for function in self.helpers:
            assert isinstance(function.ty, FuncType)
            args = [self.argument(ty) for ty in function.ty.params or ()]
            if None in args:
                continue
            result = self.builder.emit(function(*(arg for arg in args if arg is not None)))
            fields = isinstance(result.ty, TupleType)
            self.keep(TupleGetItem(result, self.choose([0, 1])) if fields else result)

    def argument(self, ty: Type) -> Expr | None:
        """Something that may stand for a parameter; a dimension of the callee's fits any."""
        if isinstance(ty, TupleType):
            fields = [self.argument(item) for item in ty.fields]
            return Tuple(tuple(f for f in fields if f is not None)) if None not in fields else None
        assert isinstance(ty, TensorType)
        if ty.dtype == "bool":
            return self.flag
        if ty.dtype == "int32":
            return self.places if self.places.ty == ty else None
        rows = dims_of(tensor(self.base))[0]
        wanted = tuple(rows if isinstance(dim, SymbolicVar) else dim for dim in dims_of(ty))
        fitting = [v for v in self.floats if tensor(v).dims == wanted]
        return self.cast(self.choose(fitting), ty.dtype or "") if fitting else None


Step: TypeAlias = Callable[[Maker], None]

_STEPS: tuple[Step, ...] = (
    *(*(Maker.unary,) * 2, *(Maker.binary,) * 3, Maker.with_constant),
    *(Maker.reduction, Maker.along_axis, Maker.rearranged, Maker.product, Maker.elements),
    *(Maker.whole_numbers, Maker.excursion, Maker.pair, Maker.alias, Maker.loss),
    *(Maker.normalization, Maker.mark, Maker.match_cast, Maker.call),
)
_CONTROL: tuple[Step, ...] = (
    *(*(choice,) * 3, *(closure,) * 2, *(Maker.call,) * 2),
    *(scan, while_loop),
)
