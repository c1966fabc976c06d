"""What a user of JAX evaluates a model by, where that is not the loss that it is trained by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relaxjax.autodiff.loss_result import check_result
from relaxjax.autodiff.step_loss import LossArguments, Nestings
from relaxjax.autodiff.step_trees import Nesting, apart
from relaxjax.trainable.storage import Storage


@dataclass(frozen=True)
class Evaluation:
    """`function(params, batch)`, or `function(params, model_state, batch)`, of any batches.

    It gives a loss, or a pair of that and anything else, in which `numbers` are the names of single
    numbers.
    """

    function: Callable[..., Any]
    nestings: Nestings
    numbers: tuple[str, ...]

    @staticmethod
    def of(function: Callable[..., Any] | None, given: LossArguments) -> "Evaluation | None":
        """That of a model with the parameters of a loss, tried on its example of a batch."""
        if function is None:
            return None
        if not callable(function):
            raise TypeError(
                f"`evaluation` must be a function of parameters and a batch, found {function!r}"
            )
        found, numbers = Evaluation(function, given.nestings, ()), list[str]()

        def tried(params: Any, states: Any, arrays: Any) -> Any:
            value, beside = found.on_arrays(params, states, given.nestings.batch, arrays)
            numbers.extend(names_of_numbers(beside))  # in their order, which JAX does not keep
            return value

        jax.eval_shape(tried, given.params, given.states, given.inputs)
        return Evaluation(function, given.nestings, tuple(numbers))

    def on_arrays(self, params: Any, states: Any, batch: Nesting, arrays: Any) -> tuple[Any, Any]:
        """The loss, and what is beside it or None."""
        whole, model_state, _ = self.nestings.nested(params, states)
        before = [model_state] if self.nestings.has_states else []
        result = self.function(whole, *before, batch.nested(arrays))
        is_pair = isinstance(result, tuple) and len(result) == 2
        check_result(result, is_pair)
        return result if is_pair else (result, None)

    def program(self, storage: Storage) -> Callable[..., Any]:
        """As a function of stored parameters, states and a batch."""

        def evaluated(nesting: Nesting, params: Any, states: Any, arrays: Any) -> Any:
            return self.on_arrays(storage.outside(params), states, nesting, arrays)

        run = jax.jit(evaluated, static_argnums=0)

        def of_batch(params: Any, states: Any, batch: Any) -> Any:
            _check_holds_samples(batch)
            arrays, nesting = apart(batch)
            return run(nesting, params, states, arrays)

        return of_batch


def names_of_numbers(beside: Any) -> list[str]:
    """The names of single numbers in what is beside a loss, of which the types are enough.

    Complex numbers and random keys have no place in a history.
    """
    if not isinstance(beside, Mapping):
        return []
    return [str(name) for name, one in beside.items() if _is_number(one)]


def _is_number(one: Any) -> bool:
    if getattr(one, "shape", None) != ():
        return False
    kinds = (jnp.bool_, jnp.integer, jnp.floating)
    return any(jnp.issubdtype(one.dtype, kind) for kind in kinds)


def _check_holds_samples(batch: Any) -> None:
    """Raise where all arrays of a batch are of no samples: a mean over none is NaN."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(batch) if np.ndim(leaf)]
    if shapes and not any(shape[0] for shape in shapes):
        listed = ", ".join(map(str, shapes))
        raise ValueError(
            f"the batch holds no samples, its arrays have the shapes {listed}: leave out empty "
            "batches"
        )
