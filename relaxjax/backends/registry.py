"""Backends: who else than XLA's own lowering may compile a region of a program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate

from relaxjax.dpl import FusionPattern, PatternEntry, as_fusion_pattern
from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.registry import did_you_mean

# Takes a region and the options that its user gave; gives a function of JAX arrays.
Compile = Callable[Concatenate[Function, ...], Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class Backend:
    """Who compiles regions, and which calls of operators or patterns of them may be in one."""

    name: str
    compile: Compile
    supports: Callable[[Call], bool]
    patterns: tuple[FusionPattern, ...]


_BACKENDS: dict[str, Backend] = {}


def register_backend(
    name: str,
    compile: Compile,
    supports: Callable[[Call], bool] = lambda call: False,
    patterns: Sequence[PatternEntry] = (),
    override: bool = False,
) -> Backend:
    """Let `RunCodegen` hand the regions of a backend to a Python function.

    Args:
        name: what a region's attribute `Codegen` says.
        compile: takes a region, a Relax function, and the options for the backend as keywords; it
            gives a function of JAX arrays, tuples of them for tuples, that JAX can trace: a Pallas
            kernel, a call of foreign code, a callback.
        supports: whether the backend can compile the call of an operator, for AnnotateTarget.
        patterns: what it compiles as one, for FuseOpsByPattern; each name begins with `name.`.
        override: whether to replace a backend of that name.
    """
    if name in _BACKENDS and not override:
        raise ValueError(
            f"a backend `{name}` is registered already: pass override=True to replace it"
        )
    if not callable(compile):
        raise TypeError(
            f"`compile` of the backend `{name}` must be a function of a region, but it is "
            f"{compile!r}"
        )
    named = tuple(map(as_fusion_pattern, patterns))
    strange = [pattern.name for pattern in named if not pattern.name.startswith(f"{name}.")]
    if strange:
        raise ValueError(
            f"a pattern of the backend `{name}` is named `{name}.…`, found `{strange[0]}`"
        )
    _BACKENDS[name] = Backend(name, compile, supports, named)
    return _BACKENDS[name]


def get_backend(name: str) -> Backend:
    """The backend registered under a name."""
    if name not in _BACKENDS:
        raise KeyError(
            f"no backend `{name}` is registered: there are {', '.join(_BACKENDS)}, and "
            f"register_backend registers others{did_you_mean(name, list(_BACKENDS))}"
        )
    return _BACKENDS[name]


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """The patterns of all backends whose names begin with `prefix`, the first the most eager."""
    patterns = [pattern for backend in _BACKENDS.values() for pattern in backend.patterns]
    return [pattern for pattern in patterns if pattern.name.startswith(prefix)]


def backends() -> Mapping[str, Backend]:
    """The registered backends by name."""
    return dict(_BACKENDS)
