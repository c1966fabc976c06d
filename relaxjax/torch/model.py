"""Models of PyTorch: brought here, trained, and their weights given back."""

import importlib
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import Expr, Tuple
from relaxjax.ir.function import MatchCast, SeqExpr
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType, Type
from relaxjax.lowering import VirtualMachine, build
from relaxjax.passes import (
    BindSymbolicVars,
    DeadCodeElimination,
    DecomposeOpsForInference,
    SetupTrainer,
)
from relaxjax.passes.differentiation.dependence import Dependence, depends
from relaxjax.trainable.names import BACKBONE, PARAM_NUM, STATE_NUM
from relaxjax.training import Trainer

from .archive import read_archive
from .errors import TorchImportError
from .functions import warn_of_functions
from .hooks import warn_of_hooks
from .importer import import_program
from .loss_modules import is_torch_loss, loss_of
from .program import Array, TorchProgram


@dataclass(frozen=True, eq=False)
class ImportedModel:
    """A model of PyTorch as a module with a `backbone`, and its weights.

    `mod` is for `SetupTrainer`. `params` and `states` are its arrays by their names there, and
    `names` says under which of these what stands in torch's `state_dict`. `ranges` are the least
    and the greatest value of each symbolic size, as torch exported it.
    """

    mod: IRModule
    params: Mapping[str, Array]
    states: Mapping[str, Array]
    names: Mapping[str, str]
    ranges: Mapping[str, tuple[int | None, int | None]]

    @property
    def outputs(self) -> list[TensorType]:
        """The types of what the model gives, without its new states."""
        function, count = self.mod[BACKBONE], self.mod.attrs[STATE_NUM]
        body = function.body.body
        fields = body.fields if isinstance(body, Tuple) else (body,)
        types = [field.ty for field in fields[: len(fields) - count]]
        return [ty for ty in types if isinstance(ty, TensorType)]

    def with_sizes(self, **sizes: int) -> "ImportedModel":
        """The model for these sizes alone, which a budget of memory is planned for.

            trainer = model.with_sizes(n=64).trainer(loss, optimizer, memory_budget="500MB")

        A trainer of it takes no other sizes. `ranges` names them.
        """
        for name, size in sizes.items():
            _check_size(self.ranges, name, size)
        left = {name: range_ for name, range_ in self.ranges.items() if name not in sizes}
        mod = BindSymbolicVars(sizes)(self.mod)
        _check_inputs(mod)
        return replace(self, mod=mod, ranges=left)

    def trainer(self, loss: Any, optimizer: Any, *targets: Type, **options: Any) -> Trainer:
        """A trainer of the model, with its weights.

            trainer = model.trainer(torch.nn.CrossEntropyLoss(), Adam(1e-3))
            trainer.update(images, labels)

        The loss is one of `relaxjax.losses` or of `torch.nn`. `targets` are the types of what it
        compares the first outputs with: if not given, class ids where it compares classes, and else
        a tensor like the first output. The options are those of `SetupTrainer`.
        """
        chosen = loss_of(loss) if is_torch_loss(loss) else loss
        count = chosen.num_backbone_outputs
        outputs = self.outputs
        if len(outputs) < count:
            raise ValueError(
                f"{type(chosen).__name__} takes {count} outputs of a model, which gives "
                f"{len(outputs)}"
            )
        compared = targets or chosen.target_types(outputs)
        setup = SetupTrainer(chosen, optimizer, [*outputs[:count], *compared], **options)
        mod = self.mod if len(outputs) == count else _first_outputs(self.mod, count)
        self._check_trained(mod, count)
        try:
            train_mod = setup(mod)
        except Exception as error:
            if self.ranges and "BindSymbolicVars" in str(error):
                sizes = ", ".join(
                    f"{name}={_within(*range_)}" for name, range_ in self.ranges.items()
                )
                error.add_note(
                    f"of a model of PyTorch, as by model.with_sizes({sizes}).trainer(...)"
                )
            raise
        trainer = Trainer(train_mod, VirtualMachine(build(train_mod)))
        self.load(trainer)
        return trainer

    def _check_trained(self, mod: IRModule, count: int) -> None:
        """Raise where the outputs have no gradients, as PyTorch does where it goes back."""
        function = mod[BACKBONE]
        trained = {param: True for param in function.params if param.name in self.params}
        known = Dependence(trained, {})
        known.read(function.body.bindings())
        result = function.body.body
        outputs = result.fields[:count] if isinstance(result, Tuple) else (result,)
        if trained and not any(depends(known.of(output)) for output in outputs):
            raise TorchImportError(
                "there is nothing to train: no output of the model has a gradient by one of its "
                "parameters, as where all of `forward` is under torch.no_grad. Export the model "
                "without that"
            )

    def load(self, trainer: Trainer) -> None:
        """Give the weights and the buffers of the model to a trainer of it."""
        trainer.load_params(self.params)
        trainer.load_states(self.states)

    def state_dict(self, trainer: Trainer) -> dict[str, Array]:
        """What a trainer learnt, as arrays under torch's names, tied weights under each of theirs.

        torch_model.load_state_dict({k: torch.from_numpy(v) for k, v in arrays.items()})
        """
        held = {**trainer.export_params(), **trainer.export_states()}
        return {name: np.array(held[var]) for name, var in self.names.items()}


def _check_size(ranges: Mapping[str, tuple[int | None, int | None]], name: str, size: int) -> None:
    listed = ", ".join(f"{known} ({_range(*range_)})" for known, range_ in ranges.items())
    if name not in ranges:
        raise ValueError(
            f"the model has no size `{name}` that is left open: "
            f"{f'those are {listed}' if listed else 'all of them are fixed'}"
        )
    low, high = ranges[name]
    if (low is not None and size < low) or (high is not None and size > high):
        raise ValueError(
            f"the size `{name}` is to be {size}, but PyTorch exported the model for {listed}"
        )


def _check_inputs(mod: IRModule) -> None:
    """Refuse sizes of inputs that are no multiple of what PyTorch exported the model for."""
    params = mod[BACKBONE].params
    casts = [one for one in mod[BACKBONE].body.bindings() if isinstance(one, MatchCast)]
    for cast in casts:
        given = cast.value
        if given in params and fits(given.ty, cast.ty) is Fit.NEVER:
            raise ValueError(
                f"by these sizes the input `{given}` is of type {given.ty}, but PyTorch exported "
                f"the model for multiples of a number alone: the next smaller one is {cast.ty}"
            )


def _range(low: int | None, high: int | None) -> str:
    return f"{0 if low is None else low} or more" if high is None else f"{low or 0} to {high}"


def _within(low: int | None, high: int | None) -> int:
    """A size that PyTorch exported a model for."""
    return max(low or 0, min(8, 8 if high is None else high))


def _first_outputs(mod: IRModule, count: int) -> IRModule:
    """The module whose backbone gives only as many outputs as a loss takes, and its states."""
    function, states = mod[BACKBONE], mod.attrs[STATE_NUM]
    fields = function.body.body.fields
    return _giving(mod, (*fields[:count], *fields[len(fields) - states :]))


def predicting(mod: IRModule) -> IRModule:
    """A module whose backbone predicts: it gives its outputs without new states.

    Batch norms use their averages. It is no more for a training.
    """
    plain = DecomposeOpsForInference(BACKBONE)(mod)
    result = plain[BACKBONE].body.body
    fields = result.fields if isinstance(result, Tuple) else (result,)
    given = _giving(plain, fields[: len(fields) - mod.attrs[STATE_NUM]])
    return given.without_attr(STATE_NUM).without_attr(PARAM_NUM)


def _giving(mod: IRModule, results: Sequence[Expr]) -> IRModule:
    """The module with other results of its backbone, without what these do not need."""
    function = mod[BACKBONE]
    result = results[0] if len(results) == 1 else Tuple(tuple(results))
    changed = make_function(
        function.params,
        SeqExpr(function.body.blocks, result),
        pure=function.pure,
        attrs=function.attrs,
    )
    return DeadCodeElimination()(mod.with_function(BACKBONE, changed))


def from_torch(program: Any, *example_inputs: Any, **export_options: Any) -> ImportedModel:
    """A model of PyTorch as a module that can be trained here.

        torch.export.save(torch.export.export(net.train(), (images,)), "net.pt2")   # with torch
        model = relaxjax.from_torch("net.pt2")                                      # without

    `program` is the path of a `.pt2` file, which is read without PyTorch, and nothing in it is
    executed; or an `ExportedProgram`; or a `torch.nn.Module`, which is exported first, for
    `example_inputs` and with the options of `torch.export.export`. Export it in training mode: what
    was exported by `eval()` stays as it is, without dropout, and with batch norms on their running
    statistics.
    """
    found = _read(program, example_inputs, export_options)
    warn_of_hooks(program)
    warn_of_functions(found.graph)
    if found.decomposed:
        warnings.warn(
            f"`{found.name}` went through `run_decompositions()`, which forgets `detach` and "
            "`torch.no_grad`: where the model has one, gradients go through it here. Give what "
            "`torch.export.export` makes of the model",
            stacklevel=2,
        )
    return imported(found)


def imported(program: TorchProgram) -> ImportedModel:
    """The model of a program that was read."""
    found = import_program(program)
    mod = DeadCodeElimination()(found.mod)
    return ImportedModel(mod, found.params, found.states, found.names, found.ranges)


def _read(program: Any, example_inputs: tuple[Any, ...], options: dict[str, Any]) -> TorchProgram:
    if isinstance(program, str | PathLike):
        _check_alone(example_inputs, options, "a file")
        return read_archive(Path(program))
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(program).__mro__}
    if "torch.nn.modules.module.Module" in kinds:
        if not example_inputs and "kwargs" not in options:
            raise TypeError(
                "from_torch exports a module for example inputs: write from_torch(net, images)"
            )
        torch_export = importlib.import_module("torch.export")
        return _saved(torch_export.export(program, example_inputs, **options))
    if "torch.export.exported_program.ExportedProgram" in kinds:
        _check_alone(example_inputs, options, "an exported program")
        return _saved(program)
    raise TypeError(
        "from_torch takes the path of a .pt2 file, an ExportedProgram, or a torch.nn.Module with "
        f"example inputs, but it was given {type(program).__name__}"
    )


def _saved(program: Any) -> TorchProgram:
    """An exported program, by way of the file that torch makes of it."""
    file = io.BytesIO()
    try:
        importlib.import_module("torch.export").save(program, file)
    except NotImplementedError as error:
        raise TorchImportError(
            f"PyTorch cannot write what the model takes or gives: {error} Take and give tensors, "
            "tuples, lists and dicts alone, as by `values, places = x.topk(2)`"
        ) from error
    except RuntimeError as error:
        if type(error).__name__ != "SerializeError":
            raise
        raise TorchImportError(
            f"PyTorch cannot write the program: {str(error).partition(' in graph:')[0]}. Say it in "
            "other operators: attention by torch.nn.functional.scaled_dot_product_attention with a "
            "mask, and what a loop carries as tensors"
        ) from error
    file.seek(0)
    return read_archive(file, "the exported program")


def _check_alone(example_inputs: tuple[Any, ...], options: dict[str, Any], what: str) -> None:
    if example_inputs or options:
        raise TypeError(f"from_torch: {what} is exported already, for inputs of its own")
