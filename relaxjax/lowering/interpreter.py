"""Running a function: an environment, a way to read, a way to write, one loop over the bindings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import lax

from relaxjax.ir.attrs import DESTINATION_PASSING
from relaxjax.ir.derivatives import CUSTOM_FORWARD, CUSTOM_GRADIENT, CUSTOM_JVP, smooth_places
from relaxjax.ir.dims import SymbolicExpr
from relaxjax.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from relaxjax.ir.function import Binding, Function, If, MatchCast, SeqExpr
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.printer import variable_names
from relaxjax.ir.span import located
from relaxjax.ir.types import FuncType, TensorType, TupleType, Type
from relaxjax.ops.lax import WIDE_DTYPES, evaluate_attrs, is_wide, x64_enabled
from relaxjax.ops.lax.tracing import host_number
from relaxjax.ops.meshes import constrained_as
from relaxjax.ops.packed import is_traceable, own, packed_function
from relaxjax.ops.platform import lowering_for, said_platform
from relaxjax.ops.replication import check_alike

from .arguments import Symbols, bind, check_width, declared, match_cast
from .host import HostFunction, hosted, is_tracing
from .operator_checks import check_sizes, checked_if_computed, described_value, misfit
from .own_rules import with_own_rules
from .varying import vary_over

_RULES = (CUSTOM_GRADIENT, CUSTOM_FORWARD, CUSTOM_JVP)

# What is running, and how many branches with a traced condition were open when it was called.
Calls: TypeAlias = Sequence[tuple[object, int]]


class LoweringError(TypeError):
    """A program cannot be run in the way that was asked for; the message says why."""


class NoCompilerError(LoweringError):
    """The compiler for a platform, which would tell what a program takes there, is not here."""


@dataclass(slots=True)
class Frame:
    """One call in progress: the values of variables and symbols, and the names that they have.

    `printed` holds the variables' names in the program's text, `name` is the function's own.
    `calls` are the functions of the module that this call is a part of. What a closure calls is a
    part of what made it: whoever is handed a continuation has done its part when it calls that.
    """

    name: str
    printed: Mapping[Var, str]
    env: dict[Var, Any] = field(default_factory=dict)
    symbols: Symbols = field(default_factory=Symbols)
    calls: Calls = ()

    def inside(self) -> "Frame":
        """A frame that sees all of this one, and keeps what it defines to itself."""
        return Frame(self.name, self.printed, dict(self.env), self.symbols.inside(), self.calls)

    def place(self, var: Var) -> str:
        """Where a variable is bound, as profiles and compiled programs name it."""
        return f"{self.name}.{self.printed.get(var, var.name)}"


class Interpreter:
    """Runs the functions of a module on JAX values, traced or concrete.

    Tensors are arrays, tuples are tuples, shapes are tuples of integers, functions are callables.
    All arrays vary over the mapped `axes`, as those must that are given.
    """

    def __init__(self, mod: IRModule, axes: frozenset[str] = frozenset()) -> None:
        self.mod = mod
        self.axes = axes
        self.traced = is_tracing()
        self.branches = 0  # how many branches with a traced condition are open
        self.closures: list[tuple[object, int]] = []  # those that are running

    def run(
        self,
        function: Function,
        args: Sequence[Any],
        name: str,
        outer: Frame | None = None,
        calls: Calls = (),
    ) -> Any:
        """The value of a call: of a closure made in the frame `outer`, or as a part of `calls`."""
        if outer is not None:
            frame = outer.inside()
            frame.name = name
        else:
            args = args if calls else list(map(self.hosted, function.params, args))
            entered = (*calls, (function, self.branches))
            frame = Frame(name, _printed_names(function), calls=entered)
        bind(function.params, args, frame.symbols, f"`{name}`")
        placed = (constrained_as(arg, p.ty) for p, arg in zip(function.params, args, strict=True))
        frame.env.update(zip(function.params, placed, strict=True))
        value = self.sequence(function.body, frame)
        if fits(function.body.body.ty, function.ret_ty) is Fit.MAYBE:
            declared(value, function.ret_ty, frame.symbols, f"the result of `{name}`")
        return value

    def hosted(self, param: Var, arg: Any) -> Any:
        return hosted(arg, param.ty, param.name, self.traced)

    def refuse_endless(self, called: object, name: str, calls: Calls) -> None:
        """Raise an error where tracing a call would never end."""
        if any(running is called and branches < self.branches for running, branches in calls):
            raise LoweringError(
                f"`{name}` calls itself under a condition that is known only when the compiled "
                "program runs, so that tracing it would never end: call it with concrete values "
                "outside of jax.jit, or write the loop as R.while_loop or R.scan"
            )

    def sequence(self, seq: SeqExpr, frame: Frame) -> Any:
        for binding in seq.bindings():
            with located(binding.span):
                frame.env[binding.var] = self.binding(binding, frame)
        return self.value(seq.body, frame)

    def binding(self, binding: Binding, frame: Frame) -> Any:
        if isinstance(binding.value, Function):
            return self.closure(binding.value, frame.place(binding.var), frame)
        with jax.named_scope(frame.place(binding.var)):
            value = self.value(binding.value, frame)
        if isinstance(binding, MatchCast):
            match_cast(value, binding.ty, frame.symbols, binding.var.name)
        elif fits(binding.value.ty, binding.var.ty) is Fit.MAYBE:
            declared(value, binding.var.ty, frame.symbols, f"`{binding.var.name}`")
        return value

    def value(self, expr: Expr, frame: Frame) -> Any:
        """The value of an expression."""
        match expr:
            case Var():
                if expr not in frame.env:
                    raise LoweringError(
                        f"`{frame.name}` takes the value of `{expr.name}`, which is neither one of "
                        "its parameters nor bound before"
                    )
                return frame.env[expr]
            case Call():
                return self.call(expr, frame)
            case Tuple(fields=fields):
                return tuple(self.value(item, frame) for item in fields)
            case TupleGetItem(tuple_value=tuple_value, index=index):
                return self.value(tuple_value, frame)[index]
            case If():
                return self.branch(expr, frame)
            case SeqExpr():
                return self.sequence(expr, frame.inside())
            case Function():
                return self.closure(expr, f"{frame.name}.closure", frame)
            case GlobalVar() | ExternFunc():
                return self.callee(expr, frame)
            case _:
                return vary_over(self.axes, literal(expr, frame))

    def call(self, call: Call, frame: Frame) -> Any:
        if isinstance(call.op, Op):
            return self.operator(call, call.op, frame)
        function = self.value(call.op, frame)
        args = [self.value(arg, frame) for arg in call.args]
        if isinstance(function, HostFunction):
            fills = call.attrs.get(DESTINATION_PASSING)
            run = function.fill if fills else function.call
            return run(args, call.ty, frame.symbols)
        return function(*args)

    def operator(self, call: Call, op: Op, frame: Frame) -> Any:
        """An operator is run by its own lowering."""
        if op.lower is None:
            raise LoweringError(f"the operator {op.name} has no lowering, so it cannot be run")
        if "local_view" in op.facts:
            check_alike(call, self.mod)
        given, attrs = arguments(call)
        # A primitive names itself, and takes constants as they are: JAX runs nothing for them.
        is_primitive = op.name.startswith("lax.")
        value = self.operand if is_primitive else self.value
        args = [None if arg is None else value(arg, frame) for arg in given]
        if not is_primitive:
            check_sizes(call, given, args, frame.symbols.values)
        scope = nullcontext() if is_primitive else jax.named_scope(op.name)
        with scope, _dtypes_of(call, args), checked_if_computed(given):
            result = op.lower(*args, **evaluate_attrs(attrs, frame.symbols.value))
        found = None if is_primitive else misfit(call, result, frame.symbols)
        if found is not None:
            raise LoweringError(found)
        return vary_over(self.axes, result)

    def operand(self, expr: Expr, frame: Frame) -> Any:
        """The value of an argument, a constant as an array of numpy's."""
        if isinstance(expr, Constant):
            return vary_over(self.axes, checked(expr, frame))
        return self.value(expr, frame)

    def callee(self, expr: GlobalVar | ExternFunc, frame: Frame) -> Callable[..., Any]:
        """A function of the module, or one registered from outside, as a callable."""
        function = self.mod[expr] if isinstance(expr, GlobalVar) else expr
        if isinstance(function, ExternFunc):
            return self.packed(function)
        assert isinstance(expr, GlobalVar)
        if function.attrs.get("Primitive"):
            return self.region(function, expr.name)

        calls = frame.calls  # JAX keeps what has rules, and is to keep no values of the frame

        def run(*args: Any) -> Any:
            self.refuse_endless(function, expr.name, calls)
            return self.run(function, args, expr.name, calls=calls)

        own(run)
        rules = {
            attr: self.callee(self.mod.get_global_var(function.attrs[attr]), frame)
            for attr in _RULES
            if attr in function.attrs
        }
        if not rules:
            return run
        return with_own_rules(run, smooth_places(function), *map(rules.get, _RULES))

    def packed(self, function: ExternFunc) -> HostFunction:
        """A registered function. What has no effects is called where it is traced, once."""
        pure = isinstance(function.ty, FuncType) and function.ty.pure
        traced = self.traced or pure or is_traceable(function.symbol)
        return HostFunction(packed_function(function.symbol), function.symbol, None, traced)

    def region(self, function: Function, name: str) -> Callable[..., Any]:
        """A fused function: one program of its name inside the one that calls it."""

        def run(*args: Any) -> Any:
            with jax.named_scope(name):
                if all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(args)):
                    region = _region(self.mod, self.axes, function, name, said_platform())
                    return region(*args)
                return self.run(function, args, name)

        return own(run)

    def closure(self, function: Function, name: str, outer: Frame) -> Callable[..., Any]:
        """A closure as a callable, which is known by itself: the next one made here is another."""

        def run(*args: Any) -> Any:
            self.refuse_endless(run, name, self.closures)
            self.closures.append((run, self.branches))
            try:
                return self.run(function, args, name, outer)
            finally:
                self.closures.pop()

        return own(run)

    def branch(self, expr: If, frame: Frame) -> Any:
        """The branch that the condition chooses: now if it is known, else when the program runs."""
        condition = self.value(expr.cond, frame)
        known = _known_bool(condition)
        if known is None:
            return self.traced_branch(expr, condition, frame)
        return self.sequence(expr.true_branch if known else expr.false_branch, frame.inside())

    def traced_branch(self, expr: If, condition: Any, frame: Frame) -> Any:
        if not holds_tensors(expr.ty):
            raise LoweringError(
                f"a choice whose condition is known only when the compiled program runs must give "
                f"tensors, but this one gives {expr.ty}"
            )
        given: list[str] = []

        def run(branch: SeqExpr) -> Any:
            result = self.sequence(branch, frame.inside())
            given.append(described_value(result))
            return result

        self.branches += 1
        try:
            return lax.cond(
                condition, lambda: run(expr.true_branch), lambda: run(expr.false_branch)
            )
        except TypeError as error:
            if len(given) < 2 or given[0] == given[1]:
                raise
            raise LoweringError(
                "a choice whose condition is known only when the compiled program runs must give "
                f"one type, but its branches give {' and '.join(given)}: give both the same shapes "
                "and dtypes, or call the function outside of what is compiled as a whole"
            ) from error
        finally:
            self.branches -= 1


@lru_cache(maxsize=512)
def _region(
    mod: IRModule, axes: frozenset[str], function: Function, name: str, platform: str | None
) -> Callable[..., Any]:
    """A fused function as a program, the same one at each call."""

    def run(*args: Any) -> Any:
        with lowering_for(platform):
            return Interpreter(mod, axes).run(function, args, name)

    run.__name__ = run.__qualname__ = name
    return jax.jit(run)


@lru_cache(maxsize=64)
def _printed_names(function: Function) -> Mapping[Var, str]:
    return variable_names(function)


def checked(constant: Constant, frame: Frame) -> Any:
    """The numbers of a constant, in a dtype that JAX has as it is set."""
    if str(constant.data.dtype) in WIDE_DTYPES:  # else its text would be written for nothing
        check_width(constant.data, f"`{frame.name}`: the constant `{constant}`")
    return constant.data


def literal(expr: Expr, frame: Frame) -> Any:
    """The value of an expression that has no others inside it."""
    match expr:
        case Constant():
            with jax.ensure_compile_time_eval():  # a shape may depend on it
                return jax.device_put(checked(expr, frame))  # jnp.asarray compiles a program
        case ShapeExpr(values=dims):
            return tuple(map(frame.symbols.value, dims))
        case PrimExpr(value=int() | SymbolicExpr() as value):
            return frame.symbols.value(value)
        case PrimExpr():
            return host_number(expr)
        case StringImm(value=text) | DataTypeImm(value=text):
            return text
    raise LoweringError(f"an expression of kind {type(expr).__name__} has no value: `{expr}`")


def holds_tensors(ty: Type | None) -> bool:
    """Whether values of a type are tensors, or tuples of them, all through."""
    if isinstance(ty, TupleType):
        return all(map(holds_tensors, ty.fields))
    return isinstance(ty, TensorType)


def _known_bool(condition: Any) -> bool | None:
    """The value of a condition, None where it is known only when the compiled program runs."""
    try:
        return bool(condition)
    except jax.errors.ConcretizationTypeError:
        return None


def _dtypes_of(call: Call, args: Sequence[Any]) -> AbstractContextManager[Any]:
    """64-bit dtypes, where they are on, switched off for an operator that names none.

    Otherwise what JAX makes of a 32-bit program would depend on a setting made for another one.
    An operator of functions, such as a loop, runs theirs, which may name some.
    """
    if not x64_enabled() or any(map(callable, args)):
        return nullcontext()
    types = [arg.ty for arg in call.args]
    leaves = jax.tree.leaves(args)
    if is_wide(call.ty, call.attrs, *types) or any(map(_is_wide_array, leaves)):
        return nullcontext()
    context: AbstractContextManager[Any] = jax.enable_x64(False)
    return context


def _is_wide_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray) and _is_wide_dtype(value.dtype)


@cache
def _is_wide_dtype(dtype: Any) -> bool:
    return str(dtype) in WIDE_DTYPES
