"""Lowering and running: modules as calls of jax.lax, as JAX functions, as compiled programs."""

from .arguments import ArgumentError as ArgumentError
from .compiled import CompiledFunction as CompiledFunction
from .executable import Executable as Executable
from .executable import build as build
from .executable import compile as compile
from .interpreter import LoweringError as LoweringError
from .legalize import legalize as legalize
from .target import device as device
from .to_jax import to_jax as to_jax
from .virtual_machine import ProfileReport as ProfileReport
from .virtual_machine import VirtualMachine as VirtualMachine
