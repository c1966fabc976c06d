"""Holding the compiled forms of a gradient against one that is computed operator by operator.

XLA makes kernels of a program, computes values anew in several of them, and rounds otherwise there:
what is right operator by operator may be wrong compiled. So may what a pass made of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.autodiff import value_and_grad
from relaxjax.ir.expr import Tuple, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.span import excerpt_of
from relaxjax.ir.types import TensorType, is_key
from relaxjax.lowering import build, to_jax
from relaxjax.lowering.trial import wide_enough_for
from relaxjax.passes import (
    LegalizeOps,
    PassContext,
    Rematerialize,
    SimplifyGradient,
    standard_pipeline,
)

from .equations import run
from .reference import Reference
from .rounding import in_dtype, in_floats, widest_of
from .subject import Subject, arguments_for

POLICIES = ("none", "free", "balanced", "minimal")
DTYPES = ("float32", "bfloat16", "float64")
# What differs by more than this is no rounding, in whatever dtype: of these bindings one is named.
_PLAINLY_WRONG = 0.1
# In so many parts values are asked for, where the wrong one is sought: each part is compiled.
_PARTS = 8


class CompilationError(AssertionError):
    """A compiled program gives other numbers; the message says which way, and where."""


@dataclass(frozen=True)
class Way:
    """One way from a function to its compiled gradient: by a route, a memory policy, in a dtype."""

    route: str
    policy: str = "none"
    dtype: str = "float32"

    def __str__(self) -> str:
        return f"{self.route}, policy {self.policy}, {self.dtype}"


@dataclass(frozen=True)
class Compared:
    """What came of one way: the largest error, as a share of what rounding explains.

    It says little where that is a large part of the numbers, `loosely`.
    """

    way: Way
    error: float
    loosely: bool


def compare_compilations(
    mod: IRModule,
    func: str = "main",
    args: Sequence[Any] | None = None,
    *,
    ways: Sequence[Way] | None = None,
    seed: int = 0,
) -> list[Compared]:
    """Compile the gradient of a function in many ways, and compare what they give.

    The reference is JAX's gradient, operator by operator in float64, at `args` or at random
    arguments. Against it are held the gradient that `Gradient` writes, operator by operator too,
    and finite differences where the function is smooth. Where two numbers tie and a slope by
    differences says that JAX's gradient is wrong, that of `Gradient` counts.

    Where both agree up to rounding, each of `ways` is held against what `Gradient` writes, jitted
    as for any user: by default each route, with each memory policy, in float32, bfloat16 and
    float64; with `ways=[]` nothing is compiled.

    How far numbers may lie apart follows from the function: as far as they move where each
    operator's result is rounded otherwise, in that dtype. What lies farther apart raises a
    `CompilationError`, which names the way, the result, and the first binding that comes out wrong.
    """
    given = arguments_for("compare_compilations", mod, func, args, seed)
    chosen = ways_of(mod) if ways is None else list(ways)
    _check(chosen)
    found: list[Compared] = []
    for dtype in dict.fromkeys(way.dtype for way in chosen) or [widest_of(mod)]:
        other = in_dtype(mod, dtype)
        if other is None:
            raise ValueError(
                f"`{func}` looks at the bits of its floats, so it has no form in {dtype}: leave "
                "out the ways in that dtype"
            )
        own = [way for way in chosen if way.dtype == dtype]
        values = given if other is mod else in_floats(given, dtype)
        found += _compared(other, func, values, dtype, own)
    return found


def ways_of(mod: IRModule) -> list[Way]:
    """Every way of compiling the gradients of a module, in the dtypes that it can have."""
    dtypes = [dtype for dtype in DTYPES if in_dtype(mod, dtype) is not None]
    return [Way(*parts) for parts in product(ROUTES, POLICIES, dtypes)]


def _check(ways: Sequence[Way]) -> None:
    for way in ways:
        for name, known in (("route", tuple(ROUTES)), ("policy", POLICIES), ("dtype", DTYPES)):
            found = getattr(way, name)
            if found not in known:
                raise ValueError(
                    f"there is no {name} `{found}`: there are {', '.join(known)}"
                    f"{did_you_mean(found, list(known))}"
                )


def _compared(
    mod: IRModule, func: str, args: Sequence[Any], dtype: str, ways: Sequence[Way]
) -> list[Compared]:
    with jax.enable_x64(True), wide_enough_for(args):
        subject = Subject(mod, func, mod[func], tuple(args))
        reference = Reference(subject, dtype)
        wrong = reference.fault()
        if wrong is not None:
            raise CompilationError(f"the gradient of `{func}`, equation by equation: {wrong}")
        return [_one(subject, reference, way) for way in ways]


def _one(subject: Subject, reference: Reference, way: Way) -> Compared:
    # Memory is planned for sizes that are known.
    program = ROUTES[way.route](subject if way.policy == "none" else subject.sized, way.policy)
    found = program.results()
    apart = reference.apart(found)
    if apart is not None:
        raise CompilationError(f"{way}: {apart}{program.blamed()}")
    return Compared(way, reference.error(found), reference.is_loose)


@dataclass(frozen=True)
class _Program:
    """What a route ends in: a function of a module, its arguments, and what running it gives."""

    mod: IRModule
    name: str
    args: tuple[Any, ...]
    results: Callable[[], Any]  # the targets, and the gradients

    def blamed(self) -> str:
        """The first binding whose value, compiled beside the results, comes out plainly wrong.

        With more results XLA makes other kernels. So all values are asked for at once, and, where
        none of them is wrong then, a few at a time.
        """
        pairs = list(zip(self._bindings, self._values(), strict=True))
        few = -(-len(pairs) // _PARTS)
        parts = [pairs[first : first + few] for first in range(0, len(pairs), few or 1)]
        for part in (pairs, *parts):
            whole = self._with([binding.var for binding, _ in part])
            _, found = jax.jit(to_jax(whole, self.name))(*self.args)
            for (binding, value), compiled in zip(part, found, strict=True):
                if _is_far(compiled, value):
                    place = excerpt_of(binding.span)
                    return f". The first wrong value is `{binding.var.name}`{place}"
        return ". Each value is right where it is a result too: XLA makes other kernels then"

    @property
    def _function(self) -> Function:
        function: Function = self.mod[self.name]
        return function

    @property
    def _bindings(self) -> list[Binding]:
        """The bindings of numbers."""
        return [binding for binding in self._function.body.bindings() if _is_of_numbers(binding)]

    def _values(self) -> Sequence[Any]:
        """Their values, equation by equation."""
        whole = self._with([binding.var for binding in self._bindings])
        _, values = run(to_jax(whole, self.name), *self.args)
        return values  # type: ignore[no-any-return]  # arrays in the structure of the function

    def _with(self, more: Sequence[Var]) -> IRModule:
        """The module with more results of the function."""
        function = self._function
        results = Tuple((function.body.body, Tuple(tuple(more))))
        body = replace(function.body, body=results, ty=None)
        changed = replace(function, body=body, ret_ty=results.ty, ty=None)
        return self.mod.with_function(self.name, changed)


def _is_of_numbers(binding: Binding) -> bool:
    ty = binding.var.ty
    return isinstance(ty, TensorType) and not is_key(ty.dtype)


def _is_far(found: Any, value: Any) -> bool:
    one, other = (np.asarray(array).astype("float64") for array in (found, value))
    size = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
    with np.errstate(invalid="ignore"):
        far = np.where(np.isfinite(other), np.abs(one - other), 0.0)
    return not np.all(far <= _PLAINLY_WRONG * size)


def _built(subject: Subject, policy: str) -> _Program:
    """By `build`, which legalises."""
    mod, name = subject.adjoint, subject.adjoint_name
    mod = mod if policy == "none" else _planned(LegalizeOps()(mod), name, policy)
    executable = build(mod)
    return _adjoint(executable.mod, subject, executable[name])


def _simplified(subject: Subject, policy: str) -> _Program:
    """By `jax.jit`, after SimplifyGradient."""
    mod, name = LegalizeOps()(SimplifyGradient()(subject.adjoint)), subject.adjoint_name
    mod = _planned(mod, name, policy)
    return _adjoint(mod, subject, jax.jit(to_jax(mod, name)))


def _by_pipeline(subject: Subject, policy: str, level: int) -> _Program:
    """By `jax.jit`, after the standard pipeline of a level."""
    name = subject.adjoint_name
    mod = _planned(LegalizeOps()(subject.adjoint), name, policy)
    with PassContext(opt_level=level):
        mod = standard_pipeline(level)(mod)
    return _adjoint(mod, subject, jax.jit(to_jax(mod, name)))


def _of_loss(subject: Subject, policy: str) -> _Program:
    """By `relaxjax.value_and_grad` of the function written in JAX, as JAX's users have it."""
    count = len(subject.floats)

    def loss(*args: Any) -> Any:
        targets = subject.forward_of(args[:count], args[count:-1])
        pairs = zip(jax.tree.leaves(targets), jax.tree.leaves(args[-1]), strict=True)
        return sum(jnp.sum(target * u) for target, u in pairs), targets

    args = (*subject.floats, *subject.rest, subject.u)
    memory = None if policy == "none" else policy
    derived = value_and_grad(loss, tuple(range(count)), has_aux=True, memory_policy=memory)
    jitted = jax.jit(derived)

    def results() -> Any:
        (_, targets), gradients = jitted(*args)
        return targets, gradients

    inputs = tuple(derived.inputs(*args))
    return _Program(derived.module(*args), f"{loss.__name__}_adjoint", inputs, results)


def _adjoint(mod: IRModule, subject: Subject, run: Callable[..., Any]) -> _Program:
    def results() -> Any:
        result, gradients = run(*subject.adjoint_args)
        return subject.chosen(result), gradients

    return _Program(mod, subject.adjoint_name, subject.adjoint_args, results)


def _planned(mod: IRModule, name: str, policy: str) -> IRModule:
    return mod if policy == "none" else Rematerialize(name, policy=policy)(mod)


# Level 4 of the standard pipeline is left out: it computes other numbers, within bounds of its own.
ROUTES: Mapping[str, Callable[[Subject, str], _Program]] = {
    "build": _built,
    "simplified": _simplified,
    **{f"standard_pipeline_{level}": partial(_by_pipeline, level=level) for level in range(4)},
    "value_and_grad": _of_loss,
}
