"""A model as the passes after this one take it: its outputs written out, its arguments counted."""

from relaxjax.ir.builder import Names
from relaxjax.ir.check import well_formed
from relaxjax.ir.expr import Tuple, TupleGetItem, Var
from relaxjax.ir.function import BindingBlock, Function, SeqExpr, VarBinding
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import all_vars
from relaxjax.ir.wording import quoted
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.trainable.names import BACKBONE, INPUT_NUM, PARAM_NUM, STATE_NUM


@pass_factory(opt_level=0)
def PrepareBackbone(mod: IRModule, keep_tuple: bool = False) -> IRModule:
    """Count the inputs of `backbone`, and write out the tuple that it returns by one variable.

    The module states its numbers of parameters and model states as the attributes `param_num` and
    `state_num`; the backbone takes inputs, parameters and states, in this order, and returns its
    outputs and then its new states. A module that says otherwise is an error. What is found is the
    attribute `input_num`. With `keep_tuple`, the variable stays: a loss takes the tuple as it is.
    """
    if not keep_tuple and isinstance(mod.relax_functions().get(BACKBONE), Function):
        mod = mod.with_function(BACKBONE, with_written_outputs(mod[BACKBONE]))
    well_formed(mod)
    if BACKBONE not in mod:
        there = quoted(mod.relax_functions())
        raise ValueError(
            f"SetupTrainer: the module has no function `{BACKBONE}`, but {there or 'none'}. Name "
            'the model so: IRModule({"backbone": model.with_attr("global_symbol", "backbone")})'
        )
    params, states = _stated(mod, PARAM_NUM), _stated(mod, STATE_NUM)
    given = len(mod[BACKBONE].params)
    if given < params + states:
        raise ValueError(
            f"SetupTrainer: `{BACKBONE}` has {given} parameters, fewer than `{PARAM_NUM}` + "
            f"`{STATE_NUM}` = {params} + {states}"
        )
    if states:
        _check_new_states(mod[BACKBONE], states)
    return mod.with_attr(INPUT_NUM, given - params - states)


def _check_new_states(backbone: Function, states: int) -> None:
    """Raise where the last results are none that the states can become."""
    result = backbone.body.body
    outputs = len(result.fields) if isinstance(result, Tuple) else 1
    if outputs <= states:
        raise ValueError(
            f"SetupTrainer: with `{STATE_NUM}` = {states}, `{BACKBONE}` must return a tuple of "
            f"its outputs and then its {states} new states, but it returns {outputs} value(s)"
        )
    assert isinstance(result, Tuple)
    for state, new in zip(backbone.params[-states:], result.fields[-states:], strict=True):
        if fits(new.ty, state.ty) is Fit.NEVER:
            raise ValueError(
                f"SetupTrainer: the state `{state.name}` is of type {state.ty}, but "
                f"`{BACKBONE}` returns `{new}` in its place, which is of type {new.ty}"
            )


def _stated(mod: IRModule, name: str) -> int:
    count = mod.attrs.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(
            f"SetupTrainer: the module must state `{name}` as an attribute: write "
            f'I.module_attrs({{"{name}": …}}); found {count!r}'
        )
    return count


def with_written_outputs(function: Function) -> Function:
    """`function` with a tuple instead of a variable that holds one, its fields bound last."""
    result = function.body.body
    if not (isinstance(result, Var) and isinstance(result.ty, TupleType)):
        return function
    names = Names([var.name for var in all_vars(function)])
    fields = tuple(Var(names.unique(result.name), ty, span=result.span) for ty in result.ty.fields)
    bindings = tuple(
        VarBinding(field, TupleGetItem(result, index), span=result.span)
        for index, field in enumerate(fields)
    )
    *blocks, last = function.body.blocks or (BindingBlock(()),)
    blocks.append(replace(last, bindings=(*last.bindings, *bindings)))
    return replace(function, body=SeqExpr(tuple(blocks), Tuple(fields), span=function.body.span))
