"""One sample of every pass, to be run on any program, forward or backward.

A pass that can be made without options needs no entry here: it is tried with its defaults.
"""

import inspect
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from partition_samples import PARTITION_SAMPLES

from relaxjax.ir import Function, IRModule, SymbolicVar, TensorType, TupleType, Type, Var
from relaxjax.ir.infer import unify
from relaxjax.ir.walk import substitute_type
from relaxjax.passes import (
    AnnotateSharding,
    BindParams,
    BindSymbolicVars,
    ConvertToDataflow,
    DenseToSparse,
    EtaExpand,
    Inline,
    Pass,
    PrintIR,
    Sequential,
    SimplifyFCTranspose,
    ToANormalForm,
    ToGraphNormalForm,
    TopologicalSort,
    UpdateParamType,
    process_params,
    search_fc_transpose,
)
from relaxjax.passes.infrastructure.base import FACTORIES


@dataclass(frozen=True)
class Case:
    """A module, the function of it that is run, and the arguments."""

    module: IRModule
    entry: str
    args: tuple[Any, ...]


# The pass, and where it changes what the function takes, the arguments for that.
Sample = Callable[[Case], Pass | tuple[Pass, tuple[Any, ...]]]

# Passes whose very purpose is another function or another result: their own tests run them.
OTHER_RESULTS = {
    "AppendAdjoint": "adds a function",
    "AppendEvaluation": "adds a function",
    "AppendLoss": "adds a function",
    "AppendOptimizer": "adds a function, and asks for an optimizer",
    "CheckTrains": "asks for a loss of parameters",
    "ChangeBatch": "takes arguments of another size",
    "CustomGradient": "changes the gradient of a function",
    "DataParallel": "asks which parameters are weights",
    "DecomposeOpsForTraining": "batch_norm takes the statistics of the batch, dropout draws",
    "DescribeLoss": "asks for a loss",
    "FullySharded": "asks which parameters are weights",
    "FuseTrainStep": "asks for an adjoint and an optimizer",
    "Gradient": "adds a function",
    "HessianVectorProduct": "adds a function",
    "Jvp": "adds a function",
    "LazyGetInput": "takes a function in the place of weights",
    "LazySetOutput": "hands its results to a function",
    "LossChannelsLast": "asks for a loss",
    "MutateOpsForTraining": "batch_norm takes the statistics of the batch, dropout draws",
    "OffloadResiduals": "is for adjoints only",
    "PlanStepMemory": "asks for a training step",
    "PrepareBackbone": "asks for a backbone",
    "Rematerialize": "is for adjoints only",
    "SequenceParallel": "asks which parameters are weights",
    "SetupTrainer": "adds functions, and asks for a loss and an optimizer",
    "ShardTraining": "asks for a loss of parameters",
    "SimplifyAdjoint": "is for the adjoint of a loss only",
    "SplitBatch": "asks for a batch of samples that nothing mixes",
    "StackLayers": "takes parameters in stacks",
    "StoreKernels": "takes kernels with their axes moved",
    "TensorParallel": "asks which parameters are weights",
    "UpdateInLoops": "asks for a training step",
    "UpdateRows": "asks for an adjoint and an optimizer",
    "UseTrainingForms": "batch_norm takes the statistics of the batch, dropout draws",
}


def _last_param_bound(case: Case) -> tuple[Pass, tuple[Any, ...]]:
    """The last parameter fixed to the argument for it, if that is a tensor."""
    *_, param = case.module[case.entry].params
    if not isinstance(param.ty, TensorType):
        return BindParams(case.entry, {}), case.args
    return BindParams(case.entry, {param: case.args[-1]}), case.args[:-1]


def _weights_transposed(case: Case) -> tuple[Pass, tuple[Any, ...]]:
    """Whatever is read transposed only, handed in so."""
    function = case.module[case.entry]
    assert isinstance(function, Function)
    names = search_fc_transpose(function)
    pairs = zip(function.params, case.args, strict=True)
    args = (np.swapaxes(arg, 0, 1) if param.name in names else arg for param, arg in pairs)
    return SimplifyFCTranspose(names), tuple(args)


def _weights_in_blocks(case: Case) -> tuple[Pass, tuple[Any, ...]]:
    """Every weight of a dense layer packed, in blocks of one element."""
    function = case.module[case.entry]
    assert isinstance(function, Function)
    given = {param.name: arg for param, arg in zip(function.params, case.args, strict=True)}
    tensors = {name: arg for name, arg in given.items() if isinstance(arg, np.ndarray)}
    packed = process_params(function, tensors, (1, 1), sparsity_threshold=-1)
    parts = {
        name: [packed.params[f"{name}_{part}"] for part in ("data", "indices", "indptr")]
        for name in packed.weight_name
    }
    args = [part for name, arg in given.items() for part in parts.get(name, [arg])]
    return DenseToSparse(packed.weight_name, packed.weight_shape), tuple(args)


def _dims(case: Case) -> dict[SymbolicVar, int]:
    """The symbolic dimensions of the function that is run, with their sizes."""
    sizes: dict[SymbolicVar, Any] = {}
    for param, arg in zip(case.module[case.entry].params, case.args, strict=True):
        if param.ty is not None:
            unify(param.ty, _type_of(arg), sizes)
    return sizes


def _type_of(arg: Any) -> Type:
    if isinstance(arg, tuple):
        return TupleType(tuple(map(_type_of, arg)))
    return TensorType(arg.shape, str(arg.dtype))


def _dims_bound(case: Case) -> tuple[Pass, tuple[Any, ...]]:
    return BindSymbolicVars(_dims(case), case.entry), case.args


def _params_retyped(case: Case) -> tuple[Pass, tuple[Any, ...]]:
    """Every parameter of the function that is run told the sizes of its dimensions."""
    sizes, params = _dims(case), case.module[case.entry].params

    def told(param: Var) -> Type | None:
        ty = param.ty if param in params else None
        return None if ty is None else substitute_type(ty, sizes)

    return UpdateParamType(told), case.args


_CHANNELS_LAST = {
    f"relax.nn.conv{len(spatial)}d": [f"N{spatial}C", f"{spatial}IO"]
    for spatial in ("W", "HW", "DHW")
}

# Options for passes that have some without a default, or that do nothing without them.
SAMPLES: dict[str, Sample] = {
    "AnnotateSharding": lambda case: AnnotateSharding({"*": "R"}, {"data": 1}, case.entry),
    "BindParams": _last_param_bound,
    "BindSymbolicVars": _dims_bound,
    "CombineParallelBatchMatmul": lambda case: FACTORIES["CombineParallelBatchMatmul"](2),
    "CombineParallelConv2D": lambda case: FACTORIES["CombineParallelConv2D"](2),
    "CombineParallelDense": lambda case: FACTORIES["CombineParallelDense"](2),
    "ConvertLayout": lambda case: FACTORIES["ConvertLayout"](_CHANNELS_LAST),
    "ConvertToDataflow": lambda case: ConvertToDataflow(1),
    "DenseToSparse": _weights_in_blocks,
    "EtaExpand": lambda case: EtaExpand(expand_constructor=True, expand_global_var=True),
    "Inline": lambda case: Inline(cost_model=3),
    "PrintIR": lambda case: PrintIR(file=io.StringIO()),
    **PARTITION_SAMPLES,
    "StoreResults": lambda case: FACTORIES["StoreResults"](case.entry),
    "ToGraphNormalForm": lambda case: Sequential([ToGraphNormalForm(), ToANormalForm()]),
    "SimplifyFCTranspose": _weights_transposed,
    "TopologicalSort": lambda case: TopologicalSort("breadth-first", "from-outputs"),
    "UpdateParamType": _params_retyped,
}

# How far from the results of other passes a pass may come, relative to the largest number.
TOLERANCES: dict[str, float] = {}


def sample(name: str, case: Case) -> tuple[Pass, tuple[Any, ...]]:
    """The sample of the pass called `name` for a case, and the arguments after it."""
    made = SAMPLES[name](case) if name in SAMPLES else FACTORIES[name]()
    return made if isinstance(made, tuple) else (made, case.args)


def preserving() -> list[str]:
    """The names of the passes after which a program must give the same results."""
    return [name for name in sorted(FACTORIES) if name not in OTHER_RESULTS]


def needs_options(name: str) -> bool:
    """Whether a pass cannot be made without options."""
    parameters = FACTORIES[name].parameters.values()
    return any(parameter.default is inspect.Parameter.empty for parameter in parameters)
