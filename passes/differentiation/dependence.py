"""Which values depend smoothly on others: the forward part of activity analysis, tuples in parts.

The body of a loop is read until the dependent parts of its carry are a fixed point. So what a loop
only counts, or reads of its data, needs no derivative though it stands in one tuple with what does.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, If, SeqExpr
from relaxjax.ir.op import ZERO_GRADIENT, Op, get_op
from relaxjax.ir.walk import free_vars
from relaxjax.ops.loop_types import steps_of

K = TypeVar("K")
V = TypeVar("V")
# Whether a value depends on those: the whole of it, or each field of a tuple by itself.
Dependent: TypeAlias = "bool | tuple[Dependent, ...]"
# Tells the functions that loops go over, by the variables that name them.
Functions: TypeAlias = Mapping[Expr, Function]
# The body of a loop, with the dependent parts of its parameters and of what it uses from outside.
_Given: TypeAlias = "tuple[Function | Dependent, ...]"


def depends(parts: Dependent) -> bool:
    """Whether any part is dependent."""
    return any(map(depends, parts)) if isinstance(parts, tuple) else parts


def part_at(parts: Dependent, path: Sequence[int]) -> Dependent:
    """The dependent parts of what a path leads to."""
    for index in path:
        parts = parts[index] if isinstance(parts, tuple) else parts
    return parts


class Dependence:
    """The dependent parts of the variables of a sequence, as far as it was read."""

    def __init__(self, parts: Mapping[Var, Dependent], functions: Functions) -> None:
        self.parts = _beside(parts)
        self.functions = _beside(functions)
        # Results of the bodies of loops: a nested one is read once, not once for each round of the
        # fixed point of each loop around it.
        self.results: dict[_Given, Dependent] = {}
        self.outer: dict[Function, tuple[Var, ...]] = {}

    def __contains__(self, var: object) -> bool:
        return isinstance(var, Var) and depends(self.of(var))

    def read(self, bindings: Sequence[Binding]) -> None:
        """Follow bindings; a variable that is known stays as it is."""
        for binding in bindings:
            if isinstance(binding.value, Function):
                self.functions[binding.var] = binding.value
            if binding.var not in self.parts and carries_gradient(binding.var.ty):
                self.parts[binding.var] = self.of(binding.value)

    def of(self, value: Expr) -> Dependent:
        match value:
            case Var():
                return self.parts.get(value, False)
            case Tuple(fields=fields):
                return tuple(map(self.of, fields))
            case TupleGetItem(tuple_value=whole, index=index):
                return part_at(self.of(whole), (index,))
            case If(true_branch=true, false_branch=false):
                return _either(self.inside(true, {}), self.inside(false, {}))
            case Call(op=Op() as op) if op.gradient is ZERO_GRADIENT:
                return False
            case Call(args=(step, init, xs)) if value.op is get_op("relax.scan"):
                body = self.functions.get(step)
                if body is not None:
                    inputs = self.step_inputs(body, init, xs)
                    last = self.step_result(body, inputs)
                    never = (inputs[body.params[0]], False)  # if it takes no step
                    return last if _takes_a_step(value) else _either(last, never)
            case Call(args=(_, step, *args)) if value.op is get_op("lax.while_loop"):
                body = self.functions.get(step)
                if body is not None:
                    given = args[value.attrs["cond_consts"] :]
                    return self.carried(body, given, value.attrs["body_consts"])
        return any(depends(self.of(var)) for var in free_vars(value))

    def step_inputs(self, body: Function, init: Expr, xs: Expr) -> dict[Var, Dependent]:
        """The dependent parts of the carry of a loop, at one step or another, and of its x."""
        before, rows = self.of(init), self.of(xs)
        while True:
            inputs = smooth_parts(body.params, (before, rows))
            after = _either(before, part_at(self.step_result(body, inputs), (0,)))
            if after == before:
                return inputs
            before = after

    def carried(self, body: Function, args: Sequence[Expr], first: int) -> Dependent:
        """The dependent parts of the carry of a loop by JAX: what its body takes from `first` on.

        Its condition only says how often: nothing depends smoothly on what it reads.
        """
        inputs = list(map(self.of, args))
        while True:
            before = tuple(inputs[first:])
            after = _either(before, self.step_result(body, smooth_parts(body.params, inputs)))
            if after == before:
                return before
            inputs[first:] = after if isinstance(after, tuple) else [after] * len(before)

    def step_result(self, body: Function, inputs: Mapping[Var, Dependent]) -> Dependent:
        """The dependent parts of what a step gives."""
        if body not in self.outer:
            self.outer[body] = free_vars(body)
        given = (body, *inputs.values(), *map(self.of, self.outer[body]))
        if given not in self.results:
            self.results[given] = self.inside(body.body, inputs)
        return self.results[given]

    def inside(self, seq: SeqExpr, parts: Mapping[Var, Dependent]) -> Dependent:
        """The dependent parts of the result of a branch or a step, given those of its inputs."""
        inner = Dependence(self.parts.new_child(dict(parts)), self.functions)
        inner.results, inner.outer = self.results, self.outer
        inner.read(tuple(seq.bindings()))
        return inner.of(seq.body)


def smooth_parts(params: Sequence[Var], parts: Sequence[Dependent]) -> dict[Var, Dependent]:
    """The dependent parts of parameters, of which integers and the like have none."""
    pairs = zip(params, parts, strict=True)
    return {param: carries_gradient(param.ty) and own for param, own in pairs}


def _beside(known: Mapping[K, V]) -> ChainMap[K, V]:
    """What is known, with room for more; it is not copied, for as many branches as there may be."""
    return known.new_child() if isinstance(known, ChainMap) else ChainMap({}, dict(known))


def _takes_a_step(scan: Call) -> bool:
    """Whether a loop surely takes one: a symbol may stand for no step at all."""
    xs = scan.args[2].ty
    assert xs is not None
    steps = steps_of(xs, scan.attrs["length"])
    return isinstance(steps, int) and steps > 0


def _either(one: Dependent, other: Dependent) -> Dependent:
    """The parts that are dependent in one case or in the other."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return tuple(map(_either, one, other))
    whole, rest = (one, other) if isinstance(one, bool) else (other, one)
    return whole or rest
