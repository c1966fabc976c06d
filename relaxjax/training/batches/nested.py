"""What a user of JAX nests in pytrees: batches, parameters, and what a loss gives beside itself."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.dtypes import canonicalize_dtype
from jax.tree_util import keystr, tree_leaves_with_path

from relaxjax.autodiff.auxiliary_output import AuxiliaryOutput
from relaxjax.autodiff.step_loss import Nestings
from relaxjax.autodiff.step_trees import Nesting, apart, check_there
from relaxjax.ir.module import IRModule
from relaxjax.ir.wording import a_kind
from relaxjax.trainable.names import BACKBONE
from relaxjax.trainable.storage import Storage
from relaxjax.training.inputs import as_array, check_mask, holds_numbers

from .evaluation import Evaluation, names_of_numbers
from .feeding import Batch

Shapes: TypeAlias = Sequence[tuple[int, ...]]

_UNSTACKED = (
    "it is one batch; stack several along a new first dimension, as by np.stack, or call `update`"
)
_ONE_PROGRAM = (
    "a trainer has one program, for batches like its example; leave out a smaller last one, by "
    "drop_last=True of the loader, or make another trainer by Trainer.from_jax"
)


@dataclass(frozen=True)
class Nested:
    """How what a trainer holds as arrays is nested outside, as the user's loss takes it.

    A batch is nested as the example was, with arrays of the types `batch`: to the trainer they are
    inputs, and there are no targets. `aux` nests what the loss gives beside itself, of the types
    `beside`. Without an `evaluation`, models are evaluated by the loss.
    """

    nestings: Nestings
    batch: tuple[Any, ...]
    aux: AuxiliaryOutput | None
    beside: tuple[Any, ...]
    forward: Callable[..., Any] | None
    evaluation: Evaluation | None = None

    def pairs(self, batches: Iterable[Any], shapes: Shapes | None = None) -> Iterator[Batch]:
        """The batches as inputs and no targets."""
        return ((self.leaves(batch, shapes=shapes), []) for batch in batches)

    def leaves(
        self, batch: Any, is_stacked: bool = False, shapes: Shapes | None = None
    ) -> list[Any]:
        """The arrays of a batch, or of several that are stacked along a new first dimension.

        They have the `shapes` of the part of a process, or else those of the example.
        """
        check_there("batch", batch)
        nesting = self.nestings.batch
        found, tree = jax.tree.flatten(batch)
        if tree != nesting.tree:
            raise ValueError(_other_nesting(batch, nesting.nested(self.batch)))
        free = sorted({*range(len(found))} - {*nesting.places})
        for place, kept in zip(free, nesting.others, strict=True):
            if found[place] is not kept and found[place] != kept:
                raise ValueError(
                    f"batch{_path(batch, place)} is {found[place]!r}, but the example had {kept!r} "
                    "there: what is no array is part of the program; make a trainer for each"
                )
        arrays = [
            as_jax_takes_it(found[place], f"batch{_path(batch, place)}") for place in nesting.places
        ]
        wanted = shapes or [ty.shape for ty in self.batch]
        for place, array, size in zip(nesting.places, arrays, wanted, strict=True):
            shape = array.shape[1:] if is_stacked else array.shape
            if shape != size or (is_stacked and not array.ndim):
                several = " of several batches" if is_stacked else ""
                other = "that of the example" if shapes is None else "the part of this process"
                raise ValueError(
                    f"batch{_path(batch, place)}{several} is of shape {tuple(array.shape)}, but "
                    f"{other} is of shape {size}: "
                    f"{_UNSTACKED if is_stacked and array.shape == size else _ONE_PROGRAM}"
                )
        return arrays

    def auxiliary(self, arrays: Sequence[Any]) -> Any:
        """What a loss gives beside itself, of its arrays; None where that is nothing."""
        return None if self.aux is None else self.aux.unflatten(list(arrays))

    @property
    def numbers(self) -> list[str]:
        """The names of single numbers that an evaluation gives beside the loss."""
        if self.evaluation is not None:
            return [*self.evaluation.numbers]
        return names_of_numbers(self.auxiliary(self.beside))

    def predictor(self, storage: Storage) -> Callable[..., Any]:
        """The forward function of stored parameters, states and inputs."""
        if self.forward is None:
            raise TypeError(
                "a loss does not tell what its model predicts: give Trainer.from_jax the model by "
                "forward=, a function of parameters, of the model state if there is one, and of "
                "inputs"
            )
        forward, nestings = self.forward, self.nestings

        def predicted(nesting: Nesting, params: Any, states: Any, arrays: Any) -> Any:
            whole, model_state, _ = nestings.nested(storage.outside(params), states)
            before = [model_state] if nestings.has_states else []
            return forward(whole, *before, *nesting.nested(arrays))

        run = jax.jit(predicted, static_argnums=0)

        def of_inputs(params: Any, states: Any, inputs: Any) -> Any:
            arrays, nesting = apart(inputs)
            return run(nesting, params, states, arrays)

        return of_inputs


def check_predicts(mod: IRModule) -> None:
    """Raise where a program has no model that predicts, but a loss alone."""
    if BACKBONE not in mod:
        raise ValueError(
            f"the program has no function `{BACKBONE}`, only a loss from JAX: make its trainer "
            "again by Trainer.from_jax(..., forward=...), and `load` the file there"
        )


def check_one_argument(targets: Any) -> None:
    """Raise where a batch is given in two arguments to a trainer of a loss from JAX."""
    if not isinstance(targets, list | tuple) or targets:
        raise TypeError(
            "a trainer from JAX takes a batch as one argument, nested as the example that it was "
            "made with, such as trainer.update((inputs, targets)), but two were given"
        )


def as_jax_takes_it(leaf: Any, name: str = "a leaf of the example") -> Any:
    """A leaf of a batch as an array, in 64 bits only where JAX has them enabled."""
    if isinstance(leaf, jax.Array):
        return leaf
    check_mask(name, leaf)
    array = as_array(name, leaf)
    wanted = canonicalize_dtype(array.dtype) if holds_numbers(array.dtype) else array.dtype
    if array.dtype == wanted:
        return array
    with np.errstate(over="ignore"):  # what is too large is refused
        narrowed = array.astype(wanted)
    _check_narrowed(name, array, narrowed)
    return narrowed


def _check_narrowed(name: str, array: np.ndarray[Any, Any], narrowed: np.ndarray[Any, Any]) -> None:
    """Raise where numbers of 64 bits become others in 32, and not only less exact."""
    is_integer = array.dtype.kind in "iu"
    lost = (array != narrowed) if is_integer else (np.isfinite(array) & ~np.isfinite(narrowed))
    if lost.any():
        raise ValueError(
            f"{name} holds {array[lost][0]}, which is no number of {narrowed.dtype}: "
            "JAX computes in 32 bits unless its option `jax_enable_x64` is set"
        )


def _other_nesting(batch: Any, example: Any) -> str:
    """What is wrong with a batch that is nested otherwise than the example."""
    found = _first_difference("batch", batch, example) or f"it is {jax.tree.structure(batch)}"
    return (
        "a batch is nested as the example was that the trainer was made with, "
        f"{jax.tree.structure(example)}, but {found}"
    )


def _first_difference(name: str, given: Any, wanted: Any) -> str | None:
    """Where a tree is nested otherwise than another one, from the outside in."""
    parts, wanted_parts = _parts(given), _parts(wanted)
    if type(given) is not type(wanted) and not (parts is None and wanted_parts is None):
        mend = "nest it alike"
        if wanted_parts is None:
            is_list = isinstance(given, list | tuple)
            mend = "make it one, by numpy.asarray" if is_list else "give one"
        return (
            f"{name} is {_kind_of(given, parts)}, where the example had "
            f"{_kind_of(wanted, wanted_parts)}: {mend}"
        )
    if parts is None or wanted_parts is None:
        return None
    missing = [key for key in wanted_parts if key not in parts]
    strange = [key for key in parts if key not in wanted_parts]
    if missing:
        return f"{name}{missing[0]} is missing"
    if strange:
        return f"{name}{strange[0]} is none of its leaves"
    return next(
        (
            found
            for key, part in parts.items()
            if (found := _first_difference(f"{name}{key}", part, wanted_parts[key])) is not None
        ),
        None,
    )


def _parts(tree: Any) -> dict[str, Any] | None:
    """What a tree holds itself, by the paths there; None for a leaf."""
    found = tree_leaves_with_path(tree, is_leaf=lambda part: part is not tree)
    is_leaf = len(found) == 1 and not found[0][0]
    return None if is_leaf else {keystr(path): part for path, part in found}


def _kind_of(tree: Any, parts: dict[str, Any] | None) -> str:
    if tree is None or parts is not None:
        return f"{a_kind(tree)}{'' if tree is None else f' of {len(parts or ())}'}"
    return "an array" if hasattr(tree, "dtype") else a_kind(tree)


def _path(tree: Any, place: int) -> str:
    return keystr(tree_leaves_with_path(tree)[place][0])
