"""relaxjax: a pure-functional autodiff compiler whose backward programs can be read and edited."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import interruption as _interruption  # noqa: F401  # it acts where it is imported
from .ir import BlockBuilder as BlockBuilder
from .ir import Call as Call
from .ir import Constant as Constant
from .ir import DataflowVar as DataflowVar
from .ir import FuncStructInfo as FuncStructInfo
from .ir import Function as Function
from .ir import FuncType as FuncType
from .ir import GlobalVar as GlobalVar
from .ir import If as If
from .ir import IRModule as IRModule
from .ir import ObjectStructInfo as ObjectStructInfo
from .ir import ObjectType as ObjectType
from .ir import PrimStructInfo as PrimStructInfo
from .ir import PrimType as PrimType
from .ir import SeqExpr as SeqExpr
from .ir import ShapeExpr as ShapeExpr
from .ir import ShapeStructInfo as ShapeStructInfo
from .ir import ShapeType as ShapeType
from .ir import TensorStructInfo as TensorStructInfo
from .ir import TensorType as TensorType
from .ir import Tuple as Tuple
from .ir import TupleGetItem as TupleGetItem
from .ir import TupleStructInfo as TupleStructInfo
from .ir import TupleType as TupleType
from .ir import Var as Var
from .ir import const as const
from .ir import diff as diff
from .ir.written_above import body_of as _body_of
from .ops import op as op

if TYPE_CHECKING:
    __version__: str

    from .autodiff import TrainState as TrainState
    from .autodiff import grad as grad
    from .autodiff import train_step as train_step
    from .autodiff import value_and_grad as value_and_grad
    from .explorer import explore as explore
    from .frontends import from_jax as from_jax
    from .lowering import Executable as Executable
    from .lowering import VirtualMachine as VirtualMachine
    from .lowering import build as build
    from .lowering import export as export
    from .lowering import to_jax as to_jax
    from .lowering import to_python as to_python
    from .passes import SetupTrainer as SetupTrainer
    from .passes.memory.report.memory_report import MemoryReport as MemoryReport
    from .passes.memory.report.memory_report import memory as memory
    from .script import from_source as from_source
    from .torch import ImportedModel as ImportedModel
    from .torch import from_torch as from_torch
    from .training import Trainer as Trainer

# What stands above the operators is imported when it is asked for: half of what there is to import.
_HOMES = {
    "Executable": "lowering",
    "ImportedModel": "torch",
    "MemoryReport": "passes.memory.report.memory_report",
    "SetupTrainer": "passes",
    "TrainState": "autodiff",
    "Trainer": "training",
    "VirtualMachine": "lowering",
    "build": "lowering",
    "explore": "explorer",
    "export": "lowering",
    "from_jax": "frontends",
    "from_source": "script",
    "from_torch": "torch",
    "grad": "autodiff",
    "memory": "passes.memory.report.memory_report",
    "to_jax": "lowering",
    "to_python": "lowering",
    "train_step": "autodiff",
    "value_and_grad": "autodiff",
}
_PACKAGES = (
    "datasets",
    "losses",
    "lowering",
    "optim",
    "passes",
    "script",
    "testing",
    "torch",
    "training",
)
_NOT_OURS = ("Any", "TYPE_CHECKING", "import_module")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name == "__version__":
        return _version()
    if name == "__all__":  # asked for by `from relaxjax import *`, which wants the late names too
        return [known for known in __dir__() if known[0] != "_" and known not in _NOT_OURS]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@_body_of(IRModule.explore)
def _explore(subject: Any, *args: Any, **options: Any) -> Any:
    """`.explore()` of what lies below the explorer, which is imported only when that is called."""
    return __getattr__("explore")(subject, *args, **options)


def _version() -> str:
    """The version that is installed; that of a checkout beside no installation is not known."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("relaxjax")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_PACKAGES, "__version__"})
