"""The script: programs as Python text, read where they stand or from a string."""

from . import ir as ir
from . import lax as lax
from . import relax as relax
from . import tirx as tirx
from .archive import ArchiveError as ArchiveError
from .archive import load_archive as load_archive
from .archive import save_archive as save_archive
from .errors import ScriptError as ScriptError
from .ir import ir_module as ir_module
from .text import from_source as from_source
