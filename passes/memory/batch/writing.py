"""What a program computes of one part of its batch, written out."""

from collections.abc import Sequence

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var, const
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import free_vars, substitute
from relaxjax.ops.emit import reshaped

from .kinds import AFTER, WHOLE, Along, Kind, Numbered, Taken, dims_of
from .reading import Loop, Reading


class PartWriter:
    """Emits what a function computes of the part of a `number`, by a reading of the function.

    `new` is what stands for variables of the whole program.
    """

    def __init__(
        self, builder: BlockBuilder, reading: Reading, number: Expr, new: dict[Var, Expr]
    ) -> None:
        self.builder, self.reading, self.number, self.new = builder, reading, number, new
        self._parts: dict[tuple[Expr, Along | Numbered], Expr] = {}

    def write(self, binding: Binding) -> None:
        """Emit what a binding is of the part; a step that reads one is written with its loop."""
        var, value, reading = binding.var, binding.value, self.reading
        if isinstance(value, Function) and reading.reads_parts(var):
            return
        with self.builder.origin(binding.span, binding.derived_from):
            if var in reading.loops:
                self.new[var] = self._loop(reading.loops[var], value, var.name)
            elif var in reading.taken:
                self.new[var] = self._call(value, reading.taken[var], var.name)
            else:
                value = substitute(value, self.new)
                if isinstance(value, Call | TupleGetItem):
                    value = replace(value, ty=None)  # that of a part may be another
                is_name = isinstance(value, Var | Constant)
                self.new[var] = value if is_name else self.builder.emit(value, var.name)

    def taken_as(self, expr: Expr, wanted: Kind) -> Expr:
        """What stands for an expression, of which a part may be wanted."""
        kind = self.reading.kind(expr)
        if kind != wanted:
            if isinstance(wanted, tuple):
                return Tuple(tuple(map(self.taken_as, self._fields(expr, wanted), wanted)))
            if isinstance(wanted, Along | Numbered) and kind is WHOLE:
                return self._part(expr, wanted)
        return substitute(expr, self.new)

    def _fields(self, expr: Expr, wanted: Sequence[Kind]) -> Sequence[Expr]:
        """The fields of a tuple, as variables of the whole program."""
        if isinstance(expr, Tuple):
            return expr.fields
        fields = []
        for at in range(len(wanted)):
            field = TupleGetItem(expr, at)
            var = Var(f"{_name(expr)}_field", field.ty)
            kind = self.reading.kind(expr)
            self.reading.kinds[var] = kind[at] if isinstance(kind, tuple) else kind
            self.new[var] = self.builder.emit(replace(substitute(field, self.new), ty=None))
            fields.append(var)
        return fields

    def _part(self, expr: Expr, kind: Along | Numbered) -> Expr:
        """The part of a value that is the same for all parts, or known before the loop."""
        if (expr, kind) not in self._parts:
            value = self.reading.values.get(expr) if isinstance(expr, Var) else None
            part = self._made_small(value, kind)
            if part is None:
                assert isinstance(kind, Along)
                part = self.sliced(substitute(expr, self.new), kind)
            self._parts[expr, kind] = self.builder.emit(part, _name(expr))
        return self._parts[expr, kind]

    def _made_small(self, value: Expr | None, kind: Along | Numbered) -> Expr | None:
        """A part of what repeats something along the samples, or numbers them, by itself.

        What is known before the loop may repeat a value of which there are parts in the loop.
        """
        if not isinstance(value, Call) or any(map(self.reading.reads_parts, free_vars(value))):
            return None
        name = operator_name(value)
        if name == "lax.broadcast_in_dim":
            axes, sizes = list(value.attrs["broadcast_dimensions"]), dims_of(value.args[0])
            if kind.axis in axes and sizes[axes.index(kind.axis)] != 1:
                return None
        elif name != "lax.iota" or (
            isinstance(kind, Along) and kind.axis == value.attrs["dimension"]
        ):
            return None
        args = [substitute(arg, self.new) for arg in value.args]
        shape = list(self.reading.batch.part_of(value.attrs["shape"], kind))
        return Call(value.op, args, {**value.attrs, "shape": shape})

    def sliced(self, whole: Expr, kind: Along) -> Expr:
        """The numbers of this part."""
        dims, batch = dims_of(whole), self.reading.batch
        axis, part = kind.axis, batch.part_of(dims, kind)
        if kind.outer > 1:
            inner = dims[axis] // (kind.outer * batch.size)
            apart = (*dims[:axis], kind.outer, batch.size, inner, *dims[axis + 1 :])
            own = self.sliced(self.builder.emit(reshaped(whole, apart)), Along(axis + 1))
            return reshaped(self.builder.emit(own), part)
        first = get_op("lax.mul")(self.number, const(part[axis], "int32"))
        starts: list[Expr] = [const(0, "int32")] * len(dims)
        starts[axis] = self.builder.emit(first, "first")
        return get_op("lax.dynamic_slice")(whole, *starts, slice_sizes=list(part))

    def _call(self, call: Expr, taken: Taken, name: str) -> Var:
        assert isinstance(call, Call)
        if operator_name(call) == "relax.grad.delay" and taken.args[1] is AFTER:
            return self.builder.emit(substitute(call.args[0], self.new), name)
        args = map(self.taken_as, call.args, taken.args)
        attrs = {**call.attrs, **taken.attrs}
        return self.builder.emit(Call(call.op, args, attrs, call.ty_args), name)

    def _loop(self, loop: Loop, call: Expr, name: str) -> Var:
        assert isinstance(call, Call)
        kinds = (*loop.consts, *loop.carries, *loop.stacks)
        args = [*map(self.taken_as, call.args[1:], kinds)]
        step = self.builder.emit(self._step(loop), _name(call.args[0]))
        return self.builder.emit(Call(call.op, [step, *args], call.attrs), name)

    def _step(self, loop: Loop) -> Function:
        step, reading = loop.step, loop.reading
        params = [Var(p.name, self._part_type(p.ty, reading.kind(p))) for p in step.params]
        new = {**self.new, **dict(zip(step.params, params, strict=True))}
        with self.builder.scope():
            own = PartWriter(self.builder, reading, self.number, new)
            for binding in step.body.bindings():
                own.write(binding)
            body = self.builder.sequence(own.taken_as(step.body.body, (*loop.carries, *loop.rows)))
        return make_function(params, body, ret_ty=body.ty)

    def _part_type(self, ty: Type | None, kind: Kind) -> Type:
        """The type of a part of a value."""
        assert ty is not None
        if isinstance(ty, TupleType):
            kinds = kind if isinstance(kind, tuple) else (kind,) * len(ty.fields)
            return TupleType(tuple(map(self._part_type, ty.fields, kinds)))
        if isinstance(ty, TensorType) and isinstance(kind, Along):
            dims = [dim for dim in ty.dims or () if isinstance(dim, int)]
            return replace(ty, shape=self.reading.batch.part_of(dims, kind))
        return ty


def _name(expr: Expr) -> str:
    return expr.name if isinstance(expr, Var) else "part"
