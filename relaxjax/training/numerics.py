"""NaN and infinities: a flag that every step can afford, and the binding they come from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from relaxjax.ir.expr import Call, Expr, ExternFunc, GlobalVar
from relaxjax.ir.function import Binding
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments
from relaxjax.ir.types import is_float
from relaxjax.ir.walk import used_vars
from relaxjax.lowering.arguments import admit, as_jax
from relaxjax.lowering.interpreter import Frame, Interpreter
from relaxjax.lowering.when_lowered import only_for
from relaxjax.ops.lax import evaluate_attrs
from relaxjax.ops.platform import PLATFORM
from relaxjax.trainable.names import ADJOINT

_LONGEST = 100  # of an expression in a message


class NumericsError(FloatingPointError):
    """A loss or a gradient is NaN or infinite; the message names the first bad binding."""


def with_gradients(mod: IRModule, name: str) -> Callable[..., tuple[Any, list[Any]]]:
    """The function `name` as JAX runs it, and the gradients that are computed on its way."""
    function = mod[name]

    def run(*args: Any) -> tuple[Any, list[Any]]:
        values = list(map(as_jax, admit(function.params, args, f"`{name}`")))
        watcher = _Watcher(mod)
        result = only_for(mod.attrs.get(PLATFORM), watcher.run)(function, values, name)
        return result, watcher.gradients

    return run


def all_finite(arrays: Sequence[Any]) -> Any:
    """Whether no float has a NaN or an infinity, as one boolean on the device."""
    floats = [array for array in arrays if is_float(str(array.dtype))]
    return jnp.all(jnp.stack([jnp.isfinite(array).all() for array in floats]))


def blame(mod: IRModule, args: Sequence[Any]) -> str | None:
    """Where the adjoint's first NaN or infinity comes from; None where all is finite."""
    params = mod[ADJOINT].params
    given = [_fault(f"the argument `{p.name}`", arg) for p, arg in zip(params, args, strict=True)]
    faults = [fault for fault in given if fault is not None]
    if faults:
        return "\n".join(fault.text for fault in faults)
    finder = _Finder(mod)
    run = only_for(mod.attrs.get(PLATFORM), finder.run)
    result, gradients = run(mod[ADJOINT], list(map(as_jax, args)), ADJOINT)
    loss = result[0] if isinstance(result, tuple) else result
    ends = [fault for leaf in (loss, *gradients) if (fault := _fault("", leaf)) is not None]
    if not ends:
        return None
    first = finder.nan if any(end.is_nan for end in ends) else None
    found = [fault for fault in (finder.infinity, first or finder.nan) if fault is not None]
    return "\n".join(fault.text for fault in found)


class _Watcher(Interpreter):
    """Runs a function, and keeps the gradients that its call of the adjoint gives."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.gradients: list[Any] = []

    def callee(self, expr: GlobalVar | ExternFunc, frame: Frame) -> Callable[..., Any]:
        function = super().callee(expr, frame)
        if not isinstance(expr, GlobalVar) or expr.name != ADJOINT:
            return function

        def watched(*args: Any) -> Any:
            result = function(*args)
            self.gradients = jax.tree.leaves(result[1])
            return result

        return watched


class _Finder(Interpreter):
    """Runs a function operator by operator, and keeps the first bindings with bad values.

    A loop is run as a whole at first, and step by step where what it gives is bad.
    """

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.nan: _Fault | None = None
        self.infinity: _Fault | None = None

    def binding(self, binding: Binding, frame: Frame) -> Any:
        value = super().binding(binding, frame)
        if self.nan is None and used_vars(binding.value):
            leaves = jax.tree.leaves(value)
            if any(_fault("", leaf) for leaf in leaves):
                self.look_inside(binding.value, frame)
            for leaf in leaves:
                self.look(binding, frame, leaf)
        return value

    def look_inside(self, expr: Expr, frame: Frame) -> None:
        """Run a loop step by step, up to the first NaN in its body."""
        name = expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else ""
        if not isinstance(expr, Call) or name not in _STEPS:
            return
        given, attrs = arguments(expr)
        args = [None if arg is None else self.value(arg, frame) for arg in given]
        for _ in _STEPS[name](*args, **evaluate_attrs(attrs, frame.symbols.value)):
            if self.nan is not None:
                return

    def look(self, binding: Binding, frame: Frame, leaf: Any) -> None:
        fault = _fault(f"`{binding.var.name}`", leaf)
        if fault is None or self.nan is not None:
            return
        described = _Fault("\n".join([fault.text, *_place(binding, frame)]), fault.is_nan)
        if fault.is_nan:
            self.nan = described
        elif self.infinity is None:
            self.infinity = described


def _steps_of_scan(
    body: Callable[..., Any], init: Any, xs: Any, length: int | None, reverse: bool, **_: Any
) -> Iterator[None]:
    rows = jax.tree.leaves(xs)
    count = rows[0].shape[0] if rows else length or 0
    carry = init
    for place in reversed(range(count)) if reverse else range(count):
        # A place that is an array is one program for all of them.
        row = partial(lax.dynamic_index_in_dim, index=np.int32(place), keepdims=False)
        carry, _ys = body(carry, jax.tree.map(row, xs))
        yield


def _steps_of_while(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    *args: Any,
    cond_consts: int,
    body_consts: int,
) -> Iterator[None]:
    first = cond_consts + body_consts
    carry = args[first:]
    while cond(*args[:cond_consts], *carry):
        carry = body(*args[cond_consts:first], *carry)
        yield


# How a loop runs one step after the other, where these show single values.
_STEPS: Mapping[str, Callable[..., Iterator[None]]] = {
    "relax.scan": _steps_of_scan,
    "lax.while_loop": _steps_of_while,
}


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is bad about a value."""

    text: str
    is_nan: bool


def _fault(name: str, value: Any) -> _Fault | None:
    if isinstance(value, Tracer) or not is_float(str(getattr(value, "dtype", ""))):
        return None
    wide = np.asarray(value).astype("float64")
    for what, bad in (("NaN", np.isnan(wide)), ("infinite", np.isinf(wide))):
        count = int(bad.sum())
        if count:
            share = f"{count} of its {wide.size} values are" if wide.ndim else "it is"
            return _Fault(f"  {name}: {share} {what}", what == "NaN")
    return None


def _place(binding: Binding, frame: Frame) -> Iterator[str]:
    """The expression that gave a bad value, whose derivative it is, and the user's own line."""
    text = " ".join(str(binding.value).split())
    yield f"    = {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}"
    source = f" for the derivative of `{binding.derived_from}`" if binding.derived_from else ""
    yield f"    in `{frame.name}`{source}"
    if binding.span is not None:
        yield binding.span.excerpt()
