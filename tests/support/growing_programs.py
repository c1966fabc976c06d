"""Programs of several shapes, each of any size: what is done to them must not grow faster.

A module has one public function, `main`, whose result is a number, so that it has a gradient.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var, const
from relaxjax.ir.function import Function, If
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType

SQUARE = TensorType((2, 2), "float32")
ROWS = TensorType((3, 2, 2), "float32")
HALF = const(0.5, "float32")


class Writer:
    """Writes calls of operators: `emit("add", x, y)`."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder

    def __call__(self, name: str, *args: Any, **attrs: Any) -> Var:
        return self.builder.emit(get_op(f"relax.{name}")(*args, **attrs))

    def bind(self, expr: Expr) -> Var:
        return self.builder.emit(expr)


Write = Callable[[Writer, Sequence[Var]], Expr]


def body_of(write: Write, params: Sequence[Var]) -> Function:
    """A closure, a branch or a private function."""
    builder = BlockBuilder()
    with builder.scope():
        return make_function(params, builder.sequence(write(Writer(builder), params)))


def applied(*call: Any) -> Expr:
    """What an operator makes of its arguments; behind them, a writer and no parameters."""
    *name_and_args, emit, _ = call
    bound: Expr = emit(*name_and_args)
    return bound


def module(write: Write, *types: Any, dataflow: bool = True) -> IRModule:
    """The module of a function that sums what `write` makes of its parameters."""
    builder = BlockBuilder()
    params = [Var(f"p{index}", ty) for index, ty in enumerate(types)]
    emit = Writer(builder)
    with builder.function("main", params):
        if dataflow:
            with builder.dataflow():
                result = builder.emit_output(get_op("relax.sum")(write(emit, params)))
        else:
            result = emit("sum", write(emit, params))
        builder.emit_func_output(result)
    return builder.get()


def chain(n: int) -> IRModule:
    """One value after another, by operators of several kinds."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        (x,) = params
        for _ in range(n):
            x = emit("multiply", emit("nn.relu", emit("sin", x)), HALF)
        return x

    return module(write, SQUARE)


def squarings(n: int) -> IRModule:
    """Each value is twice a factor of the next: read as a tree, there are 2 ** n factors."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x: Expr = emit("tanh", params[0])
        for _ in range(n):
            x = emit("multiply", x, x)
        return x

    return module(write, SQUARE)


def ladder(n: int) -> IRModule:
    """Two values a step, both of both before them, beside a third of constants alone."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        (x,) = params
        y, c = emit("exp", x), emit("add", const([1.0, 2.0], "float32"), const([1.0, 2.0]))
        for _ in range(n):
            x, y, c = emit("add", x, y), emit("multiply", y, x), emit("add", c, c)
        scaled = emit("multiply", emit("nn.relu", x), emit("abs", c))
        return emit("matmul", scaled, emit("multiply", emit("matmul", x, y), emit("abs", c)))

    return module(write, SQUARE)


def layers(n: int) -> IRModule:
    """Dense layers, each with parameters of its own."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x, *rest = params
        for weight, bias in zip(rest[::2], rest[1::2], strict=True):
            product = emit("matmul", x, emit("permute_dims", weight))
            x = emit("nn.relu", emit("add", product, bias))
        return x

    return module(write, SQUARE, *[SQUARE, TensorType((2,), "float32")] * n)


def trainable(n: int) -> IRModule:
    """The same layers as a model that SetupTrainer takes."""
    builder = BlockBuilder()
    params = [Var("x", SQUARE), *(Var(f"w{index}", SQUARE) for index in range(n))]
    attrs = {"param_num": n, "state_num": 0}
    with builder.function("backbone", params):
        x: Expr = params[0]
        with builder.dataflow():
            for weight in params[1:]:
                x = builder.emit(get_op("relax.nn.relu")(get_op("relax.matmul")(x, weight)))
            x = builder.emit_output(get_op("relax.tanh")(x))
        builder.emit_func_output(x)
    return builder.get().with_attrs(attrs)


def images(n: int) -> IRModule:
    """Convolutions between scales, offsets and norms."""
    image, kernel = (TensorType(shape, "float32") for shape in ((1, 2, 3, 3), (2, 2, 1, 1)))
    vector = TensorType((2,), "float32")
    scale = const([[[2.0]], [[3.0]]], "float32")

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x, mean, *kernels = params
        for weight in kernels:
            x = emit("nn.conv2d", emit("multiply", x, scale), weight)
            normal = emit("nn.batch_norm", x, mean, mean, mean, mean, axis=1)
            x = emit("nn.relu", emit.bind(TupleGetItem(normal, 0)))
        return x

    return module(write, image, vector, *[kernel] * n)


def wide(n: int) -> IRModule:
    """A tuple of many values, all made of one, taken apart again and joined."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        values = tuple(emit("multiply", params[0], params[0]) for _ in range(n))
        whole = emit.bind(Tuple(values))
        parts = [emit("sin", emit.bind(TupleGetItem(whole, index))) for index in range(n)]
        return emit("concat", tuple(parts), axis=0)

    return module(write, SQUARE)


def fan(n: int) -> IRModule:
    """One value that all read, by products side by side, whose sum it is that counts."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x, *weights = params
        x = emit("tanh", x)
        total = x
        for product in [emit("matmul", x, weight) for weight in weights]:
            total = emit("add", total, product)
        return total

    return module(write, SQUARE, *[SQUARE] * n)


def branches(n: int) -> IRModule:
    """Choices one after another."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x, flag = params
        for _ in range(n):
            true = body_of(partial(applied, "sin", x), ()).body
            false = body_of(partial(applied, "multiply", x, x), ()).body
            x = emit.bind(If(flag, true, false))
        return x

    return module(write, SQUARE, TensorType((), "bool"), dataflow=False)


def looped(emit: Writer, start: Var, rows: Var, step: Write) -> Var:
    """A loop over rows whose step makes a carry of the carry and a row."""
    params = Var("carry", SQUARE), Var("row", SQUARE)

    def write(emit: Writer, given: Sequence[Var]) -> Expr:
        return Tuple((step(emit, given), Tuple(())))

    body = emit.bind(body_of(write, params))
    return emit.bind(TupleGetItem(emit("scan", body, start, rows), 0))


def loops(n: int) -> IRModule:
    """Loops one after another."""

    def step(emit: Writer, given: Sequence[Var]) -> Expr:
        return emit("multiply", emit("sin", given[0]), given[1])

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x, rows = params
        for _ in range(n):
            x = looped(emit, x, rows, step)
        return x

    return module(write, SQUARE, ROWS, dataflow=False)


def nested_loops(n: int) -> IRModule:
    """A loop in a loop in a loop."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x, rows = params

        def inside(depth: int) -> Write:
            def step(emit: Writer, given: Sequence[Var]) -> Expr:
                carry = emit("multiply", emit("sin", given[0]), given[1])
                return looped(emit, carry, rows, inside(depth - 1)) if depth > 1 else carry

            return step

        return looped(emit, x, rows, inside(n))

    return module(write, SQUARE, ROWS, dataflow=False)


def nested_branches(n: int) -> IRModule:
    """A choice in a choice in a choice."""

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        x, flag = params

        def chosen(emit: Writer, x: Var, depth: int) -> Var:
            if depth == 0:
                return emit("sin", x)
            true = body_of(lambda emit, _: chosen(emit, emit("exp", x), depth - 1), ()).body
            false = body_of(lambda emit, _: emit("multiply", x, x), ()).body
            return emit.bind(If(flag, true, false))

        return chosen(emit, x, n)

    return module(write, SQUARE, TensorType((), "bool"), dataflow=False)


def functions(n: int) -> IRModule:
    """Private functions, of which each but the last calls the next."""
    builder = BlockBuilder()
    called: GlobalVar | None = None
    for index in range(n):

        def write(emit: Writer, params: Sequence[Var], called: GlobalVar | None = called) -> Expr:
            x = emit("sin", params[0])
            return x if called is None else emit.bind(Call(called, (x,)))

        called = builder.add_func(body_of(write, [Var("x", SQUARE)]), f"f{index}")
    param = Var("p0", SQUARE)
    with builder.function("main", [param]):
        assert called is not None
        result = builder.emit(Call(called, (param,)))
        builder.emit_func_output(builder.emit(get_op("relax.sum")(result)))
    return builder.get()


def symbols(n: int) -> IRModule:
    """Matrices of as many sizes, which nothing but their sum knows."""
    types = [TensorType((SymbolicVar(f"n{index}"), 2), "float32") for index in range(n)]

    def write(emit: Writer, params: Sequence[Var]) -> Expr:
        return emit("concat", tuple(emit("sin", param) for param in params), axis=0)

    return module(write, *types)


SHAPES: dict[str, Callable[[int], IRModule]] = {
    shape.__name__: shape
    for shape in (
        *(chain, squarings, ladder, layers, images, wide, fan, branches, loops),
        *(nested_loops, nested_branches, functions, symbols),
    )
}
# Their size is how deep something is nested, calls of functions in functions among it.
NESTED = frozenset({"nested_loops", "nested_branches", "functions"})
# And where calls stand deeper in one another in a larger program: a sum of sizes is nested, too.
DEEPER = NESTED | {"symbols"}


def jax_args(mod: IRModule) -> tuple[Any, ...]:
    """What stands for the arguments of a module's function in JAX; symbolic dimensions are 2."""

    def array(param: Var) -> Any:
        assert isinstance(param.ty, TensorType)
        shape = [dim if isinstance(dim, int) else 2 for dim in param.ty.dims or ()]
        return jnp.ones(shape, param.ty.dtype)

    return tuple(map(array, mod["main"].params))


def jax_loops(depth: int) -> Callable[[Any], Any]:
    """A loop in a loop in a loop, and a choice in each, written in JAX."""

    def inside(depth: int, x: jax.Array) -> jax.Array:
        def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            chosen = lax.cond(carry[0, 0] > 0, jnp.sin, lambda c: c * c, carry)
            return inside(depth - 1, chosen), None

        return lax.scan(step, x, None, length=2)[0] if depth else x

    return lambda x: jnp.sum(inside(depth, x))


def jax_calls(depth: int) -> Callable[[Any], Any]:
    """Functions compiled each by itself, of which each calls the next."""
    function: Callable[[Any], Any] = jnp.sin
    for _ in range(depth):
        function = jax.jit(lambda x, inner=function: inner(x) * 2)
    return lambda x: jnp.sum(function(x))
