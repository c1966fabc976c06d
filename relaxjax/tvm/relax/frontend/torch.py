"""Models of PyTorch by the name that TVM has for their import."""

from typing import Any

from relaxjax.ir.builder import make_function
from relaxjax.ir.expr import Constant, Tuple
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.passes import BindParams
from relaxjax.torch import ImportedModel, from_torch
from relaxjax.torch.model import predicting
from relaxjax.trainable.names import BACKBONE
from relaxjax.tvm.scope import OutOfScopeNameError

from .parameters import PARAMS


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Any = None,
    run_ep_decomposition: bool = True,
) -> IRModule:
    """What a model of PyTorch predicts, as a module with a function `main`.

    It returns a tuple. `relaxjax.from_torch` gives the model to train.

    Args:
        exported_program: what `torch.export.export` gave, or the path of a `.pt2` file.
        keep_params_as_input: the weights are parameters, whose arrays `detach_params` gives, rather
            than constants.
        unwrap_unit_return_tuple: a single result is returned by itself.
        no_bind_return_tuple: the tuple is bound to no variable here, whatever this says.
        custom_convert_map: operators of ATen have one meaning: an error where it is given.
        run_ep_decomposition: the program is read as it was exported, whatever this says.
    """
    if custom_convert_map:
        raise OutOfScopeNameError(
            "`custom_convert_map` has no place in relaxjax: what is not known of ATen is one error "
            "that lists it; give `torch.export` a model that is written without"
        )
    model = from_torch(exported_program)
    predicted = predicting(model.mod)
    function = predicted[BACKBONE]
    result = function.body.body
    if not isinstance(result, Tuple) and not unwrap_unit_return_tuple:
        result = Tuple((result,))
    body = SeqExpr(function.body.blocks, result)
    main = make_function(function.params, body, pure=function.pure)
    others = predicted.without_functions(BACKBONE)
    return _with_weights(model, others, main, keep_params_as_input)


def _with_weights(model: ImportedModel, others: IRModule, main: Function, keep: bool) -> IRModule:
    """A module of that function, whose weights are parameters behind the inputs, or constants."""
    weights = {**model.params, **model.states}
    inputs = sum(param.name not in weights for param in main.params)
    main = main.with_attr("global_symbol", "main").with_attr("num_input", inputs)
    if not keep:
        return BindParams("main", weights)(others.with_function("main", main))
    arrays = [Constant(weights[param.name]) for param in main.params[inputs:]]
    return others.with_function("main", main.with_attr(PARAMS, arrays))
