"""The virtual machine, which takes and gives arrays as TVM has them."""

from typing import Any

from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.lowering import VirtualMachine as RelaxjaxVirtualMachine
from relaxjax.lowering import build as build
from relaxjax.training.door import with_dtype
from relaxjax.tvm.nd import unwrapped, wrapped


class VirtualMachine(RelaxjaxVirtualMachine):
    """Runs the functions of an executable: `vm["f"](*args)` gives arrays with `.numpy()`.

    An array of another dtype than the function takes is converted if that loses nothing, as labels
    often come in float32 from a data loader.
    """

    def __getitem__(self, name: str) -> Any:
        compiled = super().__getitem__(name)
        params = compiled.function.params

        def run(*args: Any) -> Any:
            with compiled.context():
                given = list(map(unwrapped, args))
                fitting = list(map(_fitting, params, given))
                return wrapped(compiled(*fitting, *given[len(params) :]))

        return run


def _fitting(param: Var, value: Any) -> Any:
    known = isinstance(param.ty, TensorType) and param.ty.dtype is not None
    return with_dtype("argument", param, value) if known else value
