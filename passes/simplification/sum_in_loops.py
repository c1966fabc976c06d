"""Sums over axes, moved into the loops that add up what is summed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, Tuple, Var, const
from relaxjax.ir.function import Binding, DataflowBlock, Function, If, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.span import located
from relaxjax.ir.tensor_types import known_dtype, static_dims
from relaxjax.ir.types import same_type
from relaxjax.ir.walk import all_vars, names_of_vars, nested_bindings, substitute
from relaxjax.ops.control_call import LOOPS, ControlCall
from relaxjax.passes.infrastructure.base import pass_factory

from .canonicalize_bindings import canonical_bindings
from .moved_sums import Axes, Field, MovedSums, Summed
from .tensors import fill


@pass_factory(opt_level=0, kind="function")
def SumInLoops(function: Function, mod: IRModule) -> Function:
    """Move sums over axes into the loops that add up what is summed.

    A function with a rule of its own for its derivative (`jax.custom_vjp`), mapped over a batch,
    gives a gradient of its weights for each sample, and their sum comes last. Where the rule is a
    loop, as of a solver of differential equations, its carry holds all of these gradients, and each
    step reads and writes them. With the sum inside of the loop, the carry is as large as the
    weights.

    Sums move through choices of a branch and loops inside of loops, in float32 and float64. They
    stay where anything else reads what is added up.
    """
    if all(operator_name(one.value) not in LOOPS for one in nested_bindings(function)):
        return function
    moved = MovedSums(function)
    summed: dict[Summed, Axes] = {}
    for field, axes in moved.sums():
        with_it = moved.with_field(field, axes) if field not in summed else ()
        if all(summed.get(one, axes) == axes for one in with_it):
            summed |= dict.fromkeys(with_it, axes)
    if not summed:
        return function
    return remove_all_unused(canonical_bindings(_Rewritten(moved, summed).function(function)))


class _Rewritten:
    """A function in which some values are sums over axes of what they were."""

    def __init__(self, moved: MovedSums, summed: Mapping[Summed, Axes]) -> None:
        self.moved, self.summed = moved, summed
        # Loops and choices that give sums, or are handed some.
        self.changed = {one.of for one in summed if isinstance(one, Field)}
        self.changed |= {call for param, (call, _) in moved.sources.items() if param in summed}
        self.builder = BlockBuilder()
        self.new: dict[Var, Var] = {}

    def function(self, function: Function) -> Function:
        with self.builder.scope(taken=names_of_vars(function)):
            return replace(function, body=self._sequence(function.body))

    def _sequence(self, seq: SeqExpr, owner: Var | None = None) -> SeqExpr:
        """A sequence, which may be the body of a function that a loop or a choice owns."""
        if owner is None and not any(
            var in self.summed or var in self.changed for var in all_vars(seq)
        ):
            return seq
        with self.builder.scope():
            for block in seq.blocks:
                dataflow = isinstance(block, DataflowBlock)
                with self.builder.dataflow(block.span) if dataflow else nullcontext():
                    for binding in block.bindings:
                        origin = self.builder.origin(binding.span, binding.derived_from)
                        with located(binding.span), origin:
                            self._binding(binding)
            result = seq.body
            if owner is not None and isinstance(result, Tuple):
                result = Tuple(tuple(self._fields(owner, result.fields)))
            done = self.builder.sequence(substitute(result, self.new))
        return replace(done, span=seq.span)

    def _binding(self, binding: Binding) -> None:
        var, value = binding.var, binding.value
        match value:
            case Function():
                self._bind(binding, self._function(value, self.moved.owners.get(var)))
            case If(true_branch=true, false_branch=false):
                new = [self._sequence(branch) for branch in (true, false)]
                cond = substitute(value.cond, self.new)
                self._bind(binding, If(cond, *new, ty=value.ty, span=value.span))
            case Call() if var in self.changed:
                self._bind(binding, self._control(self.moved.controls[var]))
            case Call(args=args) if var in self.summed:
                sums = tuple(self._sum(arg, self.summed[var]) for arg in args)
                self._bind(binding, replace(value, args=sums, ty=None))
            case Call(args=(Var() as arg,)) if arg in self.summed:  # what reads the sum
                self._bind(binding, self.new[arg])
            case _:
                self._bind(binding, substitute(value, self.new))

    def _function(self, function: Function, owner: Var | None) -> Function:
        if owner not in self.changed:
            return replace(function, body=self._sequence(function.body))
        params = tuple(map(self._param, function.params))
        body = self._sequence(function.body, owner)
        return make_function(params, body, pure=function.pure, attrs=function.attrs)

    def _param(self, param: Var) -> Var:
        if param in self.summed:
            ty = self.builder.normalize(_sum_of(param, self.summed[param])).ty
            self.new[param] = type(param)(param.name, ty, span=param.span)
        return self.new.get(param, param)

    def _control(self, control: ControlCall) -> Call:
        """A loop or a choice that is handed sums."""
        call = control.call
        args = [substitute(arg, self.new) for arg in call.args]
        for index, arg in enumerate(control.handed):
            axes = self.summed.get(control.params(index)[0])
            if axes is not None:
                args[control.first + index] = self._sum(arg, axes)
        return replace(call, args=tuple(args), ty=None)

    def _fields(self, owner: Var, values: Sequence[Expr]) -> Iterator[Expr]:
        """The fields of what a function of a loop or a choice gives."""
        for index, value in enumerate(values):
            axes = self.summed.get(Field(owner, index))
            yield value if axes is None else self._sum(value, axes)

    def _sum(self, value: Expr, axes: Axes) -> Expr:
        """What stands for the sum of a value, where that is needed."""
        if isinstance(value, Var) and value in self.summed:
            return self.new[value]
        total = self.builder.normalize(_sum_of(substitute(value, self.new), axes))
        dims, dtype = static_dims(total.ty), known_dtype(total)
        if fill(value, self.moved.known) != 0 or dims is None or dtype is None:
            return total
        zero = const(0, dtype)
        return get_op("lax.broadcast_in_dim")(zero, shape=dims, broadcast_dimensions=[])

    def _bind(self, binding: Binding, value: Expr) -> None:
        """Emit a binding with another value; a variable of another type is another one."""
        if value is binding.value:
            self.builder.keep_binding(binding)
            return
        var, value = binding.var, self.builder.normalize(value)
        if not same_type(var.ty, value.ty):
            self.new[var] = type(var)(var.name, value.ty, span=var.span)
        self.builder.emit_binding(replace(binding, var=self.new.get(var, var), value=value))


def _sum_of(value: Expr, axes: Axes) -> Expr:
    return get_op("lax.reduce_sum")(value, axes=axes)
