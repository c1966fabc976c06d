"""Relax, where TVM has it."""

from importlib import import_module
from types import ModuleType

from relaxjax.ir import *  # noqa: F403  # nodes and types, by their new names and their old ones
from relaxjax.ir.function import Binding as Binding
from relaxjax.ir.global_info import DummyGlobalInfo as DummyGlobalInfo
from relaxjax.ir.global_info import VDevice as VDevice
from relaxjax.passes import DataflowBlockRewrite as DataflowBlockRewrite
from relaxjax.script.relax import prim_value as prim_value
from relaxjax.tvm.building import build as build

from . import analysis as analysis
from . import binding_rewrite as binding_rewrite
from . import block_builder as block_builder
from . import dpl as dpl
from . import expr_functor as expr_functor
from . import frontend as frontend
from . import optimizer as optimizer
from . import pipeline as pipeline
from . import testing as testing
from . import training as training
from . import transform as transform
from . import utils as utils
from . import vm as vm
from .block_builder import BlockBuilder as BlockBuilder
from .expr_functor import PyExprMutator as PyExprMutator
from .expr_functor import PyExprVisitor as PyExprVisitor
from .pipeline import get_pipeline as get_pipeline
from .vm import VirtualMachine as VirtualMachine

# The star brought modules too: two whose names `from . import op` would leave in their place, and
# many that TVM does not have here, such as `function`.
for _name, _value in list(globals().items()):
    if isinstance(_value, ModuleType) and _value.__name__.startswith("relaxjax.ir."):
        del globals()[_name]
expr = import_module(".expr", __name__)
op = import_module(".op", __name__)
