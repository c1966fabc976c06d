"""A loop and the loop back through it as one, where the way back only sums over the steps."""

from collections.abc import Iterator, Mapping, Sequence

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, DataflowBlock, Function, If, SeqExpr, VarBinding
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.tuples import Path, at, leaves
from relaxjax.ir.types import TupleType
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import all_vars, map_bindings, substitute, used_vars
from relaxjax.ops.loop_types import steps_of_loop
from relaxjax.passes.infrastructure.base import pass_factory

# The fields to take, one after the other.

_SUMS = ("relax.add", "lax.add", "lax.add_any")
# How operators are computed that take long by themselves.
_SLOW = ("out_fusable", "opaque")


@pass_factory(opt_level=0, kind="function")
def JoinLoops(function: Function, mod: IRModule) -> Function:
    """Make one loop of a loop and the one back through it, where that only sums over the steps.

    `Gradient` writes two loops: the second reads what the first has stacked, or computes it again.
    If the adjoints of what the first gives are known before it runs, as those of a mean over the
    steps are, each step can go back as soon as it has gone forward. Then nothing is stacked, and
    nothing computed twice. Sums are over the steps in the order of the first loop.

    It is done where nothing slow stands between the two, such as a product of matrices or another
    loop: what the second gives is there earlier then, and stays.
    """
    return _joined(function)


def _joined(function: Function) -> Function:
    body = function.body
    if not any(isinstance(block, DataflowBlock) for block in body.blocks):  # these have no steps
        while (pair := next(_pairs(body), None)) is not None:
            body = pair.joined(body)
    body = map_bindings(body, _joined_inside)
    return function if body is function.body else replace(function, body=body)


def _joined_inside(binding: Binding) -> Binding:
    if not isinstance(binding.value, Function):
        return binding
    changed = _joined(binding.value)
    return binding if changed is binding.value else replace(binding, value=changed)


def _pairs(body: SeqExpr) -> Iterator["_Pair"]:
    """The pairs of loops in a sequence that can be joined."""
    bindings = tuple(body.bindings())
    steps: dict[Expr, Function] = {
        b.var: b.value for b in bindings if isinstance(b.value, Function)
    }
    loops = [place for place, b in enumerate(bindings) if _is_loop(b.value, steps)]
    for number, last in enumerate(loops):
        for first in loops[:number]:
            pair = _Pair(bindings, first, last, steps)
            if pair.can_be_joined:
                yield pair


def _is_loop(value: Expr, steps: Mapping[Expr, Function]) -> bool:
    if not isinstance(value, Call) or value.op is not get_op("relax.scan"):
        return False
    return value.args[0] in steps and not value.attrs["checkpoint"] and is_pure_call(value)


class _Pair:
    """A loop, and a later one that may go back through it.

    The later one has as its `xs` stacks that the first one gives, or what that runs over itself,
    and further tensors, such as the adjoints of what the first one gives.
    """

    def __init__(
        self, bindings: Sequence[Binding], first: int, last: int, steps: Mapping[Expr, Function]
    ) -> None:
        self.before, self.between = bindings[:first], bindings[first + 1 : last]
        self.after = bindings[last + 1 :]
        self.there, self.back = bindings[first], bindings[last]
        self.calls = [_called(binding) for binding in (self.there, self.back)]
        self.step, self.start, self.xs = self.calls[0].args
        self.step_back, self.sums, self.xs_back = self.calls[1].args
        self.steps = [steps[call.args[0]] for call in self.calls]
        self.parts = _parts(self.there.var, self.between)
        self.same = {leaf: path for path, leaf in leaves(self.xs)}
        # What the second one runs over beside that, with the ways to it.
        self.further = {
            leaf: path
            for path, leaf in leaves(self.xs_back)
            if self._stack(leaf) is None and leaf not in self.same
        }

    def _stack(self, leaf: Expr) -> Path | None:
        """The way to a stack that the first loop gives; None for what is none."""
        path = self.parts.get(leaf) if isinstance(leaf, Var) else None
        return path if path and path[0] == 1 else None

    @property
    def can_be_joined(self) -> bool:
        stacks = {leaf for _, leaf in leaves(self.xs_back)}
        if stacks == self.further.keys() or any(map(_is_slow, self.between)):
            return False
        late = {self.there.var}
        for binding in self.between:
            if not late.isdisjoint(used_vars(binding.value)):
                late.add(binding.var)
        needed = (*self.further, self.sums, self.step_back)
        if any(not late.isdisjoint(used_vars(expr)) for expr in needed):
            return False
        one, other = map(steps_of_loop, self.calls)
        return one == other and _only_sums(self.steps[1])

    def joined(self, body: SeqExpr) -> SeqExpr:
        """The sequence with one loop instead of the two, behind what the second one needs."""
        early = self._needed_early()
        uses: dict[Expr, int] = dict(count_uses(body).items())
        once = (step for step in (self.step, self.step_back) if uses[step] == 1)
        gone: set[Expr] = {*self.parts, *once}
        stays = [b for b in self.between if b.var not in gone]
        before = [*self.before, *(b for b in stays if b.var in early)]
        later = [*(b for b in stays if b.var not in early), *self.after]
        read = self._read(later, body.body)
        builder = BlockBuilder()
        with builder.scope(taken=[var.name for var in all_vars(body)]):
            for binding in before:
                if binding.var not in gone:
                    builder.emit_binding(binding)
            with builder.origin(self.there.span):
                new = self._emit(builder, read)
            for binding in later:
                builder.emit_binding(replace(binding, value=substitute(binding.value, new)))
            return builder.sequence(substitute(body.body, new))

    def _needed_early(self) -> set[Var]:
        """What stands between the loops and the second one needs."""
        needed = set(used_vars(Tuple((*self.further, self.sums, self.step_back))))
        for binding in reversed(self.between):
            if binding.var in needed:
                needed.update(used_vars(binding.value))
        return needed

    def _read(self, later: Sequence[Binding], result: Expr) -> dict[Var, Path]:
        """The parts of what the first loop gives that others than the second one read."""
        values = (*(binding.value for binding in later), result)
        used = dict.fromkeys(var for value in values for var in used_vars(value))
        return {var: self.parts[var] for var in used if var in self.parts}

    def _emit(self, builder: BlockBuilder, read: Mapping[Var, Path]) -> dict[Var, Expr]:
        """Emit the loop, and what others read of it; the new variable for each old one."""
        name = self.there.var.name.removesuffix("_kept")
        step = builder.emit(self._joined_step([*read.values()]), f"{name}_both_step")
        start, xs = Tuple((self.start, self.sums)), Tuple((self.xs, Tuple(tuple(self.further))))
        loop = get_op("relax.scan")(step, start, xs, **self.calls[0].attrs)
        both = builder.emit(loop, f"{name}_both")
        ends = [[TupleGetItem(TupleGetItem(both, i), side) for i in (0, 1)] for side in (0, 1)]
        new: dict[Var, Expr] = {}
        for var, path in read.items():
            place = ends[0][path[0]] if path else Tuple(tuple(ends[0]))
            new[var] = builder.emit(at(place, path[1:]), var.name)
        new[self.back.var] = builder.emit(Tuple(tuple(ends[1])), self.back.var.name)
        return new

    def _joined_step(self, read: Sequence[Path]) -> Function:
        """`step((carry, sums), (x, further)) -> ((carry, sums), (y, rows))`, both steps in one."""
        step, back = (renew(step, visible=True)[0] for step in self.steps)
        pairs = zip(step.params, back.params, strict=True)
        (carry, sums), (x, at_step) = ((one, Var(other.name, other.ty)) for one, other in pairs)
        further = Tuple(tuple(at(at_step, path) for path in self.further.values()))
        carry, x = Var("carry", Tuple((carry, sums)).ty), Var("x", Tuple((x, further)).ty)
        builder = BlockBuilder()
        with builder.scope(taken=["carry", "x", *(v.name for v in all_vars(Tuple((step, back))))]):
            own, sums, given, others = (
                builder.emit(TupleGetItem(whole, side)) for whole in (carry, x) for side in (0, 1)
            )
            result = _emit_step(builder, step, (own, given))
            row = self._at_step(self.xs_back, result, given, others)
            totals = _emit_step(builder, back, (sums, row))
            y = _thinned(at(result, (1,)), (1,), read)
            carries = Tuple((at(result, (0,)), at(totals, (0,))))
            seq = builder.sequence(Tuple((carries, Tuple((y, at(totals, (1,)))))))
        return renew(make_function((carry, x), seq, ret_ty=seq.ty))[0]

    def _at_step(self, xs: Expr, result: Expr, given: Expr, others: Expr) -> Expr:
        """What a step back gets: of the step's result, of what that was given, and of others."""
        if isinstance(xs, Tuple):
            fields = (self._at_step(field, result, given, others) for field in xs.fields)
            return Tuple(tuple(fields))
        stack = self._stack(xs)
        if stack is not None:
            return at(result, stack)
        if xs in self.same:
            return at(given, self.same[xs])
        return TupleGetItem(others, [*self.further].index(xs))


def _emit_step(builder: BlockBuilder, step: Function, args: Sequence[Expr]) -> Expr:
    """Emit what a step computes of its arguments; its result."""
    given = dict(zip(step.params, args, strict=True))
    for binding in step.body.bindings():
        value = substitute(binding.value, given)
        if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Tuple):
            given[binding.var] = value.tuple_value.fields[value.index]
        else:
            builder.emit_binding(replace(binding, value=value))
    return substitute(step.body.body, given)


def _thinned(value: Expr, path: Path, read: Sequence[Path]) -> Expr:
    """What a step gives to be stacked, without what nobody reads of it."""
    if any(path[: len(way)] == way for way in read):
        return value
    if not isinstance(value.ty, TupleType):
        return Tuple(())
    fields = range(len(value.ty.fields))
    return Tuple(tuple(_thinned(at(value, (i,)), (*path, i), read) for i in fields))


def _only_sums(step: Function) -> bool:
    """Whether a step adds to each part of its carry, or leaves it, and reads no part otherwise."""
    bindings = tuple(step.body.bindings())
    uses: dict[Expr, int] = dict(count_uses(step).items())
    parts = _parts(step.params[0], bindings)
    values: dict[Expr, Expr] = {binding.var: binding.value for binding in bindings}
    summed: set[Expr] = set()
    for path, leaf in leaves(at(step.body.body, (0,))):
        terms = (leaf,) if leaf in parts else _terms(values.get(leaf), uses.get(leaf, 0))
        own = [term for term in terms if parts.get(term) == path and uses[term] == 1]
        if len(own) != 1:
            return False
        summed.update(own)
    taken = [b.value.tuple_value for b in bindings if isinstance(b.value, TupleGetItem)]
    return all(var in summed or uses.get(var, 0) == taken.count(var) for var in parts)


def _called(binding: Binding) -> Call:
    assert isinstance(binding.value, Call)
    return binding.value


def _terms(value: Expr | None, times_used: int) -> Sequence[Expr]:
    """What a value is the sum of, if it is one that is used only once."""
    is_sum = isinstance(value, Call) and isinstance(value.op, Op) and value.op.name in _SUMS
    return value.args if is_sum and isinstance(value, Call) and times_used == 1 else ()


def _is_slow(binding: Binding) -> bool:
    value = binding.value
    if isinstance(value, Call) and isinstance(value.op, Op):
        return value.op.fusion in _SLOW
    return isinstance(value, Call | If | SeqExpr)


def _parts(whole: Var, bindings: Sequence[Binding]) -> dict[Expr, Path]:
    """The variables that are parts of what `whole` holds, itself too, each with the way to it."""
    found: dict[Expr, Path] = {whole: ()}
    for binding in bindings:
        value = binding.value
        if not isinstance(binding, VarBinding):
            continue
        if isinstance(value, TupleGetItem) and value.tuple_value in found:
            found[binding.var] = (*found[value.tuple_value], value.index)
    return found
