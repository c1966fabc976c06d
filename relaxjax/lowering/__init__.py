"""Lowering and running: modules as calls of jax.lax, as JAX functions, as compiled programs."""

from .arguments import ArgumentError as ArgumentError
from .compiled import CompiledFunction as CompiledFunction
from .emit import to_python as to_python
from .executable import Executable as Executable
from .executable import build as build
from .executable import compile as compile
from .export import export as export
from .export import exported_function as exported_function
from .export import to_mlir as to_mlir
from .interpreter import LoweringError as LoweringError
from .legalize import legalize as legalize
from .target import device as device
from .to_jax import to_jax as to_jax
from .to_jax import to_jax_for as to_jax_for
from .varying import varying_axes as varying_axes
from .virtual_machine import ProfileReport as ProfileReport
from .virtual_machine import VirtualMachine as VirtualMachine
from .when_lowered import ANOTHER_PLATFORM as ANOTHER_PLATFORM
from .when_lowered import for_each_platform as for_each_platform
