"""What an exported method is given: tensors, sizes, and tuples of them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# How a method takes its parameters: one by one, as one tuple, or not at all.
_MODES = ("plain", "packed", "none")


@dataclass(frozen=True)
class Tensor:
    """A tensor; a dimension is a number, or a name, which means the same in all of a method."""

    shape: Sequence[int | str]
    dtype: str


@dataclass(frozen=True)
class Int:
    """A number that is known when the program runs: it may be a dimension."""


@dataclass(frozen=True)
class Tuple:
    """A tuple, or a list, of what is given."""

    name: str
    elements: Sequence[Any]


@dataclass(frozen=True)
class MethodSpec:
    """A method, what each of its arguments is, and how it takes the parameters."""

    method: Callable[..., Any]
    arg_names: list[str]
    arg_specs: list[Any]
    param_mode: str = "plain"
    effect_mode: str = "plain"

    @staticmethod
    def from_raw(spec: Any, method: Callable[..., Any]) -> "MethodSpec":
        """Read `{"x": Tensor(...), "$": {"param_mode": "packed"}}` for a method."""
        if isinstance(spec, MethodSpec):
            return spec
        named = dict(spec)
        options = {"param_mode": "plain", "effect_mode": "plain", **named.pop("$", {})}
        label = getattr(method, "__name__", repr(method))
        for option, mode in options.items():
            if option not in ("param_mode", "effect_mode") or mode not in _MODES:
                raise ValueError(
                    f"`{label}`: the options under `$` are param_mode and effect_mode, each one of "
                    f"{', '.join(_MODES)}, but found {option}={mode!r}"
                )
        names = list(inspect.signature(method).parameters)
        if sorted(names) != sorted(named):
            raise ValueError(
                f"`{label}` takes {', '.join(names) or 'nothing'}, but the specification is of "
                f"{', '.join(named) or 'nothing'}"
            )
        specs = [_read(named[name], f"`{name}` of `{label}`") for name in names]
        return MethodSpec(method, names, specs, **options)


@dataclass(frozen=True)
class ModuleSpec:
    """The methods of a module that are exported."""

    module: Any
    methods: Mapping[str, MethodSpec] = field(default_factory=dict)

    @property
    def method_names(self) -> list[str]:
        return list(self.methods)

    @property
    def method_specs(self) -> list[MethodSpec]:
        return list(self.methods.values())

    @staticmethod
    def from_raw(spec: Any, module: Any) -> "ModuleSpec":
        """Read a dictionary of the methods, each with a dictionary of its arguments."""
        if isinstance(spec, ModuleSpec):
            return spec
        methods = {}
        for name in sorted(spec):
            method = getattr(module, name, None)
            if not callable(method):
                raise AttributeError(f"{type(module).__name__} has no method `{name}` to export")
            methods[name] = MethodSpec.from_raw(spec[name], method)
        return ModuleSpec(module, methods)


def _read(spec: Any, subject: str) -> Any:
    """One argument: also `int`, an object of a class without arguments given as the class."""
    if spec is int or spec is Int:
        return Int()
    if isinstance(spec, Tensor | Int):
        return spec
    if isinstance(spec, Tuple):
        return Tuple(spec.name, [_read(one, subject) for one in spec.elements])
    if isinstance(spec, tuple | list):
        return Tuple(subject.split("`")[1], [_read(one, subject) for one in spec])
    raise TypeError(
        f"{subject} is given as spec.Tensor(shape, dtype), int, or a tuple of them, found {spec!r}"
    )
