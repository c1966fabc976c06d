"""A program that takes its batch in equal parts, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Expr, GlobalVar, Tuple, TupleGetItem, Var, const
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.inline import inline_functions, recursive
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.renew import renew
from relaxjax.ir.span import excerpt_of
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.tuples import Path, tensors_in
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import free_vars, substitute
from relaxjax.ops.emit import reshaped
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.operators.reduce_by_slices import reduced_by_slices
from relaxjax.passes.simplification.apply_laws import rewritten
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from ..program.step import size_of
from .choosing import batches
from .kinds import AFTER, TOTAL, Along, Batch, Kind, MixedError, dims_of, has
from .own_rows import OWN_ROWS
from .reading import Reading, without_delay
from .same_decisions import check_same_decisions
from .whole_sums import with_whole_sums
from .writing import PartWriter

# What is computed before the loop and in it again takes less than such a part of all bytes.
_AGAIN = 2
# A sum over the parts would be rounded at each of them.
_HALF = frozenset({"float16", "bfloat16"})


@pass_factory(opt_level=0)
def SplitBatch(
    mod: IRModule,
    func_name: str | GlobalVar,
    parts: int = 2,
    axes: Mapping[str, int] | None = None,
) -> IRModule:
    """Take a batch in equal parts, one after the other, and sum up what is a sum over its samples.

    What is alive at once is that of one part, and the sums. Nothing is computed again: a gradient
    of parameters is a sum over the samples, and so is a loss that is a mean. What has samples, such
    as the gradient of the data, is put together of its parts.

    So are the rows of a product that is larger than they are, such as the gradient of a wide layer
    by few samples: it comes afterwards, at once. By parts of one sample it is added up with no room
    of its own.

    That is so where each value is of one sample, or a sum over all of them of which no value of a
    sample is computed. What samples need of all, such as how many words count, is computed before
    if that takes few bytes, and if no sample is compared with it: rounded otherwise in a part, the
    largest would be none of them. Anything else is an error, which names the value: a batch norm
    takes the mean of a batch, and a contrastive loss compares its samples.

    Where samples are is followed through the program, reshapes and loops included. The function is
    to be legalised, and its sizes are numbers. Sums are rounded in another order, and those of half
    precision are of float32. What is infinite or NaN of the whole batch is one of the two in parts
    as well, but may be the other.

    Args:
        func_name: the function, such as an adjoint that Gradient has written.
        parts: how many parts there are. The number of samples is to be a multiple.
        axes: the axis of the batch for the names of the parameters that have one. By default these
            are what has the same first axis, or second one, and no gradient: the last of them, if
            they can be split.
    """
    name = name_of(func_name)
    function = function_of(mod, name)
    _check_sizes(function)
    wanted = [_named(function, name, axes)] if axes is not None else list(batches(function))
    _check_parts(name, parts, wanted)
    mixed: MixedError | None = None
    for found in wanted:
        try:
            return mod.with_function(name, in_equal_parts(mod, function, parts, found))
        except MixedError as error:
            mixed = error if mixed is None else mixed
    assert mixed is not None
    assert mixed.binding is not None
    raise ValueError(_refusal(name, mixed.binding))


def in_equal_parts(
    mod: IRModule, function: Function, parts: int, axes: Mapping[Var, int], again: bool = False
) -> Function:
    """The function with a loop over so many parts. A MixedError says what is not of one sample.

    Private functions of the module are a part of it. Sums that were written by slices are again.
    What samples need of all may be much that is computed before the loop, and `again` in it.
    """
    written = _split(mod, function, parts, axes, again).function()
    renewed = remove_all_unused(canonical_bindings(renew(written, visible=True)[0]))
    return reduced_by_slices(renewed)


def is_apart(
    mod: IRModule, function: Function, parts: int, axes: Mapping[Var, int], again: bool = False
) -> bool:
    """Whether samples are not mixed, without writing a loop: that is so of any number of parts."""
    try:
        _split(mod, function, parts, axes, again)
    except MixedError:
        return False
    return True


def _split(
    mod: IRModule, function: Function, parts: int, axes: Mapping[Var, int], again: bool
) -> "_Split":
    batch = Batch(batch_size(axes), parts)
    private = {name: f for name, f in mod.relax_functions().items() if f.global_symbol is None}
    for name in recursive(private):
        del private[name]
    plain = with_whole_sums(canonical_bindings(inline_functions(function, private)))
    plain = rewritten(plain, OWN_ROWS)
    bindings = [*plain.body.bindings()]
    room = sum(size_of(binding.var) for binding in bindings) // _AGAIN if again else 0
    reading = Reading(batch, {param: Along(axis) for param, axis in axes.items()}, room=room)
    reading.read(bindings)
    check_same_decisions(reading, bindings, plain.params)
    split = _Split(plain, reading, list(axes))
    for one in split.rows:  # what has no samples is not computed in the loop alone
        if not isinstance(one.kind, Along):
            raise split.mixed(one.var)
    return split


def batch_size(axes: Mapping[Var, int]) -> int:
    """How many samples there are along the axes of some parameters."""
    sizes = {dims_of(param)[axis] for param, axis in axes.items()}
    (size,) = sizes
    return size


def _check_sizes(function: Function) -> None:
    for param in function.params:
        for _, ty in tensors_in(param.ty):
            if static_dims(ty) is None:
                raise ValueError(
                    f"SplitBatch: the sizes of `{param.name}` are to be numbers, but its type is "
                    f"{param.ty}: BindSymbolicVars gives them"
                )


def _named(function: Function, name: str, axes: Mapping[str, int]) -> dict[Var, int]:
    """The axes of some parameters, which have as many samples."""
    params = {param.name: param for param in function.params}
    found: dict[Var, int] = {}
    sizes: dict[str, int] = {}
    for key, axis in axes.items():
        if key not in params:
            hint = did_you_mean(key, list(params))
            raise ValueError(f"SplitBatch: `{name}` has no parameter `{key}`{hint}")
        dims = static_dims(params[key].ty) or ()
        if not -len(dims) <= axis < len(dims):
            raise ValueError(f"SplitBatch: `{key}` of type {params[key].ty} has no axis {axis}")
        found[params[key]] = axis % len(dims)
        sizes[key] = dims[axis]
    if len(set(sizes.values())) != 1:
        told = ", ".join(f"{size} of `{key}`" for key, size in sizes.items()) if sizes else "none"
        raise ValueError(
            f"SplitBatch: parameters with a batch have the same number of samples, found {told}"
        )
    return found


def _check_parts(name: str, parts: int, wanted: list[dict[Var, int]]) -> None:
    """Raise for a number of parts, and drop what cannot be split into so many."""
    if parts < 1:
        raise ValueError(f"SplitBatch: `parts` is to be a positive number, found {parts!r}")
    sizes = [batch_size(axes) for axes in wanted]
    if all(size % parts for size in sizes):
        told = " or ".join(map(str, dict.fromkeys(sizes))) if sizes else "no"
        raise ValueError(
            f"SplitBatch: `{name}` has {told} samples, which are not {parts} equal parts: give "
            "another number, or `axes`, which say what the batch is"
        )
    wanted[:] = [axes for axes, size in zip(wanted, sizes, strict=True) if size % parts == 0]


def _refusal(name: str, binding: Binding) -> str:
    return (
        f"SplitBatch: the batch of `{name}` cannot be taken in parts, because "
        f"`{binding.var.name}` is computed of several samples at once, or of a sum over them: only "
        "what is of one sample, or a sum that no sample needs, can be computed so"
        f"{excerpt_of(binding.span)}"
    )


@dataclass(frozen=True)
class _Tensor:
    """A tensor that is computed in the loop and needed after it, in a variable or a tuple."""

    var: Var
    way: Path
    kind: Kind
    ty: TensorType

    @property
    def dtype(self) -> str:
        """The dtype of a sum over the parts."""
        assert self.ty.dtype is not None
        return "float32" if self.ty.dtype in _HALF else self.ty.dtype


class _Split:
    """A function with a loop over the parts of its batch."""

    def __init__(self, function: Function, reading: Reading, data: Sequence[Var]) -> None:
        self.old, self.reading, self.data = function, reading, data
        self.builder = BlockBuilder()
        self.before, self.inside, self.after = self._parted()

    def _parted(self) -> tuple[list[Binding], list[Binding], list[Binding]]:
        """What is computed before the loop, in it, and after it."""
        before: list[Binding] = []
        inside: list[Binding] = []
        after: list[Binding] = []
        turned = self._turned()
        for binding in self.old.body.bindings():
            var, value = binding.var, binding.value
            if var in self.reading.early:
                before.append(replace(binding, value=without_delay(value)))
            elif var not in self.reading.inside:
                (inside if var in turned else before).append(binding)
            if var in self.reading.inside:
                if not has(self.reading.kind(var), AFTER):
                    inside.append(binding)
                elif var not in self.reading.early:
                    after.append(binding)
        late = self._turned_late(inside)
        is_late = {binding.var for binding in late}
        return before, [b for b in inside if b.var not in is_late], [*late, *after]

    def _turned_late(self, inside: Sequence[Binding]) -> list[Binding]:
        """Rows across that nothing in the loop reads: products read rows so as they are stored."""
        read = set(free_vars(self.old.body.body)).union(*(free_vars(b.value) for b in inside))
        read |= self.reading.early
        turned = (b for b in inside if operator_name(b.value) == "lax.transpose")
        return [
            b for b in turned if isinstance(self.reading.kind(b.var), Along) and b.var not in read
        ]

    def _turned(self) -> set[Var]:
        """Matrices across that products of the loop alone read, which XLA does as they are.

        What a loop is given is stored.
        """
        turned: set[Var] = set()
        for binding in self.old.body.bindings():
            var, name = binding.var, operator_name(binding.value)
            if name != "lax.dot_general" or not self._is_in_loop_alone(var):
                turned.difference_update(free_vars(binding.value))
            if name == "lax.transpose":
                turned.add(var)
        return turned.difference(free_vars(self.old.body.body))

    def _is_in_loop_alone(self, var: Var) -> bool:
        reading = self.reading
        is_early, is_inside = var in reading.early, var in reading.inside
        return is_inside and not is_early and not has(reading.kind(var), AFTER)

    @cached_property
    def needed(self) -> list[Var]:
        """What is computed in the loop alone, and needed after it."""
        inside = {binding.var for binding in self.inside} - self.reading.early
        needed = [var for binding in self.after for var in free_vars(binding.value)]
        needed += free_vars(self.old.body.body)
        return [var for var in dict.fromkeys(needed) if var in inside]

    @cached_property
    def found(self) -> list[_Tensor]:
        return [
            _Tensor(var, way, _at(self.reading.kind(var), way), ty)
            for var in self.needed
            for way, ty in tensors_in(var.ty)
        ]

    @property
    def sums(self) -> list[_Tensor]:
        return [one for one in self.found if one.kind is TOTAL]

    @property
    def rows(self) -> list[_Tensor]:
        """What has samples."""
        return [one for one in self.found if one.kind is not TOTAL]

    def mixed(self, var: Var) -> MixedError:
        return MixedError(next(b for b in self.inside if b.var is var))

    def function(self) -> Function:
        with self.builder.scope(taken=[param.name for param in self.old.params]):
            for binding in self.before:
                self.builder.emit_binding(binding)
            new = self._whole(self._loop())
            for binding in self.after:
                self.builder.emit_binding(replace(binding, value=substitute(binding.value, new)))
            body = self.builder.sequence(substitute(self.old.body.body, new))
        return replace(self.old, body=body)

    def _loop(self) -> Var:
        """The loop, which gives the sums, and stacks of what has samples."""
        builder, count = self.builder, self.reading.batch.parts
        starts = []
        for one in self.sums:
            zeros = get_op("lax.broadcast_in_dim")(
                const(0, one.dtype), shape=list(one.ty.dims or ()), broadcast_dimensions=[]
            )
            starts.append(builder.emit(zeros, f"{one.var.name}_start"))
        iota = get_op("lax.iota")(dtype="int32", shape=[count], dimension=0)
        numbers = builder.emit(iota, "numbers")
        step = builder.emit(self._step(), "part")
        loop = get_op("relax.scan")(step, Tuple(tuple(starts)), Tuple((numbers,)), length=count)
        return builder.emit(loop, "parts")

    def _step(self) -> Function:
        """What is computed of one part, whose number it is given, and the sums up to it."""
        builder, sums = self.builder, self.sums
        types = (replace(one.ty, dtype=one.dtype) for one in sums)
        carry = Var("sums", TupleType(tuple(types)))
        given = Var("given", TupleType((TensorType((), "int32"),)))
        new: dict[_Tensor, Expr] = {}
        with builder.scope():
            number = builder.emit(TupleGetItem(given, 0), "number")
            writer = PartWriter(builder, self.reading, number, {})
            for param in self.data:
                kind = self.reading.kind(param)
                assert isinstance(kind, Along)
                writer.new[param] = builder.emit(writer.sliced(param, kind), f"{param.name}_part")
            for binding in self.inside:
                writer.write(binding)
                for at, one in enumerate(sums):  # at once, so that its part need not be kept
                    if one.var is binding.var:
                        new[one] = self._added(one, self._field(writer, one), carry, at)
            ends = Tuple(tuple(new[one] for one in sums))
            parts = Tuple(tuple(self._field(writer, one) for one in self.rows))
            body = builder.sequence(Tuple((ends, parts)))
        return make_function((carry, given), body, ret_ty=body.ty)

    def _field(self, writer: PartWriter, one: _Tensor) -> Expr:
        value = writer.new[one.var]
        for index in one.way:
            value = self.builder.emit(TupleGetItem(value, index))
        return value

    def _added(self, one: _Tensor, part: Expr, sums: Var, at: int) -> Var:
        if one.dtype != one.ty.dtype:
            part = self.builder.emit(get_op("lax.convert_element_type")(part, new_dtype=one.dtype))
        before = self.builder.emit(TupleGetItem(sums, at))
        return self.builder.emit(get_op("lax.add")(before, part), f"{one.var.name}_sum")

    def _whole(self, loop: Var) -> dict[Var, Expr]:
        """What stands for the variables that are computed in the loop, after it."""
        builder = self.builder
        totals = builder.emit(TupleGetItem(loop, 0), "totals")
        stacks = builder.emit(TupleGetItem(loop, 1), "stacks")
        whole: dict[tuple[Var, Path], Expr] = {}
        for at, one in enumerate(self.sums):
            value: Expr = TupleGetItem(totals, at)
            if one.dtype != one.ty.dtype:
                wide = builder.emit(value)
                value = get_op("lax.convert_element_type")(wide, new_dtype=one.ty.dtype)
            whole[one.var, one.way] = builder.emit(value, one.var.name)
        for at, one in enumerate(self.rows):
            stack = builder.emit(TupleGetItem(stacks, at), f"{one.var.name}_parts")
            whole[one.var, one.way] = builder.emit(self._joined(stack, one), one.var.name)

        def built(var: Var, ty: Type | None, way: Path) -> Expr:
            if isinstance(ty, TupleType):
                fields = (built(var, field, (*way, at)) for at, field in enumerate(ty.fields))
                return Tuple(tuple(fields))
            if (var, way) not in whole:  # no tensor
                raise self.mixed(var)
            return whole[var, way]

        return {var: built(var, var.ty, ()) for var in self.needed}

    def _joined(self, stack: Var, one: _Tensor) -> Expr:
        """The parts of a value as one."""
        kind, parts = one.kind, self.reading.batch.parts
        assert isinstance(kind, Along)
        dims = [dim for dim in one.ty.dims or () if isinstance(dim, int)]
        axis, outer = kind.axis, kind.outer
        if axis == 0 and outer == 1:
            return reshaped(stack, dims)
        apart = (parts, *dims[:axis], outer, dims[axis] // outer // parts, *dims[axis + 1 :])
        order = [*range(1, axis + 2), 0, *range(axis + 2, len(apart))]
        builder = self.builder
        moved = get_op("lax.transpose")(builder.emit(reshaped(stack, apart)), permutation=order)
        return reshaped(builder.emit(moved), dims)


def _at(kind: Kind, way: Path) -> Kind:
    """The kind of a part of a tuple; all parts are of one kind where that is one."""
    for index in way:
        kind = kind[index] if isinstance(kind, tuple) else kind
    return kind
