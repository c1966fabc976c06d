"""Relax, where TVM has it."""

from importlib import import_module

from relaxjax.ir import *  # noqa: F403  # nodes and types, by their new names and their old ones
from relaxjax.lowering import build as build
from relaxjax.passes import DataflowBlockRewrite as DataflowBlockRewrite
from relaxjax.script.relax import prim_value as prim_value

from . import analysis as analysis
from . import binding_rewrite as binding_rewrite
from . import dpl as dpl
from . import optimizer as optimizer
from . import testing as testing
from . import training as training
from . import transform as transform
from . import vm as vm
from .vm import VirtualMachine as VirtualMachine

# The star brought a module of this name too, which `from . import op` would leave in its place.
op = import_module(".op", __name__)
