"""Relax, where TVM has it."""

from relaxjax.ir import *  # noqa: F403  # nodes and types, by their new names and their old ones
from relaxjax.lowering import build as build
from relaxjax.passes import DataflowBlockRewrite as DataflowBlockRewrite

from . import analysis as analysis
from . import dpl as dpl
from . import op as op
from . import optimizer as optimizer
from . import testing as testing
from . import training as training
from . import transform as transform
from . import vm as vm
from .vm import VirtualMachine as VirtualMachine
