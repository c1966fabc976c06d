"""Pytrees of a training step: their arrays, what else they hold, and what is wrong with them."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr

from relaxjax.ir.wording import a_kind

from .arguments import has_memory, is_of_jax, used_up, without_numbers

Arrays = tuple[Any, ...]


class StateArrays(NamedTuple):
    """What a program takes and gives of a state: its arrays, in the order that they have in it.

    So JAX can call the program with the state itself, if nothing else is in that.
    """

    params: Any
    model_state: Any
    opt_state: Any
    key: Any  # one array or none
    step: Any

    @property
    def states(self) -> Arrays:
        """What changes beside the parameters, as the program of a loss takes it."""
        return *self.model_state, *self.key


@dataclass(frozen=True)
class Nesting:
    """How arrays are nested, and the other leaves beside them, which never change."""

    tree: Any
    places: tuple[int, ...]  # of the arrays among the leaves
    others: tuple[Any, ...]  # the other leaves

    def nested(self, arrays: Sequence[Any]) -> Any:
        """Arrays, and the other leaves, nested like those that were taken apart."""
        given, rest = iter(arrays), iter(self.others)
        places = set(self.places)
        leaves = [next(given if p in places else rest) for p in range(self.tree.num_leaves)]
        return jax.tree.unflatten(self.tree, leaves)

    def without(self, numbers: Container[int]) -> "Nesting":
        """How the arrays are nested without some of them, where None stands."""
        left = [None if n in numbers else np.bool(True) for n in range(len(self.places))]
        return apart(self.nested(left), numbers=False)[1] if None in left else self

    @property
    def of_arrays(self) -> Any:
        """The structure of the arrays alone, as optimizers see it."""
        return jax.tree.structure(
            jax.tree.unflatten(
                self.tree, [0 if p in self.places else None for p in range(self.tree.num_leaves)]
            )
        )


def apart(nested: Any, *, numbers: bool = True) -> tuple[Arrays, Nesting]:
    """The arrays of a pytree, `numbers` of Python among them, and how they are nested."""
    leaves, tree = jax.tree.flatten(nested)
    is_one = is_array if numbers else _has_dtype
    places = tuple(place for place, leaf in enumerate(leaves) if is_one(leaf))
    others = tuple(leaf for leaf in leaves if not is_one(leaf))
    if not all(map(_is_fixed, others)):
        _refuse_strange(nested)
    return tuple(leaves[place] for place in places), Nesting(tree, places, others)


def copied(leaf: Any) -> Any:
    """A copy of an array or a number, which a step may use up; any other leaf as it is.

    It promotes as the values do that a step gives for it, and not as a number of Python.
    """
    if not is_array(leaf):
        return leaf
    if isinstance(leaf, jax.Array) and not jax.typeof(leaf).weak_type:
        return jax.device_put(leaf, may_alias=False)  # jnp.array compiles a copy for each shape
    return jnp.array(leaf, dtype=jnp.result_type(leaf), copy=True)


def copied_params(params: Any) -> Any:
    """Copies of parameters, of which a step uses up the memory.

    A number of Python is a parameter in a dictionary or a list, as for `jax.grad`. As an attribute
    of a module, such as the rate of a dropout, it is an option of that, and stays as it is.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf if _is_option(path, leaf) else copied(leaf), params
    )


def _is_option(path: Any, leaf: Any) -> bool:
    is_attribute = bool(path) and isinstance(path[-1], jax.tree_util.GetAttrKey)
    return is_attribute and isinstance(leaf, int | float | complex)


def _refuse_strange(nested: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(nested):
        if is_array(leaf):
            continue
        if _is_foreign(leaf):
            raise TypeError(
                f"the leaf {keystr(path)} is {a_kind(leaf)}, an array of another library, which a "
                "step would take for an option that never changes: make it one of JAX by "
                "`jnp.asarray`, or of numpy by `np.asarray`"
            )
        if not _is_hashable(leaf):
            what = f"the leaf {keystr(path)}" if path else "what is given"
            raise TypeError(
                f"{what} is {a_kind(leaf)}, which is no array and cannot be hashed, so that no "
                "compiled step can be told by it: make it an array, leave it out, or register its "
                "class as a pytree, such as by jax.tree_util.register_dataclass"
            )


def check_trainable(params: Any, name: str) -> None:
    """Raise where a parameter is an integer or the like, which no optimizer moves."""
    found = False
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not _has_dtype(leaf):
            continue
        found = True
        dtype = jnp.result_type(leaf)
        if jnp.issubdtype(dtype, jnp.complexfloating):
            raise TypeError(
                f"{name}{keystr(path)} is of dtype {dtype}, which optimizers here do not move: "
                "give its real and its imaginary part as two parameters"
            )
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(
                f"{name}{keystr(path)} is of dtype {dtype}, which has no gradient: parameters are "
                "of floating-point dtype; keep it in the model state"
            )
    if not found:
        raise ValueError(f"{name} has no array to train")


def check_alive(state: Any) -> None:
    """Raise where a state has been given to a step before, which took its memory."""
    gone = path_of_deleted(state)
    if gone is not None:
        raise RuntimeError(
            f"the state was given to a step before, which used it up: state{gone} is gone; use the "
            "state that the step returned, or copy what is needed beforehand"
        )


def path_of_deleted(tree: Any) -> str | None:
    """The path of the first array whose memory was given away; None where all are there."""
    if not any(leaf.is_deleted() for leaf in jax.tree.leaves(tree) if has_memory(leaf)):
        return None
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return next(keystr(path) for path, leaf in leaves if has_memory(leaf) and leaf.is_deleted())


def check_there(name: str, tree: Any) -> None:
    """Raise where an array of a tree is gone, because a program took its memory."""
    gone = path_of_deleted(tree)
    if gone is not None:
        raise RuntimeError(used_up(f"{name}{gone}"))


def check_numbers(**given: Any) -> None:
    """Raise where a leaf has a shape and a dtype alone, which is enough to plan, not to run."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(given):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise TypeError(without_numbers(f"{path[0].key}{keystr(path[1:])}"))
    check_dtypes(**given)


def check_dtypes(**given: Any) -> None:
    """Raise where a leaf is an array of words, objects or the like."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(given):
        if isinstance(leaf, np.ndarray | np.generic) and not is_of_jax(leaf.dtype):
            raise TypeError(
                f"{path[0].key}{keystr(path[1:])} is an array of dtype {leaf.dtype}, which JAX "
                "does not have: make it one of numbers, or leave it out"
            )


def check_opt_state(state: Any, wanted: Any) -> None:
    """Raise where a state is not nested as the `wanted` one, or of other shapes."""
    mend = "give a step the state that its own `init` began"
    found, expected = (
        {keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for tree in (state, wanted)
    )
    for path, leaf in expected.items():
        if path not in found:
            raise ValueError(
                f"state.opt_state{path} is missing, which this optimizer has for such parameters: "
                + mend
            )
        if np.shape(found[path]) != leaf.shape:
            raise ValueError(
                f"state.opt_state{path} is of shape {np.shape(found[path])}, but for such "
                f"parameters this optimizer has shape {leaf.shape} there: {mend}"
            )
    for path in found:
        if path not in expected:
            raise ValueError(
                f"state.opt_state{path} is nothing that this optimizer has for such parameters: "
                + mend
            )


def check_count(step: Any) -> None:
    """Raise where what counts the steps is no integer."""
    dtype, shape = getattr(step, "dtype", None), np.shape(step)
    is_integer = isinstance(step, int) if dtype is None else jnp.issubdtype(dtype, jnp.integer)
    if isinstance(step, bool) or not is_integer or shape:
        found = repr(step) if dtype is None else f"{dtype} of shape {shape}"
        raise TypeError(f"state.step counts the steps by one integer, but it is {found}")


def check_key(key: Any) -> None:
    """Raise where a random key is none, or more than one."""
    shape, dtype = getattr(key, "shape", None), getattr(key, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        is_one = shape == ()
    else:
        plain = jax.eval_shape(lambda: jax.random.PRNGKey(0))
        is_one = (shape, dtype) == (plain.shape, plain.dtype)
    if key is not None and not is_one:
        found = repr(key) if dtype is None else f"of dtype {dtype} and shape {shape}"
        raise TypeError(f"`key` must be one key such as jax.random.key(0), but it is {found}")


def check_distinct(state: Any, others: dict[str, Any]) -> None:
    """Raise where an array of a state, whose memory a step takes, is given to it twice."""
    taken = [id(leaf) for leaf in jax.tree.leaves(state) if has_memory(leaf)]
    if len({*taken}) == len(taken) and {*taken}.isdisjoint(map(id, jax.tree.leaves(others))):
        return
    names: dict[int, str] = {}
    for what, tree in {"state": state, **others}.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if id(leaf) in names:
                raise ValueError(
                    f"{names[id(leaf)]} and {what}{keystr(path)} are one array, and a step uses up "
                    "the memory of its state: give a copy of it, by `jnp.copy`"
                )
            if what == "state" and has_memory(leaf):
                names[id(leaf)] = f"{what}{keystr(path)}"


def check_alike(new: Any, nesting: Nesting, old: Sequence[Any]) -> list[Any]:
    """The arrays of a new model state, which must be of the types of those before.

    Its other leaves must be those before.
    """
    leaves, tree = jax.tree.flatten(new)
    if tree != nesting.tree:
        raise TypeError(
            f"the loss returns a model state nested as {tree}, but it was given one nested as "
            f"{nesting.tree}: a step must leave that as it is"
        )
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(new)]
    same = dict(zip(sorted({*range(len(leaves))} - {*nesting.places}), nesting.others, strict=True))
    for place, leaf in enumerate(leaves):
        wanted = repr(same[place]) if place in same else "an array"
        if leaf != same[place] if place in same else not is_array(leaf):
            raise TypeError(
                f"the loss returns the model state{keystr(paths[place])} as {leaf!r}, but it was "
                f"given as {wanted}: a step changes arrays only"
            )
    found = [leaves[place] for place in nesting.places]
    for place, array, before in zip(nesting.places, found, old, strict=True):
        types = [f"{jnp.result_type(x)} of shape {np.shape(x)}" for x in (before, array)]
        if types[0] != types[1]:
            raise TypeError(
                f"the loss returns the model state{keystr(paths[place])} as {types[1]}, but it was "
                f"given as {types[0]}: a step must leave the types of the model state as they are"
            )
    return found


def is_array(leaf: Any) -> bool:
    """Whether a step takes it as an array; True and False of Python are options of a model."""
    is_number = isinstance(leaf, int | float | complex) and not isinstance(leaf, bool)
    return is_number or _has_dtype(leaf)


def _has_dtype(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _is_fixed(leaf: Any) -> bool:
    """Whether a leaf is an option, by which compiled steps can be told apart."""
    return _is_hashable(leaf) and not _is_foreign(leaf)


def _is_foreign(leaf: Any) -> bool:
    return hasattr(leaf, "__array__") and not isinstance(leaf, type) and not _has_dtype(leaf)


def _is_hashable(leaf: Any) -> bool:
    try:
        hash(leaf)
    except TypeError:
        return False
    return True
