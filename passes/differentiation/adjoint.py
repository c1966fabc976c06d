"""Reverse accumulation over a sequence: the adjoint of each variable, from last to first."""

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from operator import is_
from typing import TypeAlias

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.device_mesh import Placement
from relaxjax.ir.expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.op import ZERO_GRADIENT, ByResult, Op, Partial, arguments, fields_of, get_op
from relaxjax.ir.span import located
from relaxjax.ir.tensor_types import has_floats, known_ndim
from relaxjax.ir.tuples import field_of
from relaxjax.ir.types import TensorType, TupleType, Type, is_float
from relaxjax.ir.walk import used_vars
from relaxjax.ops import OpError
from relaxjax.ops.shapes import same_dims


class GradientError(ValueError):
    """A function cannot be differentiated as asked; the message says why, and where."""


class Zero:
    """The adjoint of what nothing came back to: tensors are made of it only where one is needed."""


ZERO = Zero()

# An adjoint: zero, an expression, or the fields of a tuple, of which those left out are zero.
Cotangent: TypeAlias = Expr | dict[int, "Cotangent"] | Zero

# The reverse rule of a compound binding: hands the adjoint of its variable on to what it reads.
Reverse = Callable[["Adjoint", Var], None]


class Adjoint:
    """The adjoints of the variables so far, and the builder that writes them.

    Those of tuples are kept in parts until something needs the whole; what carries no gradient,
    such as the integers in a tuple, has none. `reverses` are the rules of bindings that are no
    calls of operators; `recomputed` gives the forward value that a gradient rule reads for a
    variable, `originals` the variable that such a value was computed as first. Only adjoints of
    `active` variables are asked for. Those `near_turns` are computed once for a slope that jumps.
    """

    def __init__(
        self,
        builder: BlockBuilder,
        reverses: Mapping[Var, Reverse],
        recomputed: Callable[[Expr], Expr],
        originals: Mapping[Var, Var],
        active: Container[Var] = (),
        near_turns: Container[Expr] = (),
    ) -> None:
        self.builder = builder
        self.reverses = reverses
        self.recomputed = recomputed
        self.originals = originals
        self.active = active
        self.near_turns = near_turns
        self.steady: dict[Expr, Expr] = {}  # what is computed once, by what it is computed of
        self.moment: Var | None = None  # the adjoint that is handed on, if it has a number
        self.cotangents: dict[Var, Cotangent] = {}
        self.fields: dict[tuple[Expr, int], Var] = {}
        self.reached = defaultdict[Var, set[int]](set)  # the fields that something came back to

    def go_back(self, bindings: Sequence[Binding]) -> None:
        """Hand the adjoint of each binding on to what it is made of, the last first."""
        for binding in reversed(bindings):
            if binding.var in self.cotangents:
                origin = self.builder.origin(binding.span, binding.var.name)
                with located(binding.span), origin:
                    self.binding(binding)

    def binding(self, binding: Binding) -> None:
        if binding.var not in self.reverses and not isinstance(binding.value, Call):
            self.pass_on(binding.value, self.cotangents[binding.var], self.reached[binding.var])
            return
        adjoint = self.of(binding.var)
        self.moment = adjoint if has_floats(adjoint.ty) else self.moment
        if binding.var in self.reverses:
            self.reverses[binding.var](self, adjoint)
        elif isinstance(binding.value, Call):
            self.call(binding.var, binding.value, adjoint)

    def pass_on(self, value: Expr, adjoint: Cotangent, reached: set[int]) -> None:
        """Hand an adjoint on to `value`, of which the variable is another name, or a cast."""
        if isinstance(adjoint, Expr):
            adjoint = self.cast_back(adjoint, value)
        self.add(value, adjoint, reached)

    def cast_back(self, adjoint: Expr, value: Expr) -> Expr:
        """The adjoint of another name of `value`, or of a cast, in the type that `value` has."""
        if not isinstance(value, Var) or value.ty is None:
            return adjoint
        if fits(adjoint.ty, value.ty) is not Fit.MAYBE:
            return adjoint
        return self.builder.match_cast(adjoint, value.ty, named_after(value))

    def call(
        self, var: Var, call: Call, adjoint: Var, known: Callable[[Expr], Expr] | None = None
    ) -> None:
        """Apply an operator's gradient rule, and hand the partial adjoints on to its arguments.

        `known` puts what was computed before in the place of what the rule would compute.
        """
        if not isinstance(call.op, Op) or call.op.gradient in (None, ZERO_GRADIENT):
            return  # it depends on no required variable
        args, attrs = arguments(call)
        values = [None if arg is None else self.operand(call.op, arg) for arg in args]
        rule, out = call.op.gradient, self.recomputed(var)
        if isinstance(rule, ByResult):
            given = rule.rule(self.by_result(var, adjoint), out, *values, **attrs)
        else:
            given = rule(adjoint, out, *values, **attrs)
        pairs = [
            (arg, self.builder.normalize(partial if known is None else known(partial)))
            for arg, part in zip(args, partials_of(call.op, given, len(args)), strict=True)
            if arg is not None and (partial := self.asked_for(part, arg)) is not None
        ]
        for arg, partial in pairs:
            self.add(arg, fitted(call, partial, arg))

    def operand(self, op: Op, arg: Expr) -> Expr:
        """What a gradient rule reads for an argument."""
        return self.recomputed(arg) if not op.facts.get("turns") else self.at_a_turn(arg)

    def at_a_turn(self, arg: Expr) -> Expr:
        """An argument for a slope that jumps: of the same bits wherever it may lie at the jump."""
        value = self.recomputed(arg)
        ty = arg.ty
        if arg not in self.near_turns or not isinstance(ty, TensorType) or ty.dtype is None:
            return value
        if not is_float(ty.dtype) and ty.dtype != "bool":
            return value
        if value not in self.steady:
            self.steady[value] = self.builder.emit(get_op("relax.grad.once")(value))
        return self.steady[value]

    def asked_for(self, partial: Partial, arg: Expr) -> Expr | None:
        """The partial adjoint of an argument; one that must be computed yet, of active ones."""
        if partial is None or isinstance(partial, Expr):
            return partial
        is_active = any(self.originals.get(var, var) in self.active for var in used_vars(arg))
        return partial() if is_active else None

    def by_result(self, var: Var, adjoint: Var) -> Sequence[Expr | None]:
        """The fields of the adjoint of an operator's results, without those that are zero."""
        fields, reached = enumerate(fields_of(adjoint)), self.reached[self.originals.get(var, var)]
        return [g if not _is_tuple(var) or i in reached else None for i, g in fields]

    def some_fields(self, var: Var) -> frozenset[int] | None:
        """The fields of a tuple that something came back to, if it did not come back to all."""
        if not isinstance(var.ty, TupleType):
            return None
        reached = self.reached[self.originals.get(var, var)]
        able = {i for i, ty in enumerate(var.ty.fields) if carries_gradient(ty)}
        # If none is known, all goes back: something came, or nobody would ask.
        return frozenset(reached) if reached and able - reached else None

    def add(self, value: Expr, adjoint: Cotangent, reached: Collection[int] = ()) -> None:
        """Add an adjoint to those of the variables that make up `value`.

        What of a tuple is `reached`, its adjoint says itself unless that is written out.
        """
        if isinstance(adjoint, Zero) or not carries_gradient(value.ty):
            return
        match value:
            case Var():
                var = self.originals.get(value, value)
                if isinstance(var.ty, TupleType):
                    came = adjoint if isinstance(adjoint, dict) else range(len(var.ty.fields))
                    self.reached[var] |= set(reached or came)
                before = self.cotangents.get(var, ZERO)
                self.cotangents[var] = self.sum(before, adjoint, var)
            case Tuple(fields=fields):
                for index, part in self.parts(adjoint).items():
                    self.add(fields[index], part)
            case TupleGetItem(tuple_value=Var() as var, index=index):
                self.add(var, {index: adjoint})
            case TupleGetItem(tuple_value=Tuple(fields=fields), index=index):
                self.add(fields[index], adjoint)

    def sum(self, before: Cotangent, added: Cotangent, var: Var) -> Cotangent:
        """The sum of two adjoints of `var`, or of one of its fields."""
        if isinstance(before, Zero):
            return self.bound(added, var) if isinstance(added, Expr) else added
        if isinstance(before, Expr) and isinstance(added, Expr) and not _is_tuple(added):
            return self.bound(get_op("relax.add")(before, self.leaf(added)), var)
        fields = self.parts(before)
        for index, part in self.parts(added).items():
            fields[index] = self.sum(fields.get(index, ZERO), part, var)
        return fields

    def bound(self, adjoint: Expr, var: Var) -> Expr:
        """An adjoint of `var`, bound to a variable that is named after it."""
        if isinstance(adjoint, Var | TupleGetItem) or _is_tuple(adjoint):
            return self.leaf(adjoint)
        return self.builder.emit(adjoint, named_after(var))

    def parts(self, adjoint: Cotangent) -> dict[int, Cotangent]:
        """The fields of a tuple's adjoint, without those that are zero."""
        match adjoint:
            case Expr(ty=TupleType(fields=types)):
                return {
                    i: field_of(adjoint, i) for i, ty in enumerate(types) if carries_gradient(ty)
                }
            case dict():
                return dict(adjoint)
            case _:
                return {}

    def of(self, var: Var) -> Var:
        """The whole adjoint of a variable."""
        whole = self.whole(self.cotangents.get(var, ZERO), var)
        bound = whole if isinstance(whole, Var) else self.builder.emit(whole, named_after(var))
        self.cotangents[var] = bound
        return bound

    def whole(self, adjoint: Cotangent, value: Expr) -> Expr:
        """The adjoint of `value` with its zeros written out.

        What the type of the value does not say of them is read from it.
        """
        if isinstance(adjoint, Expr):
            return adjoint
        if isinstance(adjoint, Zero):
            return zeros_of(value, self.recomputed)
        assert isinstance(value.ty, TupleType)
        indices = range(len(value.ty.fields))
        return Tuple(tuple(self.whole(adjoint.get(i, ZERO), field_of(value, i)) for i in indices))

    def total(self, before: Expr, added: Cotangent) -> Expr:
        """The sum of two adjoints with all that a tuple holds, tensor by tensor."""
        if isinstance(added, Zero):
            return self.leaf(before)
        if isinstance(added, Expr) and not _is_tuple(added):
            return get_op("relax.add")(self.leaf(before), self.leaf(added))
        fields = list(before)
        for index, field in enumerate(fields):
            part = field_of(added, index) if isinstance(added, Expr) else added.get(index, ZERO)
            fields[index] = self.leaf(self.total(field, part))
        return Tuple(tuple(fields))

    def leaf(self, expr: Expr) -> Expr:
        """`expr` bound to a variable; each field of a tuple is taken out once."""
        if isinstance(expr, TupleGetItem):
            return self.field(self.leaf(expr.tuple_value), expr.index)
        return self.builder.normalize_leaf(expr)

    def field(self, value: Expr, index: int) -> Var:
        key = (value, index)
        if key not in self.fields:
            self.fields[key] = self.builder.emit(TupleGetItem(value, index))
        return self.fields[key]


def named_after(var: Var) -> str:
    return f"{var.name}_adjoint"


def _is_tuple(value: Expr) -> bool:
    return isinstance(value.ty, TupleType)


def zeros(ty: Type | None) -> Expr:
    """The zero adjoint of a type."""
    match ty:
        case TupleType(fields=fields):
            return Tuple(tuple(map(zeros, fields)))
        case TensorType(shape=tuple() as shape, dtype=str() as dtype):
            return get_op("relax.zeros")(shape, dtype)
        case _:
            raise GradientError(
                f"a zero gradient needs a known shape and dtype, found {ty}: give the value that "
                "it belongs to its shape before, as by R.match_cast"
            )


def zeros_of(value: Expr, read: Callable[[Expr], Expr] = lambda value: value) -> Expr:
    """The zero adjoint of a value; `read` gives the value where its type leaves its shape open."""
    match value.ty:
        case TupleType():
            return Tuple(tuple(zeros_of(field, read) for field in value))
        case TensorType(shape=shape, dtype=dtype) if not (isinstance(shape, tuple) and dtype):
            return get_op("relax.zeros_like")(read(value))
        case ty:
            return zeros(ty)


def partials_of(op: Op, given: object, count: int) -> Sequence[Partial]:
    """What a gradient rule gives: an adjoint for each argument, or nothing for it."""
    partials = [given] if isinstance(given, Expr) else given
    if not isinstance(partials, tuple | list) or not all(
        partial is None or isinstance(partial, Expr) or callable(partial) for partial in partials
    ):
        raise GradientError(
            f"the gradient rule of {op.name} must give an expression for each argument, or None "
            f"where nothing goes back to it, but it gives {given!r}"
        )
    if len(partials) != count:
        raise GradientError(
            f"the gradient rule of {op.name} gives {len(partials)} adjoints "
            f"for its {count} arguments"
        )
    return partials


def fitted(call: Call, partial: Expr, arg: Expr) -> Expr:
    """A partial adjoint summed back to the shape of the argument that was broadcast."""
    op, wanted, found = call.op, arg.ty, partial.ty
    assert isinstance(op, Op)
    if not isinstance(wanted, TensorType) or not isinstance(found, TensorType):
        return partial
    if None not in (wanted.dtype, found.dtype) and wanted.dtype != found.dtype:
        raise GradientError(
            f"the gradient rule of {op.name} gives an adjoint of dtype {found.dtype} "
            f"for `{arg}` of dtype {wanted.dtype}"
        )
    if wanted.shape is not None and wanted.shape is found.shape:
        return partial
    if wanted.dims is None:
        return get_op("relax.collapse_sum_like")(partial, arg)
    if same_dims(found.dims, wanted.dims):
        return partial
    result = known_ndim(call)
    wide = sum(dim != 1 for dim in found.dims or ())
    with suppress(OpError):
        if result < 0 or wide <= max(wanted.ndim, result):  # nothing was broadcast to more
            return get_op("relax.collapse_sum_to")(partial, ShapeExpr(wanted.dims))
    raise GradientError(
        f"the gradient rule of {op.name} gives an adjoint of shape {found.shape} for `{arg}` "
        f"of shape {wanted.shape}, to which it cannot be summed: give it in the shape of the "
        "result"
    )


def lying_as(value: Expr, ty: Type | None) -> Expr:
    """A value that is to lie where a type says, tensor by tensor; itself where it says nothing."""
    match ty:
        case TensorType(placement=Placement() as placement):
            return get_op("relax.dist.annotate_sharding")(value, placement.mesh, placement.text)
        case TupleType(fields=fields):
            parts = list(value)
            placed = tuple(map(lying_as, parts, fields))
            return value if all(map(is_, parts, placed)) else Tuple(placed)
        case _:
            return value


class WrittenOut(Adjoint):
    """Adjoints as TVM writes them: each sum is bound at once, and the zeros in a tuple are tensors.

    The names and the order of what TVM writes follow from what was added when, so this is a way to
    add and no pass over the finished program, which does not hold that any more.
    """

    def sum(self, before: Cotangent, added: Cotangent, var: Var) -> Var:
        whole = self.total(before, added) if isinstance(before, Expr) else self.whole(added, var)
        return self.builder.emit(whole, named_after(var))

    def parts(self, adjoint: Cotangent) -> dict[int, Cotangent]:
        """The fields of a tuple that is bound before they are taken."""
        return super().parts(self.leaf(adjoint) if isinstance(adjoint, Expr) else adjoint)
