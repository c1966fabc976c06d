"""Passes: pure functions from module to module, each in its own file, and what runs them."""

from .base import PassFactory as PassFactory
from .base import pass_factory as pass_factory
from .config import register_config as register_config
from .context import PassContext as PassContext
from .context import build_config as build_config
from .dead_code_elimination import DeadCodeElimination as DeadCodeElimination
from .decorators import dataflowblock_pass as dataflowblock_pass
from .decorators import function_pass as function_pass
from .decorators import module_pass as module_pass
from .hooks import pass_instrument as pass_instrument
from .info import PassInfo as PassInfo
from .kinds import DataflowBlockPass as DataflowBlockPass
from .kinds import FunctionPass as FunctionPass
from .kinds import ModulePass as ModulePass
from .kinds import Pass as Pass
from .normalize import Normalize as Normalize
from .pipeline import PipelineError as PipelineError
from .pipeline import parse_pipeline as parse_pipeline
from .pipeline import pipeline_text as pipeline_text
from .registry import get_pass as get_pass
from .sequential import Sequential as Sequential
