"""The script: programs as Python text, read where they stand or from a string."""

from . import ir as ir
from . import lax as lax
from . import relax as relax
from . import tirx as tirx
from .errors import ScriptError as ScriptError
from .ir import ir_module as ir_module
from .text import from_source as from_source
