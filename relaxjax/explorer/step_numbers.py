"""The numbers of one step: what each binding computes, and the gradient of each value."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.printer import variable_names
from relaxjax.ir.types import is_float
from relaxjax.lowering.arguments import admit, as_jax
from relaxjax.lowering.interpreter import Frame, Interpreter
from relaxjax.lowering.trial import wide_enough_for
from relaxjax.lowering.when_lowered import only_for
from relaxjax.ops.platform import PLATFORM

from .document import Number, Numbers
from .inputs import Inputs
from .printed import bindings_of

LEAST = -40  # the octave of the histograms in which all smaller numbers are, too
OCTAVES = 64
_ADJOINT = re.compile(r"(.+)_adjoint\d*(?:_out)?")


def numbers_of(mod: IRModule, name: str, inputs: Inputs) -> Numbers:
    """Run a function of a module, binding by binding, and look at each value.

    Loops are run step by step: what a binding computes in all of them is taken together.
    """
    function: Function = mod[name]
    with wide_enough_for(inputs.arrays):
        args = list(map(as_jax, admit(function.params, inputs.arrays, f"`{name}`")))
        watcher = _Watcher(mod, name)
        for param, arg in zip(function.params, args, strict=True):
            watcher.look(param.name, arg)
        has_loops = any(isinstance(b.value, Function) for b in bindings_of(function))
        # As JAX runs a program without compiling it, its loops are Python's.
        with jax.disable_jit() if has_loops else nullcontext():
            only_for(mod.attrs.get(PLATFORM), watcher.run)(function, args, name)
    gradients = dict(_gradients(function))
    values = (seen.number(var, gradients.get(var)) for var, seen in watcher.seen.items())
    return Numbers(inputs.origin, LEAST, tuple(values))


class _Watcher(Interpreter):
    """Runs a function operator by operator, and takes down what each of its bindings computes."""

    def __init__(self, mod: IRModule, name: str) -> None:
        super().__init__(mod)
        self.name = name
        self.seen: dict[str, _Seen] = {}

    def binding(self, binding: Binding, frame: Frame) -> Any:
        value = super().binding(binding, frame)
        if frame.name == self.name or frame.name.startswith(f"{self.name}."):
            self.look(frame.printed.get(binding.var, binding.var.name), value)
        return value

    def look(self, var: str, value: Any) -> None:
        """Take down an array of floats; what a tuple holds is bound where it is taken out."""
        is_known = isinstance(value, jax.Array) and not isinstance(value, Tracer)
        if is_known and is_float(str(value.dtype)):
            self.seen.setdefault(var, _Seen()).add(np.asarray(value))


@dataclass(slots=True)
class _Seen:
    """What is known of all numbers of a value, however often it was computed."""

    count: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    low: float = np.inf
    high: float = -np.inf
    squares: float = 0.0
    octaves: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(OCTAVES, "int64"))

    def add(self, array: np.ndarray[Any, Any]) -> None:
        wide = array.astype("float64").ravel()
        finite = wide[np.isfinite(wide)]
        others = finite[finite != 0]
        self.count += wide.size
        self.nan += int(np.isnan(wide).sum())
        self.infinite += int(np.isinf(wide).sum())
        self.zeros += finite.size - others.size
        self.low = min(self.low, float(finite.min(initial=np.inf)))
        self.high = max(self.high, float(finite.max(initial=-np.inf)))
        self.squares += float(np.square(finite).sum())
        octave = np.clip(np.frexp(others)[1] - 1 - LEAST, 0, OCTAVES - 1)
        self.octaves += np.bincount(octave, minlength=OCTAVES)

    def number(self, var: str, gradient_of: str | None) -> Number:
        finite = self.count - self.nan - self.infinite
        taken = np.flatnonzero(self.octaves)
        first, past = (int(taken[0]), int(taken[-1]) + 1) if taken.size else (0, 0)
        return Number(
            var,
            gradient_of,
            self.count,
            self.nan,
            self.infinite,
            self.zeros,
            self.low if finite else None,
            self.high if finite else None,
            (self.squares / finite) ** 0.5 if finite else None,
            first,
            tuple(map(int, self.octaves[first:past])),
        )


def _gradients(function: Function) -> Iterator[tuple[str, str]]:
    """Each binding that is the whole gradient of a variable, and that variable.

    `Gradient` names all that it adds up for `x` after it, and the last of it that has the type of
    `x` is the whole.
    """
    names = variable_names(function)
    bindings = {names.get(b.var, b.var.name): b for b in bindings_of(function)}
    types = {param.name: param.ty for param in function.params}
    types |= {name: b.var.ty for name, b in bindings.items() if b.derived_from is None}
    whole: dict[str, str] = {}
    for name, binding in bindings.items():
        found = _ADJOINT.fullmatch(name)
        if found is None or binding.derived_from is None or found[1] not in types:
            continue
        if str(binding.var.ty) == str(types[found[1]]):
            whole[found[1]] = name
    return ((name, of) for of, name in whole.items())
