"""The backward half of a sequence of bindings: the adjoint of each variable, from last to first."""

from collections.abc import Callable, Mapping, Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.op import ZERO_GRADIENT, Op, arguments, get_op
from relaxjax.ir.span import located
from relaxjax.ir.types import TensorType, TupleType, Type, is_float
from relaxjax.ops import OpError
from relaxjax.ops.shapes import same_dims


class GradientError(ValueError):
    """A function cannot be differentiated as asked; the message says why, and where."""


# What a binding that is no operator's does in reverse, given the adjoint of its variable.
Reverse = Callable[["Adjoint", Var], None]


class Adjoint:
    """The adjoints of the variables so far, and the builder that writes them.

    `reverses` says how to go back through bindings that are no calls of operators; `recomputed`
    gives the forward value that a gradient rule may look at in the place of a variable, `originals`
    the variable that such a value was computed as first.
    """

    def __init__(
        self,
        builder: BlockBuilder,
        reverses: Mapping[Var, Reverse],
        recomputed: Callable[[Expr], Expr],
        originals: Mapping[Var, Var],
    ) -> None:
        self.builder = builder
        self.reverses = reverses
        self.recomputed = recomputed
        self.originals = originals
        self.moment: Var | None = None  # the adjoint that is handed on, if it has a number
        self.adjoints: dict[Var, Var] = {}
        self.fields: dict[tuple[Expr, int], Var] = {}

    def go_back(self, bindings: Sequence[Binding]) -> None:
        """Hand the adjoints on from each binding, the last first, to what it is made of."""
        for binding in reversed(bindings):
            if self.knows(binding.var):
                origin = self.builder.origin(binding.span, binding.var.name)
                with located(binding.span), origin:
                    self.binding(binding)

    def knows(self, var: Var) -> bool:
        """Whether anything came back to a variable."""
        return var in self.adjoints

    def binding(self, binding: Binding) -> None:
        if binding.var not in self.reverses and not isinstance(binding.value, Call):
            self.pass_on(binding.value, binding.var)
            return
        adjoint = self.of(binding.var)
        self.moment = adjoint if _has_number(adjoint.ty) else self.moment
        if binding.var in self.reverses:
            self.reverses[binding.var](self, adjoint)
        elif isinstance(binding.value, Call):
            self.call(binding.var, binding.value, adjoint)

    def pass_on(self, value: Expr, var: Var) -> None:
        """Hand the adjoint of `var` on to `value`, which it is another name for, or a cast of."""
        self.distribute(value, self.cast_back(self.adjoints[var], value))

    def cast_back(self, adjoint: Expr, value: Expr) -> Expr:
        """The adjoint of another name of `value`, or of a cast, in the type that `value` has."""
        if not isinstance(value, Var) or value.ty is None:
            return adjoint
        if fits(adjoint.ty, value.ty) is not Fit.MAYBE:
            return adjoint
        return self.builder.match_cast(adjoint, value.ty, f"{value.name}_adjoint")

    def call(self, var: Var, call: Call, adjoint: Var) -> None:
        """Apply an operator's gradient rule, and hand the partial adjoints on to its arguments."""
        if not isinstance(call.op, Op) or call.op.gradient in (None, ZERO_GRADIENT):
            return  # no required variable lies behind it
        args, attrs = arguments(call)
        values = [None if arg is None else self.recomputed(arg) for arg in args]
        given = call.op.gradient(adjoint, self.recomputed(var), *values, **attrs)
        pairs = [
            (arg, self.builder.normalize(partial))
            for arg, partial in zip(args, _partials(call.op, given, len(args)), strict=True)
            if arg is not None and partial is not None
        ]
        for arg, partial in pairs:
            self.distribute(arg, _fitted(call.op, partial, arg))

    def distribute(self, value: Expr, adjoint: Expr) -> None:
        """Add `adjoint` to the adjoints of the variables that make up `value`."""
        match value:
            case Var():
                self.update(value, adjoint)
            case Tuple(fields=fields):
                for index, field in enumerate(fields):
                    self.distribute(field, item(self.leaf(adjoint), index))
            case TupleGetItem(tuple_value=Var() as var, index=index):
                self.update_field(var, index, adjoint)
            case TupleGetItem(tuple_value=Tuple(fields=fields), index=index):
                self.distribute(fields[index], adjoint)

    def update(self, var: Var, partial: Expr) -> None:
        """Add a partial adjoint to that of a variable."""
        var = self.originals.get(var, var)
        before = self.adjoints.get(var)
        total = partial if before is None else self.sum(before, partial)
        self.adjoints[var] = self.builder.emit(total, f"{var.name}_adjoint")

    def update_field(self, var: Var, index: int, partial: Expr) -> None:
        """Add a partial adjoint to that of one field of a tuple."""
        var = self.originals.get(var, var)
        assert isinstance(var.ty, TupleType)
        before = self.adjoints.get(var)
        fields: list[Expr] = []
        for i in range(len(var.ty.fields)):
            if before is None:
                fields.append(partial if i == index else self.nothing(TupleGetItem(var, i)))
            elif i == index:
                fields.append(self.leaf(self.sum(self.field(before, i), partial)))
            else:
                fields.append(self.field(before, i))
        self.adjoints[var] = self.builder.emit(Tuple(tuple(fields)), f"{var.name}_adjoint")

    def of(self, var: Var) -> Var:
        """The adjoint of a variable: zero where nothing came back to it."""
        if var not in self.adjoints:
            self.update(var, self.nothing(var))
        return self.adjoints[var]

    def nothing(self, value: Expr) -> Expr:
        """The zero adjoint of a value; what its type does not say of it is read from it."""
        return zeros_of(value, self.recomputed)

    def sum(self, lhs: Expr, rhs: Expr) -> Expr:
        """The sum of two adjoints of the same type, leaf by leaf for tuples."""
        if not isinstance(lhs.ty, TupleType):
            return get_op("relax.add")(self.leaf(lhs), self.leaf(rhs))
        count = len(lhs.ty.fields)
        return Tuple(tuple(self.leaf(self.sum(item(lhs, i), item(rhs, i))) for i in range(count)))

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


def _has_number(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) and is_float(ty.dtype) and 0 not in (ty.dims or (0,))


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
        case TupleType(fields=fields):
            return Tuple(tuple(zeros_of(item(value, i), read) for i in range(len(fields))))
        case TensorType(shape=shape, dtype=dtype) if not (isinstance(shape, tuple) and dtype):
            return get_op("relax.zeros_like")(read(value))
        case ty:
            return zeros(ty)


def _partials(op: Op, given: object, count: int) -> Sequence[Expr | None]:
    """What a gradient rule gives: an adjoint for each argument, or nothing for it."""
    partials = [given] if isinstance(given, Expr) else given
    if not isinstance(partials, tuple | list) or not all(
        partial is None or isinstance(partial, Expr) for partial in partials
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


def _fitted(op: Op, partial: Expr, arg: Expr) -> Expr:
    """A partial adjoint summed back to the shape of the argument that was broadcast."""
    wanted, found = arg.ty, partial.ty
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
    try:
        return get_op("relax.collapse_sum_to")(partial, ShapeExpr(wanted.dims))
    except OpError:
        raise GradientError(
            f"the gradient rule of {op.name} gives an adjoint of shape {found.shape} for `{arg}` "
            f"of shape {wanted.shape}, to which it cannot be summed: give it in the shape of the "
            "result"
        ) from None


def item(value: Expr, index: int) -> Expr:
    """A field of a tuple, taken out where the tuple is written out."""
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)
