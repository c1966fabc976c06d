"""TVM's own names and calls: programs written for TVM run with their import lines changed.

    import tvm                                ->  from relaxjax import tvm
    from tvm import relax                     ->  from relaxjax.tvm import relax
    from tvm.relax.training.loss import Loss  ->  from relaxjax.tvm.relax.training.loss import Loss

Results are arrays with `.numpy()`, and arguments may come from `tvm.nd.array`. Everything is a thin
cover of what relaxjax has; names of several generations of TVM stand beside each other.
"""

from relaxjax.ir import IRModule as IRModule
from relaxjax.lowering import build as build
from relaxjax.lowering import compile as compile

from . import instrument as instrument
from . import ir as ir
from . import nd as nd
from . import relax as relax
from . import runtime as runtime
from . import script as script
from . import target as target
from . import tirx as tirx
from . import transform as transform
from .devices import cpu as cpu
from .devices import cuda as cuda
from .devices import device as device
from .devices import gpu as gpu
from .devices import rocm as rocm

tir = tirx  # its name of before
