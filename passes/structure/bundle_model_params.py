"""The parameters of a model as one tuple."""

from relaxjax.ir.expr import TupleGetItem, Var
from relaxjax.ir.function import Function, VarBinding
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.renew import with_vars
from relaxjax.ir.types import ObjectType, TupleType
from relaxjax.ir.walk import nested_bindings, substitute
from relaxjax.passes.infrastructure.base import pass_factory

from .normalize import normal_function


@pass_factory(opt_level=1)
def BundleModelParams(mod: IRModule, param_tuple_name: str | None = None) -> IRModule:
    """Gather the parameters behind the inputs of a model into one tuple.

    A function tells how many inputs come first by its attribute `num_input`; one without it stays.
    Where there are no others the tuple is empty: a caller may always hand one over.

    Args:
        param_tuple_name: the name of the tuple, `model_params` by default.
    """
    name = param_tuple_name or "model_params"
    types = {var.name: var.ty for var in mod.functions}
    changed = {}
    for function_name, function in mod.relax_functions().items():
        if "num_input" in function.attrs and not _is_bundled(function):
            changed[function_name] = normal_function(_bundled(function, name), types)
            changed[function_name] = _named(changed[function_name], function)
    return mod.with_functions(changed)


def _is_bundled(function: Function) -> bool:
    weights = function.params[int(function.attrs["num_input"]) :]
    return len(weights) == 1 and isinstance(weights[0].ty, TupleType)


def _bundled(function: Function, name: str) -> Function:
    count = int(function.attrs["num_input"])
    inputs, weights = function.params[:count], function.params[count:]
    bundle = Var(name, TupleType(tuple(weight.ty or ObjectType() for weight in weights)))
    fields = {weight: TupleGetItem(bundle, index) for index, weight in enumerate(weights)}
    body = substitute(function.body, fields)
    return replace(function, params=(*inputs, bundle), body=body)


def _named(function: Function, old: Function) -> Function:
    """The function with the old names of its weights for the fields that it takes of the tuple."""
    bundle = function.params[-1]
    weights = old.params[len(function.params) - 1 :]
    named: dict[Var, Var] = {}
    for binding in nested_bindings(function):
        value = binding.value
        if (
            isinstance(binding, VarBinding)
            and isinstance(value, TupleGetItem)
            and value.tuple_value is bundle
        ):
            kind, weight = type(binding.var), weights[value.index]
            named[binding.var] = kind(weight.name, weight.ty, span=weight.span)
    return with_vars(function, named)
