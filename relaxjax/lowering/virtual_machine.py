"""Running a built module on a device, function by function."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import jax

from .compiled import CompiledFunction
from .executable import Executable
from .interpreter import LoweringError
from .target import Target


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """What one call of a function costs, by XLA's own account and by the clock."""

    function: str
    seconds: float
    flops: float
    bytes_accessed: float
    argument_bytes: int
    output_bytes: int
    temporary_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.function}: {self.seconds * 1e3:.3f} ms, {self.flops:,.0f} flops, "
            f"{self.bytes_accessed:,.0f} bytes accessed; memory in bytes: "
            f"{self.argument_bytes:,} of arguments, {self.output_bytes:,} of results, "
            f"{self.temporary_bytes:,} in between"
        )


class VirtualMachine:
    """Runs the functions of an executable: `vm["f"](*args)`.

    `device` is a JAX device, a sharding or the name of a device, the executable's target unless it
    is given. `profile` is accepted for scripts that were written against TVM: `vm.profile` is there
    without it.
    """

    def __init__(
        self,
        executable: Executable,
        device: Target | Sequence[Target] | None = None,
        profile: bool = False,
    ) -> None:
        if not isinstance(executable, Executable):
            raise TypeError(
                f"a virtual machine runs what `build` gives, found {type(executable).__name__}"
            )
        first = device[0] if isinstance(device, list | tuple) else device
        self.executable = executable
        self.device = executable.target if first is None else first
        self._functions: dict[str, CompiledFunction] = {}

    def __repr__(self) -> str:
        return f"VirtualMachine({', '.join(self.executable)}; device={self.device!r})"

    def _repr_html_(self) -> str:
        return self.executable._repr_html_()

    def __getitem__(self, name: str) -> CompiledFunction:
        return self.compiled(name)

    def compiled(self, name: str) -> CompiledFunction:
        """The function `name` for this device."""
        if name not in self._functions:
            self._functions[name] = self.executable.compiled(name, self.device)
        return self._functions[name]

    def profile(self, name: str, *args: Any) -> ProfileReport:
        """Compile and run the function `name` once on `args`, and say what it costs."""
        compiled = self.compiled(name)
        if not compiled.compiles_for(args):
            raise LoweringError(
                f"`{name}` runs operator by operator: there is no program to profile"
            )
        with compiled.context():
            program = compiled.lowered(args).compile()
        jax.block_until_ready(compiled(*args))
        start = perf_counter()
        jax.block_until_ready(compiled(*args))
        seconds = perf_counter() - start
        cost, memory = program.cost_analysis() or {}, program.memory_analysis()
        return ProfileReport(
            name,
            seconds,
            cost.get("flops", 0.0),
            cost.get("bytes accessed", 0.0),
            memory.argument_size_in_bytes,
            memory.output_size_in_bytes,
            memory.temp_size_in_bytes,
        )
