"""Data of convolutions that the gradients of kernels read in another order: turned late."""

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Binding
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.uses import Uses
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.differentiation.gradient import function_of

from ..program.step import size_of

_SMALL = 2**16  # bytes, of which fewer are left as they are
_EARLY = 20  # by how many bindings data is there before the gradient, at least


def with_turned_data(mod: IRModule, name: str) -> IRModule:
    """The module with data that the gradients of kernels read no sooner than these are due.

    The gradient of a kernel is a convolution that takes channels for images. XLA's compiler for
    CPUs copies the data into that order as soon as it is there, and keeps the copy beside the data
    until the backward part. For other platforms the module stays as it is. The function is to be
    legalised, and not to follow a plan, which says itself when each value is due.
    """
    function = function_of(mod, name)
    if chosen_platform() != "cpu":
        return mod
    known = Uses.of(function)
    place = {binding.var: i for i, binding in enumerate(function.body.bindings())}

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        turned = turned_by(binding)
        if turned is None:
            return None
        call, data, gradient = turned
        early = place.get(gradient, 0) - place.get(data, 0)  # parameters are there first
        if early < _EARLY or _is_of_windows(data, known):
            return None
        late = builder.emit(get_op("relax.grad.delay")(data, gradient), f"{data.name}_late")
        return Call(call.op, [late, gradient], call.attrs)

    changed = expand_bindings(function, rule)
    return mod if changed is function else mod.with_function(name, changed)


def turned_by(binding: Binding) -> tuple[Call, Var, Var] | None:
    """The gradient of a kernel, its data, if that is large, and the gradient of its result.

    It is a convolution that takes another axis of the data for the images.
    """
    call = binding.value
    if not isinstance(call, Call) or call.op is not get_op("lax.conv_general_dilated"):
        return None
    data, gradient = call.args
    if not (isinstance(data, Var) and isinstance(gradient, Var)) or size_of(data) < _SMALL:
        return None
    numbers = call.attrs["dimension_numbers"]["ConvDimensionNumbers"]
    return (call, data, gradient) if numbers["lhs_spec"][0] != 0 else None


def _is_of_windows(data: Var, known: Uses) -> bool:
    """Whether it is several views of a tensor side by side, which would have to be kept, too."""
    value = known.call(data)
    while value is not None and operator_name(value) == "lax.reshape":
        value = known.call(value.args[0])
    return value is not None and (
        operator_name(value) == "lax.concatenate" or _is_chosen_by_place(value, known)
    )


def _is_chosen_by_place(call: Call, known: Uses) -> bool:
    """Whether each number is chosen from several tensors by its place, as by JoinByChoice."""
    if operator_name(call) != "lax.select_n":
        return False
    number = known.call(call.args[0], "lax.broadcast_in_dim")
    return number is not None and known.call(number.args[0], "lax.iota") is not None
