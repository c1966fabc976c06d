"""TVM's own names and calls: programs written for TVM run with their import lines changed.

    import tvm                                ->  from relaxjax import tvm
    from tvm import relax                     ->  from relaxjax.tvm import relax
    from tvm.relax.training.loss import Loss  ->  from relaxjax.tvm.relax.training.loss import Loss

or as they stand: `python -m relaxjax.tvm script.py`, and `install()` in a notebook.

Results are arrays with `.numpy()`, and arguments may come from `tvm.nd.array`. Everything is a thin
cover of what relaxjax has; names of several generations of TVM stand beside each other.
"""

from relaxjax.ir import IRModule as IRModule

from . import instrument as instrument
from . import ir as ir
from . import nd as nd
from . import op_attributes as op_attributes
from . import relax as relax
from . import runtime as runtime
from . import script as script
from . import target as target
from . import testing as testing
from . import tirx as tirx
from . import transform as transform
from .building import build as build
from .building import compile as compile
from .devices import cpu as cpu
from .devices import cuda as cuda
from .devices import device as device
from .devices import gpu as gpu
from .devices import rocm as rocm
from .ffi import get_global_func as get_global_func
from .ffi import register_global_func as register_global_func
from .hook import explain_missing as _explain_missing
from .hook import install as install
from .hook import uninstall as uninstall
from .surface import provide as _provide

tir = tirx  # its name of before
__version__ = "0.27.0+relaxjax"  # the TVM whose names these are: programs compare it

_provide()
_explain_missing()
