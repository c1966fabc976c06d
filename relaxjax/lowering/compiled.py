"""One function of a module, compiled when it is first called, once for each set of shapes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from relaxjax.ir.bind import bind_symbolic_vars
from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.walk import definable_symbols
from relaxjax.ops.devices import devices_known
from relaxjax.ops.platform import PLATFORM, default_device, lowering_for

from .arguments import ArgumentError, Symbols, admit, as_jax, bind
from .devices import device_of, devices_of, mesh_of, on_mesh
from .donation import donated_params, fault_of_donation
from .interpreter import Interpreter
from .legalize import legalize
from .target import Place, platform_of
from .traits import compiles, has_symbols, needs_x64
from .when_lowered import only_for


class CompiledFunction:
    """Calls a function of a module: `compiled(*args)` gives JAX arrays, tuples of them for tuples.

    For arguments of shapes and dtypes that it has not seen, it compiles; the `cache_size` programs
    used last are kept. A function that cannot be one compiled program (it calls itself, calls a
    Python function or is given one, has a shape that depends on values, or returns something other
    than tensors) runs operator by operator. So does one whose values are on several devices; its
    parts that `GroupByVDevice` groups run as one program each, where they belong.

    With a `source`, the module before it was legalised, each set of shapes is legalised by itself,
    for the sizes that it has.
    """

    def __init__(
        self,
        mod: IRModule,
        name: str,
        place: Place,
        cache_size: int,
        donate: Sequence[str | int] = (),
        source: IRModule | None = None,
    ) -> None:
        self.mod = mod
        self.source = source
        self.name = name
        self.function: Function = mod[name]
        self.place = place
        self.cache_size = cache_size
        self.donated = frozenset(donated_params(self.function, name, donate))
        self.programs: OrderedDict[Hashable, Callable[..., Any]] = OrderedDict()
        self.devices = devices_of(mod, name)
        self.spread = bool(set(self.devices.values()) - {place})
        self.compiles = compiles(mod, name) and not self.spread
        self.needs_x64 = needs_x64(mod, name)
        self.mesh = mesh_of(mod, name)
        self.is_first = place == jax.devices()[0]

    def __call__(self, *args: Any) -> Any:
        with self.context():
            key = tuple(map(signature, args))
            program = self.programs.get(key)
            if program is None:
                return self._first_call(args)
            self.programs.move_to_end(key)
            return self._run_program(program, args)

    def _run_program(self, program: Callable[..., Any], args: Sequence[Any]) -> Any:
        """A program's result; what was given away before, or is so twice, is named in the error."""
        try:
            return program(*args)
        except (RuntimeError, ValueError):
            fault = fault_of_donation(self.function.params, self.donated, args)
            if fault is not None:
                raise ArgumentError(f"`{self.name}`: {fault}") from None
            raise

    def context(self) -> AbstractContextManager[Any]:
        """The settings under which the function is traced, compiled and run."""
        stack = ExitStack()
        if self.needs_x64:
            stack.enter_context(jax.enable_x64(True))
        if self.spread:
            stack.enter_context(devices_known(self.devices))
        if isinstance(self.place, jax.Device) and self.place != default_device():
            stack.enter_context(jax.default_device(self.place))
        return stack

    def program(self, args: Sequence[Any]) -> Callable[..., Any]:
        """The program for checked arguments like `args`, from the cache if it is there."""
        key = tuple(map(signature, args))
        if key not in self.programs:
            compiles = self.compiles_for(args)
            self.programs[key] = self._compiled(args) if compiles else self._placed(self._run)
            if len(self.programs) > self.cache_size:
                self.programs.popitem(last=False)
        self.programs.move_to_end(key)
        return self.programs[key]

    def compiles_for(self, args: Sequence[Any]) -> bool:
        """Whether a call is one compiled program: a Python function given to it runs outside."""
        return self.compiles and not any(map(_holds_functions, args))

    def checked(self, args: Sequence[Any]) -> list[Any]:
        """Arguments from outside, checked against the parameters before JAX converts them."""
        return admit(self.function.params, args, f"`{self.name}`")

    def lowered(self, args: Sequence[Any]) -> Any:
        """JAX's own lowered program for arguments like `args`."""
        values = self.checked(args)
        return self._jitted(values).lower(*map(_without_constants, values))

    def _first_call(self, args: Sequence[Any]) -> Any:
        values = self.checked(args)
        return self._run_program(self.program(values), values)

    def _run(self, *args: Any) -> Any:
        values = list(map(as_jax, args))
        mod = self._sized(values)
        run = only_for(self.mod.attrs.get(PLATFORM), Interpreter(mod).run)
        with lowering_for(platform_of(self.place)):
            return run(mod[self.name], values, self.name)

    def _sized(self, args: Sequence[Any]) -> IRModule:
        """The module for the sizes of arguments, where these may decide on something.

        Functions that it calls stay as they were, if they have symbols of their own: they are
        lowered as they run.
        """
        if self.source is None or not self.compiles_for(args):
            return self.mod
        function, symbols = self.source[self.name], Symbols()
        bind(self.function.params, args, symbols, f"`{self.name}`")
        told = {symbol for param in function.params for symbol in definable_symbols(param.ty)}
        sized = bind_symbolic_vars(function, {symbol: symbols.value(symbol) for symbol in told})
        legal = legalize(IRModule({self.name: sized}), platform_of(self.place))
        names = (n for n in self.source.relax_functions() if not has_symbols(self.source, n))
        fixed = {n: self.mod[n] for n in names}
        return self.source.with_functions({**fixed, self.name: legal[self.name]})

    def _compiled(self, args: Sequence[Any]) -> Callable[..., Any]:
        program = self._jitted(args)
        if all(value is _without_constants(value) for value in args):
            return self._placed(program)
        return self._placed(lambda *values: program(*map(_without_constants, values)))

    def _jitted(self, args: Sequence[Any]) -> Any:
        """The function under `jax.jit`; what is no array is part of the program.

        So are sizes beside arrays in a tuple, which is given without them.
        """
        constant = [i for i, arg in enumerate(args) if not _some_arrays(arg)]
        donated = [i for i in self.donated if i not in constant]
        held = list(map(_constants, args))

        def run(*values: Any) -> Any:
            return self._run(*map(_with_constants, held, values))

        run.__name__ = self.name
        return jax.jit(run, static_argnums=constant, donate_argnums=donated)

    def _placed(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """`program` with its arrays on the device; the first device they find by themselves."""
        params = self.function.params
        mesh = self.mesh if isinstance(self.place, jax.Device) else self.place
        if isinstance(mesh, DeviceMesh | Mesh):
            return on_mesh(program, params, mesh)
        if self.is_first and not self.spread:
            return program
        devices = [device_of(param.ty, self.devices) or self.place for param in params]

        def placed(*args: Any) -> Any:
            pairs = zip(args, devices, strict=True)
            return program(*(jax.device_put(a, p) if holds_arrays(a) else a for a, p in pairs))

        return placed


def signature(value: Any) -> Hashable:
    """What a program is compiled for: shapes and dtypes of arrays, values of everything else.

    Functions are all alike, because no program is compiled for them.
    """
    if isinstance(value, jax.Array | np.ndarray):
        return value.shape, value.dtype
    if isinstance(value, tuple | list):
        return type(value), *map(signature, value)
    if callable(value):
        return Callable
    return type(value), value if isinstance(value, Hashable) else id(value)


def holds_arrays(value: Any) -> bool:
    """Whether a value is an array, or a tuple of such all through."""
    if isinstance(value, tuple | list):
        return all(map(holds_arrays, value))
    return isinstance(value, jax.Array | np.ndarray)


def _some_arrays(value: Any) -> bool:
    """Whether a value is an array, or a tuple in which there are some, or nothing at all."""
    if isinstance(value, tuple | list):
        return not value or any(map(_some_arrays, value))
    return isinstance(value, jax.Array | np.ndarray)


def _without_constants(value: Any) -> Any:
    """A tuple of arrays and others with None for the others; any other value as it is."""
    if holds_arrays(value) or not _some_arrays(value):
        return value
    return tuple(_without_constants(one) if _some_arrays(one) else None for one in value)


def _constants(value: Any) -> Any:
    """What of a value is no array, None in the place of each array."""
    if isinstance(value, tuple | list):
        return tuple(map(_constants, value))
    return None if isinstance(value, jax.Array | np.ndarray) else value


def _with_constants(constants: Any, value: Any) -> Any:
    """A value with the constants in the place of each None."""
    if isinstance(value, tuple | list) and isinstance(constants, tuple):
        return tuple(map(_with_constants, constants, value))
    return constants if value is None else value


def _holds_functions(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_holds_functions, value))
    return callable(value)
