"""Functions written in JAX as modules."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from keyword import iskeyword
from types import FunctionType, MethodType
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.extend import core

from relaxjax.ir.builder import BlockBuilder, Names
from relaxjax.ir.derivatives import derived_names
from relaxjax.ir.expr import Tuple, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.ops.lax import (
    JaxSymbols,
    Report,
    aval_of,
    open_program,
    read_jaxpr,
    type_of,
    with_safe_choices,
    x64_beside,
)
from relaxjax.ops.nn.accelerated_attention import written_out

from .moving import MovingOperands
from .own_rules import OwnRules, known_as
from .reached import ReachedResults

_ASKED_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


@dataclass(frozen=True)
class JaxProgram:
    """A function of arrays as a module, whose only public function is of the same arrays.

    Before them it takes those that the JAX function `captured` from around it. It gives the leaves
    of the result, whose nesting is `results`, and whose types in JAX are `avals`. Behind them it
    gives what the equations `reports` print. `run` is the same in JAX.
    """

    module: IRModule
    run: Callable[..., Any]
    captured: tuple[Any, ...]
    results: Any
    avals: tuple[Any, ...]
    reports: tuple[Any, ...]

    @property
    def all_avals(self) -> list[Any]:
        """The types in JAX of all that the module's function gives."""
        return [*self.avals, *(var.aval for eqn in self.reports for var in eqn.invars)]

    def reported(self, values: Sequence[Any]) -> list[Any]:
        """The results among what the module's function gave; the others are printed."""
        count = len(self.avals)
        results, rest = list(values[:count]), iter(values[count:])
        for eqn in self.reports:
            eqn.primitive.bind(*(next(rest) for _ in eqn.invars), **eqn.params)
        return results


def from_jax(function: Callable[..., Any], *args: Any, name: str = "main") -> IRModule:
    """A function written in JAX, for arguments like `args`, as a module of `lax` operators.

    An argument is an array, a `jax.ShapeDtypeStruct`, a `TensorType` whose dimensions may be
    symbolic, or any nesting of these. Each leaf becomes a parameter, `params["w"]` the parameter
    `params_w`, in the order of `jax.tree.leaves`, and several results become a tuple of leaves.
    Arrays from around the function are constants.

        module = from_jax(loss, params, jax.ShapeDtypeStruct((32, 784), "float32"))
        Gradient("main", ["params_w", "params_b"])(module).show()

    A function with a derivative of its own, by `jax.custom_jvp` or `jax.custom_vjp`, becomes a
    private function with a custom gradient. What `jax.checkpoint` goes around stands between marks,
    as `R.grad.emit_checkpoint` sets them.
    """
    leaves, tree = jax.tree.flatten(args)
    names = leaf_names(function, args)
    for leaf, label in zip(leaves, names, strict=True):
        _check_array(leaf, label)

    def on_leaves(*arrays: Any) -> Any:
        return function(*jax.tree.unflatten(tree, arrays))

    return traced(named_as(function, on_leaves, names), leaves, names, name=name).module


def named_as(
    function: Callable[..., Any], on_leaves: Callable[..., Any], names: Sequence[str]
) -> Callable[..., Any]:
    """What is traced of leaves, which JAX's errors are to call as the user does.

    By the name and the place of the user's `function`, where that is one of Python, and by `names`
    for what it takes.
    """
    told: dict[str, Any] = vars(on_leaves)
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, FunctionType | MethodType) and not hasattr(function, "__wrapped__"):
        on_leaves.__name__ = function.__name__
        told["__wrapped__"] = function
    kind, unique = inspect.Parameter.POSITIONAL_ONLY, Names()
    params = [inspect.Parameter(unique.unique(name), kind) for name in names]
    told["__signature__"] = inspect.Signature(params)
    return on_leaves


def traced(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    names: Sequence[str],
    *,
    name: str = "main",
    moving: Collection[int] | None = None,
) -> JaxProgram:
    """A function of arrays as a module, to be differentiated once by those at the places `moving`.

    It is the first of its results that is differentiated then. What it captured becomes parameters,
    and rules there have no rules in their turn. Without `moving` it has all derivatives, and what
    it captured is constant. JAX is as the user set it, because constants in the function are as
    wide as that lets them be.
    """
    types = [array for array in arrays if isinstance(array, TensorType)]
    with x64_beside(*types):
        return _traced(function, arrays, names, name, moving)


def _traced(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    names: Sequence[str],
    name: str,
    moving: Collection[int] | None,
) -> JaxProgram:
    symbols = JaxSymbols()
    avals = [
        aval_of(array, symbols) if isinstance(array, TensorType) else array for array in arrays
    ]
    with _explained(), written_out():
        closed, results = jax.make_jaxpr(function, return_shape=True)(*avals)
    program, captured, found, reached = closed, (), None, None
    if moving is not None:
        inner, captured = closed.jaxpr, tuple(closed.consts)
        inputs = [*inner.constvars, *inner.invars]
        program = core.ClosedJaxpr(inner.replace(constvars=[], invars=inputs), ())
        found = MovingOperands()
        found.read(open_program(program), [i - len(captured) in moving for i in range(len(inputs))])
        reached = ReachedResults()
        reached.read(open_program(program), [i == 0 for i in range(len(inner.outvars))])
    labels = [*(f"captured_{index}" for index in range(len(captured))), *names]
    reports: list[Report] | None = None if moving is None else []
    rules = OwnRules([name, *derived_names(name)], found, reached)
    module = _module(program, labels, symbols, rules, name, captured, reports)
    run = _again(function, closed, program, rules)
    equations = tuple(eqn for eqn, _ in reports or ())
    types = tuple(closed.out_avals)
    return JaxProgram(module, run, captured, jax.tree.structure(results), types, equations)


@contextmanager
def _explained() -> Iterator[None]:
    """Say what to do about errors of what is traced, which `jax.grad` may not have."""
    try:
        yield
    except _ASKED_VALUES as error:
        error.add_note(
            "The function is read as by jax.jit, for arguments of any value: choose by jnp.where "
            "or jax.lax.cond rather than by `if`, and compute with jnp rather than with numpy."
        )
        raise
    except AssertionError as error:
        if "non-canonical constant" in str(error):
            error.add_note(
                "jax.vmap maps a function with a derivative of its own over an array of numpy, "
                "which JAX cannot trace: make an array of JAX of it, by jnp.asarray."
            )
        raise
    except RuntimeError as error:
        if "cuDNN is not detected" in str(error):
            error.add_note(
                'Leave out `implementation="cudnn"`: attention is read the same without it, and '
                "cuDNN computes it where there is a GPU for that and it is worth it."
            )
        raise


def _again(
    function: Callable[..., Any], closed: Any, program: Any, rules: OwnRules
) -> Callable[..., Any]:
    """A function of captured arrays and arguments to the leaves of the results.

    It is the program that was traced: the function may use variables that are others by then. But
    rules that use what is computed around them know it only while that is traced, so then the
    function runs again. What another transformation traces must be an argument.
    """

    def read(*arrays: Any) -> Any:
        return core.jaxpr_as_fun(with_safe_choices(program))(*arrays)

    if not rules.use_surroundings or any(isinstance(array, Tracer) for array in closed.consts):
        return read

    def run(*arrays: Any) -> Any:
        given = arrays[len(closed.consts) :]
        anew = jax.make_jaxpr(lambda *values: function(*values))  # JAX may keep what it has traced
        with written_out():
            is_same = _same(anew(*closed.in_avals), closed)
        if not is_same:
            raise ValueError(
                "the loss runs again for its second derivatives, and computes something else than "
                "before: it uses a variable that has changed, such as that of a loop; give it the "
                "value as an argument"
            )
        return jax.tree.leaves(function(*given))

    return run


def _same(one: Any, other: Any) -> bool:
    """Whether programs are written alike, wherever their functions lie, with the same constants."""
    first, second = (re.sub("0x[0-9a-f]+", "", str(program.jaxpr)) for program in (one, other))
    pairs = zip(one.consts, other.consts, strict=False)
    return first == second and all(a is b or np.array_equal(a, b) for a, b in pairs)


def leaf_names(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> list[str]:
    """A name for each leaf of the arguments: of the parameter it is in, and its place in there."""
    by_place = _parameter_names(function, len(args))
    found = jax.tree_util.tree_leaves_with_path((tuple(args), dict(kwargs or {})))
    words = []
    for (_, head, *rest), _ in found:
        first = by_place[head.idx] if hasattr(head, "idx") else head.key
        word = "_".join([first, *map(_step, rest)])
        words.append(word if word.isidentifier() and not iskeyword(word) else f"{word}_")
    return words


def leaf_paths(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """The way to each leaf of the arguments as Python writes it, such as `params['layers'][0]`."""
    by_place = _parameter_names(function, len(args))
    found = jax.tree_util.tree_leaves_with_path((tuple(args), dict(kwargs)))
    return [
        (by_place[head.idx] if hasattr(head, "idx") else head.key)
        + jax.tree_util.keystr(tuple(rest))
        for (_, head, *rest), _ in found
    ]


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's first parameters; `x0` and so on where it does not tell them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # what is not written in Python may have no signature
        parameters = {}.values()
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{index}" for index in range(count - len(names))]
        elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return [*names, *(f"x{index}" for index in range(len(names), count))]


def _step(key: Any) -> str:
    """One step on the way to a leaf, as far as it can stand in a name."""
    text = jax.tree_util.keystr((key,), simple=True)
    return "".join(letter if letter.isalnum() else "_" for letter in text)


def _check_array(leaf: Any, name: str) -> None:
    if isinstance(leaf, TensorType):
        if leaf.dims is None or leaf.dtype is None:
            raise TypeError(
                f"from_jax traces the function, so the shape and dtype of `{name}` must be known, "
                f"but it is of type {leaf}"
            )
        return
    try:
        jax.eval_shape(lambda array: array, leaf)
    except TypeError:
        raise TypeError(
            f"from_jax: `{name}` is {leaf!r} of type {type(leaf).__name__}, which is no array: "
            "bind it before, by functools.partial"
        ) from None


def _module(
    program: Any,
    labels: Sequence[str],
    symbols: JaxSymbols,
    rules: OwnRules,
    name: str,
    captured: Sequence[Any],
    reports: list[Report] | None,
) -> IRModule:
    """The module of a closed jaxpr, whose first parameters are the arrays that were captured.

    Its last results are what the `reports` print that are found.
    """
    unique = Names()
    params = [
        Var(unique.unique(label), type_of(var.aval, symbols))
        for label, var in zip(labels, program.jaxpr.invars, strict=True)
    ]
    around = known_as(captured, params)
    builder = BlockBuilder()
    with builder.function(name, params):
        with builder.dataflow():
            read = read_jaxpr(
                program,
                params,
                builder,
                symbols=symbols,
                own_rule=rules,
                around=around,
                reports=reports,
                callbacks=reports is not None,
            )
            printed = [operand for _, operands in reports or () for operand in operands]
            results = [builder.emit_output(result) for result in (*read, *printed)]
        builder.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    return builder.get().with_functions({name: rules.module[name] for name in rules.module})
