"""Which values of a program are of a part of the batch, and which are sums over it."""

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from relaxjax.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, MatchCast
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.op import operator_name
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.walk import free_vars

from ..program.step import size_of
from .kinds import (
    AFTER,
    TOTAL,
    WHOLE,
    Along,
    Batch,
    Kind,
    MixedError,
    Numbered,
    Taken,
    dims_of,
    has,
    is_of_parts,
)
from .rules import RULES, reduced
from .sums import linear

# Whether a value is known to be zeros, and of a tuple which fields are.
Zeros: TypeAlias = bool | tuple["Zeros", ...]

# What is computed before the loop takes at most so many times the bytes of the batch.
_EARLY = 4

_PRODUCTS = frozenset({"lax.dot_general", "lax.conv_general_dilated"})

LOOPS = frozenset({"relax.scan", "lax.scan"})


@dataclass(frozen=True)
class Loop:
    """A loop of the program: the function of a step, and the kinds of what that takes and gives.

    It takes `consts`, which are the same in all steps, `carries`, which go from one to the next,
    and the rows of stacks; it gives carries and rows of other stacks.
    """

    step: Function
    reading: "Reading"
    consts: tuple[Kind, ...]
    carries: tuple[Kind, ...]
    stacks: tuple[Kind, ...]
    rows: tuple[Kind, ...]  # those that a step gives


class Reading:
    """The kinds of the values of a function, those of its parameters being known.

    `inside` are the values that are computed in the loop over the parts: whatever depends on one.
    What samples need of all samples is `known` before that, if it takes few bytes, or fits a `room`
    of more: what it is computed of is `early`. A function that is the step of a loop is read within
    an `outer` reading. There, `zeros` tells of parameters that are known to be zeros.
    """

    def __init__(
        self,
        batch: Batch,
        params: Mapping[Var, Kind],
        outer: "Reading | None" = None,
        zeros: Mapping[Var, Zeros] | None = None,
        room: int = 0,
    ) -> None:
        self.batch, self.outer, self.zeros = batch, outer, dict(zeros or {})
        self.kinds: MutableMapping[Var, Kind] = dict(params)
        self.values: MutableMapping[Var, Expr] = {}
        self.inside = {var for var, kind in params.items() if is_of_parts(kind)}
        if outer is not None:
            self.kinds = ChainMap(dict(params), dict(outer.kinds))
            self.values = ChainMap({}, dict(outer.values))
            self.inside = {*params, *outer.inside}
        self.room = max(room, _EARLY * sum(size_of(var) for var in self.inside))
        self.known: set[Var] = set()
        self.early: set[Var] = set()
        self.taken: dict[Var, Taken] = {}
        self.loops: dict[Var, Loop] = {}

    def read(self, bindings: Sequence[Binding]) -> None:
        """Find the kinds of what is bound; all anew where something turns out to be known early."""
        at, params = 0, set(self.inside)
        while at < len(bindings):
            known = len(self.known)
            self._read(bindings[at])
            at += 1
            if len(self.known) > known:  # which others may have read as a sum
                at, self.inside = 0, set(params)
                self.taken.clear()
                self.loops.clear()

    def _read(self, binding: Binding) -> None:
        var, value = binding.var, binding.value
        self.values[var] = value
        if var in self.known:
            self.kinds[var] = WHOLE
            return
        if any(one in self.inside for one in free_vars(value)):
            self.inside.add(var)
        try:
            self.kinds[var] = self._kind_of(var, value)
            if isinstance(binding, MatchCast) and self._is_repeated(var):
                raise MixedError  # of a part, sizes may be others than those that it tells
        except MixedError as error:
            if self.outer is None and self._is_known_early(binding):
                return
            raise (MixedError(binding) if error.binding is None else error) from None

    def _is_known_early(self, binding: Binding) -> bool:
        """Whether what mixes samples can be known before the loop: sums that it takes, or all."""
        sums = [var for var in self._read_by(binding.value) if self.kind(var) in (TOTAL, AFTER)]
        return all(map(self._is_early, sums or [binding.var]))

    def _read_by(self, value: Expr) -> set[Var]:
        """The variables that a value reads, those of functions among them as well."""
        found: set[Var] = set()
        waiting = [*free_vars(value)]
        while waiting:
            var = waiting.pop()
            if var not in found:
                found.add(var)
                of_function = self.values.get(var)
                if isinstance(of_function, Function):
                    waiting += free_vars(of_function)
        return found

    def _is_early(self, var: Var) -> bool:
        """Let a value be computed whole before the loop, if what it needs takes little room."""
        needed, waiting = set(self.early), [var]
        while waiting:
            one = waiting.pop()
            if one in self.values and one in self.inside and one not in needed:
                needed.add(one)
                waiting += self._read_by(without_delay(self.values[one]))
        is_pure = (is_pure_call(v) for n in needed if isinstance(v := self.values[n], Call))
        if sum(map(size_of, needed)) >= self.room or not all(is_pure):
            return False
        self.early = needed
        self.known.add(var)
        return True

    def kind(self, expr: Expr) -> Kind:
        if isinstance(expr, Var):
            return self.kinds.get(expr, WHOLE)
        if isinstance(expr, Tuple):
            return tuple(map(self.kind, expr.fields))
        return WHOLE

    def _is_repeated(self, var: Var) -> bool:
        """Whether a value is computed for each part anew."""
        return self.outer is not None or var in self.inside

    def reads_parts(self, var: Var) -> bool:
        """Whether a value is of a part, or a function that reads such, itself or by another."""
        return any(is_of_parts(self.kind(one)) for one in self._read_by(var))

    def _kind_of(self, var: Var, value: Expr) -> Kind:
        match value:
            case Var() | Tuple():
                return self.kind(value)
            case TupleGetItem():
                kind = self.kind(value.tuple_value)
                return kind[value.index] if isinstance(kind, tuple) else kind
            case Call():
                return self._of_call(var, value)
            case Function():  # which is read where it is called
                return WHOLE
        if any(map(self.reads_parts, free_vars(value))):
            raise MixedError
        return WHOLE

    def _of_call(self, var: Var, call: Call) -> Kind:
        name = operator_name(call) or ""
        if name in LOOPS:
            found = self._of_loop(var, call, name)
            if found is not None:
                return found
        functions = [v for v in free_vars(call) if isinstance(self.values.get(v), Function)]
        is_impure = self._is_repeated(var) and not is_pure_call(call)
        if is_impure or any(map(self.reads_parts, functions)):
            raise MixedError
        kinds = tuple(map(self.kind, call.args))
        if not any(map(is_of_parts, kinds)):
            return WHOLE
        taken = self._taken(call, name, kinds)
        if taken is None:
            raise MixedError
        if self.outer is None and self._is_larger(var, call, taken):
            return AFTER
        self.taken[var] = taken
        return taken.result

    def _is_larger(self, var: Var, call: Call, taken: Taken) -> bool:
        """Whether a sum of products takes no less room than all that it is made of.

        A loop would have the product of each part beside the sum. So it leaves rows, of which the
        sum is one product afterwards. That of one sample is added to the sum as it is computed.
        """
        is_single = self.batch.parts == self.batch.size
        if operator_name(call) not in _PRODUCTS or taken.result is not TOTAL or is_single:
            return False
        rows = {arg for arg in call.args if isinstance(arg, Var) and arg in self.inside}
        are_stored = all(isinstance(self.kind(row), Along) for row in rows)
        return are_stored and sum(size_of(row) for row in rows if row in self.values) <= size_of(
            var
        )

    def _taken(self, call: Call, name: str, kinds: tuple[Kind, ...]) -> Taken | None:
        if name == "relax.grad.delay":
            return Taken(kinds, kinds[0])
        if any(isinstance(kind, Along) for kind in kinds):
            taken = self._by_rule(call, name, kinds)
            if taken is None or (taken.result is TOTAL and known_dtype(call) == "bool"):
                return None
            return taken if self._fit(call.args, kinds, taken.args) else None
        if AFTER not in kinds:
            taken = linear(call, kinds, self.is_zero)
            if taken is not None:
                return taken
        is_known_later = (
            kind is not WHOLE or arg not in self.inside
            for arg, kind in zip(call.args, kinds, strict=True)
        )
        return Taken(kinds, AFTER) if self.outer is None and all(is_known_later) else None

    def _by_rule(self, call: Call, name: str, kinds: tuple[Kind, ...]) -> Taken | None:
        if name == "lax.reduce":
            return reduced(call, kinds, self._adds_up(call))
        if name == "lax.scatter" and kinds[1] is WHOLE and self._is_each(call):
            kind = kinds[0] if isinstance(kinds[0], Along) else kinds[2]
            return Taken((kind, Numbered(0), kind), kind)
        rule = RULES.get(name)
        return None if rule is None else rule(call, kinds, self.batch)

    def _adds_up(self, call: Call) -> bool:
        """Whether a reduction of several tensors by a function is a sum of each."""
        combine = self.values.get(call.args[0]) if isinstance(call.args[0], Var) else None
        if not isinstance(combine, Function) or not isinstance(combine.body.body, Tuple):
            return False
        count = len(combine.params) // 2
        if not all(map(self.is_zero, call.args[count + 1 :])):
            return False
        bound: dict[Expr, Expr] = {b.var: b.value for b in combine.body.bindings()}
        return all(
            isinstance(value := bound.get(var), Call)
            and operator_name(value) == "lax.add"
            and value.args == (combine.params[at], combine.params[count + at])
            for at, var in enumerate(combine.body.body.fields)
        )

    def _is_each(self, call: Call) -> bool:
        """Whether numbers are written at all places of a row, one after the other."""
        places = self.values.get(call.args[1]) if isinstance(call.args[1], Var) else None
        if not isinstance(places, Call) or operator_name(places) != "lax.iota":
            return False
        row, _, numbers = map(dims_of, call.args)
        shape = tuple(places.attrs["shape"])
        is_row = len(row) == 1 and row == numbers
        return is_row and shape == (*row, 1) and places.attrs["dimension"] == 0

    def _fit(
        self, args: Sequence[Expr | None], kinds: Sequence[Kind], wanted: Sequence[Kind]
    ) -> bool:
        """Whether arguments of some kinds can be taken as of others."""
        return all(map(self._fits, args, kinds, wanted))

    def _fits(self, arg: Expr | None, kind: Kind, wanted: Kind) -> bool:
        if kind == wanted:
            return True
        if isinstance(wanted, tuple):
            kinds = kind if isinstance(kind, tuple) else (kind,) * len(wanted)
            fields = arg.fields if isinstance(arg, Tuple) else (None,) * len(wanted)
            return self._fit(fields, kinds, wanted)
        if kind is not WHOLE:
            return False
        if isinstance(wanted, Along) and arg is not None:
            dims_of(arg)  # of which a part is taken
        return self.is_zero(arg) if wanted is TOTAL else isinstance(wanted, Along | Numbered)

    def is_zero(self, expr: Expr | None) -> bool:
        """Whether all numbers are known to be zeros."""
        return self._zeros(expr) is True

    def _zeros(self, expr: Expr | None) -> Zeros:
        if isinstance(expr, Var):
            if expr in self.zeros:
                return self.zeros[expr]
            expr = self.values.get(expr)
        match expr:
            case Var():
                return self._zeros(expr)
            case Constant():
                data = np.asarray(expr.data)
                return data.size <= 1 and not data.any()
            case Tuple():
                return tuple(map(self._zeros, expr.fields))
            case TupleGetItem():
                zeros = self._zeros(expr.tuple_value)
                return zeros[expr.index] if isinstance(zeros, tuple) else zeros
            case Call() if operator_name(expr) in ("lax.broadcast_in_dim", "relax.grad.delay"):
                return self._zeros(expr.args[0])
        return False

    def _of_loop(self, var: Var, call: Call, name: str) -> Kind | None:
        """The kind of what a loop gives; None where nothing in it is of a part."""
        step = self.values.get(call.args[0]) if isinstance(call.args[0], Var) else None
        if not isinstance(step, Function):
            return None
        consts, count = 0, 1
        if name == "lax.scan":
            consts, count = call.attrs["num_consts"], call.attrs["num_carry"]
        args = call.args[1:]
        kinds = tuple(map(self.kind, args))
        assert isinstance(call.args[0], Var)
        if not any(map(is_of_parts, kinds)) and not self.reads_parts(call.args[0]):
            return None
        first, starts = kinds[consts : consts + count], args[consts : consts + count]
        carries, reading = self._carried(step, kinds, consts, first, starts)
        result = reading.kind(step.body.body)
        assert isinstance(result, tuple)
        ends = step.body.body.fields if isinstance(step.body.body, Tuple) else [None] * len(result)
        if not self._fit(starts, first, carries) or not reading._fit(ends, result, carries):
            raise MixedError
        rows = result[count:]
        stacks = kinds[consts + count :]
        if has((*kinds, *carries, *rows), AFTER):  # what only goes through is not known in there
            raise MixedError
        self.loops[var] = Loop(step, reading, kinds[:consts], carries, stacks, rows)
        return (*carries, *map(_stack, rows))

    def _carried(
        self,
        step: Function,
        kinds: tuple[Kind, ...],
        consts: int,
        carries: tuple[Kind, ...],
        starts: Sequence[Expr],
    ) -> tuple[tuple[Kind, ...], "Reading"]:
        """The kinds of what goes from one step to the next, and the reading of a step by them."""
        count = len(carries)
        rows = tuple(map(_row, kinds[consts + count :]))
        # At first, what starts as zeros may become a sum.
        zeros = dict(
            zip(step.params[consts : consts + count], map(self._zeros, starts), strict=True)
        )
        while True:
            params = dict(zip(step.params, (*kinds[:consts], *carries, *rows), strict=True))
            reading = Reading(self.batch, params, self, zeros)
            reading.read([*step.body.bindings()])
            result = reading.kind(step.body.body)
            if not isinstance(result, tuple):
                raise MixedError
            joined = tuple(map(_joined, carries, result[:count]))
            if joined == carries and not zeros:
                return carries, reading
            carries, zeros = joined, {}


def without_delay(value: Expr) -> Expr:
    """A value that need not wait."""
    if isinstance(value, Call) and operator_name(value) == "relax.grad.delay":
        return value.args[0]
    return value


def _row(kind: Kind) -> Kind:
    """What a step of a loop gets of a stack."""
    if isinstance(kind, tuple):
        return tuple(map(_row, kind))
    if isinstance(kind, Along):
        if kind.axis == 0:
            raise MixedError
        return Along(kind.axis - 1, kind.outer)
    return kind


def _stack(kind: Kind) -> Kind:
    """What a loop makes of what each step gives."""
    if isinstance(kind, tuple):
        return tuple(map(_stack, kind))
    return Along(kind.axis + 1, kind.outer) if isinstance(kind, Along) else kind


def _joined(before: Kind, after: Kind) -> Kind:
    """The kind of what goes from one step of a loop to the next."""
    if isinstance(before, tuple) and isinstance(after, tuple):
        return tuple(map(_joined, before, after))
    if before is WHOLE:
        return after
    if after is WHOLE or after == before:
        return before
    raise MixedError
