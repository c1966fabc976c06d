"""The loops of PyTorch, operators that are given graphs, as loops of Relax."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Constant, Expr, Tuple, Var
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.tuples import each_tensor
from relaxjax.ir.types import Type
from relaxjax.ops.emit import call, dtype_of, ndim_of
from relaxjax.ops.loop_types import unstacked

from .aten.shapes import shaped
from .program import Argument, Graph, Node, Ref

# What emits a graph where the builder is, for values of its inputs, and gives its results.
Run: TypeAlias = Callable[[Graph, Sequence[Any]], Sequence[Expr]]

_MOST_STEPS = 2**31 - 1  # which R.while_loop counts by


def scan(
    run: Run, body: Graph, init: Sequence[Expr], xs: Sequence[Expr], others: Sequence[Any]
) -> list[Expr]:
    """`body(*carry, *x, *others) -> (*carry, *y)` over the leading dimension of each x."""
    builder = BlockBuilder.current()
    first, rows = Tuple(tuple(init)), Tuple(tuple(xs))
    assert first.ty is not None
    assert rows.ty is not None
    carry, x = _variable("carry", first.ty), _variable("x", each_tensor(rows.ty, unstacked))
    with builder.scope():
        found = run(body, [*_fields(carry), *_fields(x), *others])
        results = Tuple(tuple(found[: len(init)])), Tuple(tuple(found[len(init) :]))
        step = make_function([carry, x], builder.sequence(results))
    done = builder.emit(call("scan", builder.emit(step, "step"), first, rows), "scanned")
    last, ys = _fields(done)
    return [*_fields(last), *_fields(ys)]


def over_rows(run: Run, body: Graph, xs: Sequence[Expr], others: Sequence[Any]) -> list[Expr]:
    """`body(*x, *others) -> y` for each index of the leading dimension of each x."""
    return scan(run, body, [], xs, others)


def while_loop(
    run: Run, cond: Graph, body: Graph, init: Sequence[Expr], others: Sequence[Any]
) -> list[Expr]:
    """`body(*carry, *others) -> carry`, as long as `cond(*carry, *others)` holds.

    Where it counts its steps it has a bound, and so a gradient; else it is that of JAX without.
    """
    bound = _most_steps(cond, body, [*init, *others])
    if bound is None:
        return _without_bound(run, cond, body, init, others)
    builder = BlockBuilder.current()
    first = Tuple(tuple(init))
    assert first.ty is not None
    tested, carry = (_variable("carry", first.ty) for _ in range(2))
    with builder.scope():
        goes_on = _truth(run(cond, [*_fields(tested), *others]))
        test = make_function([tested], builder.sequence(goes_on))
    with builder.scope():
        after = Tuple(tuple(run(body, [*_fields(carry), *others])))
        step = make_function([carry], builder.sequence(after))
    functions = builder.emit(test, "goes_on"), builder.emit(step, "step")
    return _fields(builder.emit(call("while_loop", *functions, first, bound), "looped"))


def _without_bound(
    run: Run, cond: Graph, body: Graph, init: Sequence[Expr], others: Sequence[Any]
) -> list[Expr]:
    """The loop of JAX, whose functions take all that they need, what is not carried first."""
    builder = BlockBuilder.current()

    def function(graph: Graph, result: Callable[[Sequence[Expr]], Expr], hint: str) -> Var:
        variables = [
            _variable("x", one.ty) if isinstance(one, Expr) else one for one in (*init, *others)
        ]
        with builder.scope():
            sequence = builder.sequence(result(run(graph, variables)))
        carry, rest = variables[: len(init)], variables[len(init) :]
        params = [one for one in (*rest, *carry) if isinstance(one, Var)]
        return builder.emit(make_function(params, sequence), hint)

    functions = function(cond, _truth, "goes_on"), function(body, lambda x: Tuple(tuple(x)), "step")
    fixed = [one for one in others if isinstance(one, Expr)]
    looped = get_op("lax.while_loop")(
        *functions, *fixed, *fixed, *init, cond_consts=len(fixed), body_consts=len(fixed)
    )
    return _fields(builder.emit(looped, "looped"))


def _variable(hint: str, ty: Type | None) -> Var:
    return Var(BlockBuilder.current().get_unique_name(hint), ty)


def _fields(value: Expr) -> list[Expr]:
    return list(map(BlockBuilder.current().emit, value))


def _truth(results: Sequence[Expr]) -> Expr:
    (found,) = results
    return shaped(found, []) if ndim_of(found) else found


# How often a loop runs at most

_BOTH = ("aten.logical_and.default", "aten.bitwise_and.Tensor", "aten.__and__.Tensor")
# The sign of the step that ends the loop, and whether it runs at the limit itself, too.
_LIMITS: Mapping[str, tuple[int, bool]] = {
    "lt": (1, False),
    "le": (1, True),
    "gt": (-1, False),
    "ge": (-1, True),
}
_STEPS: Mapping[str, int] = {"aten.add.Tensor": 1, "aten.sub.Tensor": -1}


def _most_steps(cond: Graph, body: Graph, given: Sequence[Any]) -> int | None:
    """How many steps there are at most, as far as the condition holds no longer after so many."""
    counts = (_steps_until(test, cond, body, given) for test in _tests(cond, cond.outputs[0]))
    return min((count for count in counts if count is not None), default=None)


def _tests(cond: Graph, result: Argument) -> Iterator[Node]:
    """What must all hold for the loop to go on."""
    node = _node_of(cond, result)
    if node is None:
        return
    if node.target not in _BOTH:
        yield node
        return
    for side in node.arguments.values():
        yield from _tests(cond, side)


def _steps_until(test: Node, cond: Graph, body: Graph, given: Sequence[Any]) -> int | None:
    """After how many steps a comparison of a counter with a limit fails."""
    _, name, overload = (*test.target.split("."), "", "")[:3]
    if name not in _LIMITS or overload not in ("Scalar", "Tensor"):
        return None
    sign, inclusive = _LIMITS[name]
    counter, other = test.arguments["self"], test.arguments["other"]
    if counter not in cond.inputs[: len(body.outputs)]:
        return None
    place = cond.inputs.index(counter)
    limit = other if not isinstance(other, Ref) else _held(cond, body, other, given)
    start, step = _number(given[place]), _step(body, place)
    if start is None or step is None or limit is None or step * sign <= 0:
        return None
    if not math.isfinite(limit):
        return None
    way, size = (limit - start) * sign, step * sign
    count = max(0, math.floor(way / size) + 1 if inclusive else math.ceil(way / size))
    last, most = start + count * step, np.iinfo(dtype_of(given[place]))
    return count if count <= _MOST_STEPS and most.min <= last <= most.max else None


def _held(cond: Graph, body: Graph, one: Ref, given: Sequence[Any]) -> int | None:
    """The number that an input has in all steps, where that is known."""
    if one not in cond.inputs or (place := cond.inputs.index(one)) < len(body.outputs):
        return None
    return _number(given[place])


def _step(body: Graph, place: int) -> int | None:
    """By how much an input grows in each step."""
    node = _node_of(body, body.outputs[place])
    if node is None or node.target not in _STEPS or "alpha" in node.arguments:
        return None
    by = node.arguments["other"]
    if node.arguments["self"] != body.inputs[place] or not isinstance(by, int):
        return None
    return by * _STEPS[node.target]


def _node_of(graph: Graph, result: Argument) -> Node | None:
    """The node that a value of a graph is the only result of."""
    name = result.name if isinstance(result, Ref) else None
    return next((node for node in graph.nodes if node.results == (name,)), None)


def _number(value: Any) -> int | None:
    """The integer that a value is, where the program holds it."""
    builder = BlockBuilder.current()
    while isinstance(value, Var) and (bound := builder.lookup_binding(value)) is not None:
        value = bound
    if isinstance(value, Call) and operator_name(value) == "relax.full":
        return _number(value.args[1])
    if not isinstance(value, Constant) or value.data.size != 1 or value.data.dtype.kind != "i":
        return None
    return int(value.data.item())
