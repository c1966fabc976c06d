"""Any optax gradient transformation as an optimizer, traced into a Relax function."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import canonicalize_dtype

from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.types import TupleType
from relaxjax.ops.lax import (
    UnsupportedPrimitiveError,
    depends_on_inputs,
    key_implementation,
    open_program,
    read_jaxpr,
    x64_beside,
)

from .base import Optimizer, States, Step, zeros_like
from .filled import filled

# What to do with a transformation that asks for more than a step has.
_IN_A_LOOP = (
    "; what asks for more is stepped in a loop of your own, with the value and the gradients of "
    "relaxjax.value_and_grad: `tx.update(gradients, state, params, value=value, grad=gradients, "
    "value_fn=loss)`; optax.lbfgs has linesearch=None, too"
)

Tree = Any  # a pytree of optax's
Arrays = Mapping[str, Any]  # by the name of the parameter


@dataclass(frozen=True)
class OptaxOptimizer(Optimizer):
    """An optax gradient transformation, such as `optax.adamw(1e-3)` or a chain of several.

    It sees parameters and gradients as dictionaries by name, which is what its masks and labels go
    by, or nested as `tree` says, a structure of a pytree. Its state is flat: the leaves of optax's
    own state in their order, random keys as their data. Where that state starts from the values of
    the parameters, a last flag says whether a step has been made: the first one takes their values.
    """

    transformation: Any
    label: str = "optax"
    tree: Any = None

    @property
    def name(self) -> str:
        return self.label

    @property
    def mixes_dtypes(self) -> bool:
        return True

    def initial_state(self, params: tuple[Var, ...], dtype: str) -> States:
        _check_names(params)
        zeros = self._zeros(params)
        arrays = list(zeros.values())
        with _dtypes(params):
            closed, _ = self._begun(zeros)
            leaves = filled(open_program(closed), arrays)
            # Even where all around is traced, or is not to be compiled.
            with jax.ensure_compile_time_eval(), jax.disable_jit(False):
                if leaves is None:  # as one program: by itself each shape of it would be one
                    start = jax.jit(self._starting(zeros))
                    leaves = jax.tree.leaves(start.lower(arrays).compile()(arrays))
                state = [*map(_on_host, leaves)]
        return (*state, *[np.zeros((), "bool")] * any(depends_on_inputs(closed)))

    def state_names(self, params: tuple[Var, ...]) -> list[str]:
        zeros = self._zeros(params)
        with _dtypes(params):
            return _labels(self._begun(zeros)[1], False)

    def state_owners(self, params: tuple[Var, ...], state: TupleType) -> list[int | None]:
        zeros = self._zeros(params)
        numbers = self._nested({name: number for number, name in enumerate(zeros)})
        with _dtypes(params):
            _, start = self._begun(zeros)
        found = _owners(numbers, [array.shape for array in zeros.values()], start)
        return [*found, *[None] * (len(state.fields) - len(found))]

    def update(self, step: Step) -> tuple[list[Expr], list[Expr]]:
        zeros = self._zeros(step.param_list)
        with _dtypes(step.param_list):
            closed, start = self._begun(zeros)
            late = depends_on_inputs(closed)
            traced = self._traced(zeros, start, late, step.loss)
            labels = _labels(start, any(late))
            args = [*_taken(step), *_states(step, labels), step.loss]
            try:
                results = read_jaxpr(traced, args, step.builder, hint=_hint, spans=False)
            except UnsupportedPrimitiveError as error:
                raise UnsupportedPrimitiveError(f"the optimizer {self.name}: {error}") from None
        names = [*(param.name for param in step.param_list), *labels]
        named = [
            step.emit(value, f"{name}_new") for value, name in zip(results, names, strict=True)
        ]
        return list(named[: len(zeros)]), list(named[len(zeros) :])

    def _zeros(self, params: Sequence[Var]) -> dict[str, Any]:
        """Arrays like the parameters, by name: the state begins of their shapes and dtypes."""
        return {param.name: zeros_like(param, self.name) for param in params}

    def _start(self, params: Arrays) -> Tree:
        """The state before the first step."""
        return self.begun_with(self._nested(params), params)

    def begun_with(self, nested: Tree, names: Iterable[str]) -> Tree:
        """The state before the first step on parameters of these names, as optax nests both."""
        if not hasattr(self.transformation, "init") or not hasattr(self.transformation, "update"):
            raise TypeError(
                f"from_optax takes a gradient transformation such as optax.adamw(1e-3), but it "
                f"was given {self.transformation!r} of type {type(self.transformation).__name__}"
            )
        with _said_of(self.name, f"begin with the parameters {', '.join(names)} by name"):
            state = self.transformation.init(nested)
        _check_not_paired(self.name, state)
        return state

    def _begun(self, zeros: Arrays) -> tuple[Any, Tree]:
        """The program that makes that state, and the state as shapes and dtypes."""
        return jax.make_jaxpr(self._starting(zeros), return_shape=True)(list(zeros.values()))

    def _starting(self, zeros: Arrays) -> Callable[[list[Any]], Tree]:
        """The first state for parameters in their order; JAX sorts a dictionary by its names."""
        return lambda arrays: self._start(dict(zip(zeros, arrays, strict=True)))

    def _nested(self, params: Arrays) -> Tree:
        return dict(params) if self.tree is None else jax.tree.unflatten(self.tree, params.values())

    def begins_late(self, params: tuple[Var, ...]) -> bool:
        """Whether the first step takes a part of the state from the values of the parameters."""
        zeros = self._zeros(params)
        with _dtypes(params):
            return any(depends_on_inputs(self._begun(zeros)[0]))

    @staticmethod
    def flat_state(state: Tree) -> list[Any]:
        """A state of optax as a step takes it, without the flag that says it has begun."""
        leaves = jax.tree.leaves(state)
        return [jax.random.key_data(leaf) if _kind(leaf) else leaf for leaf in leaves]

    @staticmethod
    def nested_state(arrays: Sequence[Any], like: Tree) -> Tree:
        """The state of optax that a step gives, nested as the one before it was."""
        kinds = map(_kind, jax.tree.leaves(like))
        leaves = [_wrapped(array, kind) for array, kind in zip(arrays, kinds, strict=False)]
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def _traced(self, zeros: Arrays, start: Tree, late: list[bool], loss: Var) -> Any:
        """The program of one step, its arguments and results as the function has them."""
        names = list(zeros)
        treedef: Any = jax.tree.structure(start)
        kinds = [_kind(leaf) for leaf in jax.tree.leaves(start)]

        def run(params: list[Any], gradients: list[Any], states: list[Any], value: Any) -> Any:
            named = dict(zip(names, params, strict=True))
            leaves = [_wrapped(leaf, kind) for leaf, kind in zip(states, kinds, strict=False)]
            if any(late):
                leaves = _started(leaves, jax.tree.leaves(self._start(named)), late, states[-1])
            given = dict(zip(names, gradients, strict=True))
            state = jax.tree.unflatten(treedef, leaves)
            new_params, new_state = self._stepped(named, given, state, value)
            if jax.tree.structure(new_state) != treedef:
                raise ValueError(
                    f"the optimizer {self.name} changes the structure of its state in a step, "
                    f"{_where_changed(state, new_state)}, and a compiled step cannot: have its "
                    "`init` give all that its `update` does, or step it in a loop of your own "
                    "with the gradients of relaxjax.value_and_grad"
                )
            kept = map(_plain, jax.tree.leaves(new_state))
            return [new_params[n] for n in names], [*kept, *[jnp.bool(True)] * any(late)]

        arrays = list(zeros.values())
        plain = jax.eval_shape(lambda leaves: list(map(_plain, leaves)), jax.tree.leaves(start))
        flat = [*plain, *[np.bool(False)] * any(late)]
        value = zeros_like(loss, self.name)
        traced, shapes = jax.make_jaxpr(run, return_shape=True)(arrays, arrays, flat, value)
        self._check_stable(_labels(start, any(late)), flat, shapes[1])
        return traced

    def _stepped(
        self, params: Arrays, gradients: Arrays, state: Tree, value: Any
    ) -> tuple[Tree, Tree]:
        import optax

        tx, grad = self.transformation, self._nested(gradients)
        more = _asked(tx.update, {"value": value, "grad": grad})
        alone = (
            "state, parameters by name, and the loss" if more else "state and parameters by name"
        )
        with _said_of(self.name, f"be stepped with gradients, {alone} alone", _IN_A_LOOP):
            given = self._nested(params)
            updates, new_state = tx.update(grad, state, given, **more)
            return self._named(optax.apply_updates(given, updates), params), new_state

    def _named(self, nested: Tree, params: Arrays) -> Arrays:
        if self.tree is None:
            return dict(nested)
        return dict(zip(params, jax.tree.leaves(nested), strict=True))

    def _check_stable(self, labels: list[str], before: list[Any], after: list[Any]) -> None:
        """A state must come out of a step as it went in, or the next one could not take it."""
        for label, old, new in zip(labels, before, after, strict=True):
            old_type, new_type = (f"{x.dtype} of shape {tuple(x.shape)}" for x in (old, new))
            if old_type != new_type:
                raise ValueError(
                    f"the optimizer {self.name} takes its state `{label}` as {old_type} and gives "
                    f"it back as {new_type}: a step must leave the types of its state as they "
                    "are; give it numbers of the parameters' dtype, for which "
                    "optax.inject_hyperparams has `hyperparam_dtype`, or parameters of a wider one"
                )


def from_optax(tx: Any, name: str = "optax") -> OptaxOptimizer:
    """An optax gradient transformation as an optimizer; `name` is that of its function.

        optimizer = from_optax(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)))

    Masks and labels by parameter are dictionaries from names. What takes further arguments gets the
    loss before the step as `value` and the gradients as `grad`; what asks for more, such as the
    function itself for a line search, is refused.
    """
    return OptaxOptimizer(tx, name)


@contextmanager
def _said_of(optimizer: str, doing: str, instead: str = "") -> Iterator[None]:
    """What optax raises, with what it was asked for: it knows of no optimizer by name."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"the optimizer {optimizer} cannot {doing}: {error}{instead}") from error


def _check_not_paired(optimizer: str, state: Tree) -> None:
    """Raise for a state whose steps are of pairs of parameters."""
    import optax

    inner = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, optax.LookaheadState))
    if any(isinstance(part, optax.LookaheadState) for part in inner):
        raise TypeError(
            f"the optimizer {optimizer} is an optax.lookahead, which steps pairs of parameters, "
            "optax.LookaheadParams, but a step here has one of each: take one that keeps its mean "
            "in its state, such as optax.contrib.schedule_free_adamw, or step it in a loop of your "
            "own, with the gradients of relaxjax.value_and_grad by `params.fast`"
        )


def _asked(update: Callable[..., Any], more: Arrays) -> Arrays:
    """Which of these arguments a function takes by name. Optax tells it by no type of its own."""
    taken = inspect.signature(update).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    return {name: value for name, value in more.items() if takes_all or name in taken}


def _taken(step: Step) -> list[Var]:
    """The parameters, and then the gradients, out of their tuples."""
    pairs = [(value, gradient) for _, value, gradient in step.parameters()]
    return [value for value, _ in pairs] + [gradient for _, gradient in pairs]


def _where_changed(old: Tree, new: Tree) -> str:
    """The innermost state of a transformation in which the structures differ, and how they do."""
    within = ""
    while isinstance(old, tuple) and type(old) is type(new) and len(old) == len(new):
        within = f"in {type(old).__name__} " if hasattr(old, "_fields") else within
        pairs = zip(old, new, strict=True)
        old, new = next(p for p in pairs if len({*map(jax.tree.structure, p)}) == 2)
    return f"{within}from {jax.tree.structure(old)} to {jax.tree.structure(new)}"


def _states(step: Step, labels: list[str]) -> list[Var]:
    return [step.emit(step.states[index], label) for index, label in enumerate(labels)]


def _labels(start: Tree, has_flag: bool) -> list[str]:
    """A name for each state, by the fields and parameters that lead to it: `mu_w0`."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(start)]
    return [_label(path) for path in paths] + ["started"] * has_flag


def _owners(numbers: Tree, shapes: Sequence[Any], start: Tree) -> list[int | None]:
    """The parameter that each state is of: the way to it in the state ends with the way to that.

    `numbers` are those of the parameters, nested as the optimizer sees them.
    """
    ways = dict(jax.tree_util.tree_leaves_with_path(numbers))
    found: list[int | None] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(start):
        ends = (path[at:] for at in range(len(path) + 1))
        owner = next((ways[end] for end in ends if end in ways), None)
        is_alike = owner is not None and shapes[owner] == leaf.shape
        found.append(owner if is_alike else None)
    return found


def _label(path: tuple[Any, ...]) -> str:
    parts = [getattr(part, "name", getattr(part, "key", None)) for part in path]
    words = [str(part) for part in parts if part is not None][-2:]
    label = "".join(c if c.isalnum() else "_" for c in "_".join(words))
    return label if label.isidentifier() else f"state_{label}"


def _started(leaves: list[Any], first: list[Any], late: list[bool], started: Any) -> list[Any]:
    """The state, with what starts from the parameters taken from them in the first step."""
    return [
        jnp.where(started, old, new) if is_late else old
        for old, new, is_late in zip(leaves, first, late, strict=True)
    ]


def _kind(leaf: Any) -> str | None:
    """The generator of a typed random key, None for numbers."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return None
    return key_implementation(str(dtype))


def _plain(leaf: Any) -> Any:
    """A leaf as numbers: a typed random key as its data."""
    return jax.random.key_data(leaf) if _kind(leaf) else jnp.asarray(leaf)


def _on_host(leaf: Any) -> Any:
    """A leaf as an array of numpy to read. What is one is not copied: zeros may take no memory."""
    if type(leaf) is not np.ndarray or leaf.dtype != canonicalize_dtype(leaf.dtype):
        return np.asarray(_plain(leaf))
    read = leaf.view()
    read.flags.writeable = False
    return read


def _wrapped(leaf: Any, kind: str | None) -> Any:
    return leaf if kind is None else jax.random.wrap_key_data(leaf, impl=kind)


def _hint(primitive: str) -> str:
    return "lv"


def _dtypes(params: tuple[Var, ...]) -> AbstractContextManager[Any]:
    """JAX as optax expects it: 64 bits where parameters or the user have them, dtypes that mix."""
    stack = ExitStack()
    stack.enter_context(x64_beside(*(param.ty for param in params)))
    stack.enter_context(jax.numpy_dtype_promotion("standard"))
    stack.enter_context(jax.numpy_rank_promotion("allow"))
    return stack


def _check_names(params: tuple[Var, ...]) -> None:
    names = [param.name for param in params]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"optax tells parameters apart by name, but more than one is called `{name}`: "
                "rename them"
            )
