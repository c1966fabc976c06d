"""A model's whole training step with Adam as one function, which its memory is planned for."""

from collections.abc import Iterator
from functools import lru_cache

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TupleType, Type
from relaxjax.optim import Adam
from relaxjax.optim.base import BoundOptimizer
from relaxjax.passes import EliminateCommonSubexpr, LegalizeOps, UpdateInLoops
from relaxjax.passes.infrastructure.pause_gc import collector_paused
from relaxjax.passes.memory.planning.estimate import is_worth_a_plan
from relaxjax.passes.memory.program.caller import Caller
from relaxjax.passes.memory.rematerialize import AUTO, planned_by_itself, with_plan
from relaxjax.trainable.names import TRAIN_STEP

RATE = 1e-3
UPDATE = "update"
STEP = "step"


def adam(types: tuple[Type | None, ...]) -> BoundOptimizer:
    """For parameters of these types."""
    return Adam(RATE).init([Var(f"p{i}", ty) for i, ty in enumerate(types)])


@lru_cache(maxsize=1)
def adam_update(types: tuple[Type | None, ...]) -> Function:
    """`(params, gradients, state) -> (new params, new state)`.

    A plan and the step that follows it share it, as they do in SetupTrainer.
    """
    function = adam(types).get_function().with_attr("global_symbol", UPDATE)
    mod = EliminateCommonSubexpr()(LegalizeOps()(IRModule({UPDATE: function})))
    legalised = mod[UPDATE]
    assert isinstance(legalised, Function)
    return legalised


def planned(mod: IRModule, adjoint: str, params: int, policy: str) -> IRModule:
    """The module with its adjoint planned by a policy, for a step with Adam.

    "auto" is what SetupTrainer does where nobody asks for a plan.
    """
    function = mod[adjoint]
    assert isinstance(function, Function)
    if policy == AUTO and not is_worth_a_plan(function):
        return mod
    whole, caller = stepped(mod, adjoint, params)
    with collector_paused():  # as in a pass
        if policy == AUTO:
            smaller = planned_by_itself(whole, adjoint, caller)
        else:
            smaller = with_plan(whole, adjoint, policy=policy, caller=caller)
    return mod.with_functions({adjoint: smaller[adjoint]})


def stepped(mod: IRModule, adjoint: str, params: int) -> tuple[IRModule, Caller]:
    """The module with a step `(*params, *inputs, state)` by Adam, and what is known of that.

    The adjoint's first `params` parameters, tensors or tuples of them, are those to train.
    """
    function = mod[adjoint]
    assert isinstance(function, Function)
    given = [Var(param.name, param.ty) for param in function.params]
    leaves = [leaf for param in given[:params] for leaf in _leaves(param)]
    update = adam_update(tuple(leaf.ty for leaf in leaves))
    builder = BlockBuilder(mod.with_function(UPDATE, update))
    state = Var("state", update.params[2].ty)
    with builder.function(STEP, [*given, state]):
        with builder.dataflow():
            result = builder.emit(Call(mod.get_global_var(adjoint), tuple(given)))
            gradients = Tuple(tuple(_leaves(builder.emit(result[1]))))
            args = (Tuple(tuple(leaves)), gradients, state)
            new = builder.emit(Call(builder.get().get_global_var(UPDATE), args))
            outputs = [builder.emit_output(value) for value in (result[0], new[0], new[1])]
        builder.emit_func_output(outputs)
    places = tuple(range(params))
    return LegalizeOps()(builder.get()), Caller(STEP, (*places, len(given)), places)


def training(mod: IRModule, adjoint: str, params: int) -> IRModule:
    """The module with `train_step` by Adam, of the adjoint's first `params` parameters."""
    function = mod[adjoint]
    assert isinstance(function, Function)
    own, inputs = function.params[:params], [Var(p.name, p.ty) for p in function.params[params:]]
    given = Var("params", TupleType(tuple(p.ty for p in own if p.ty is not None)))
    update = adam_update(tuple(leaf.ty for leaf in _leaves(given)))
    builder = BlockBuilder(mod.with_function(UPDATE, update))
    state = Var("optim_states", update.params[2].ty)
    with builder.function(TRAIN_STEP, [given, Var("states", TupleType(())), state, *inputs]):
        with builder.dataflow():
            values = [builder.emit(TupleGetItem(given, i), p.name) for i, p in enumerate(own)]
            result = builder.emit(Call(mod.get_global_var(adjoint), (*values, *inputs)))
            gradients = Tuple(tuple(_leaves(builder.emit(result[1]))))
            args = (Tuple(tuple(_leaves(given))), gradients, state)
            new = builder.emit(Call(builder.get().get_global_var(UPDATE), args))
            leaves = iter(_leaves(builder.emit(new[0])))
            found = (result[0], _nested(given.ty, leaves), Tuple(()), new[1])
            outputs = [builder.emit_output(value) for value in found]
        builder.emit_func_output(outputs)
    return UpdateInLoops()(LegalizeOps()(builder.get()))


def _nested(ty: Type | None, leaves: Iterator[Expr]) -> Expr:
    """The next of some tensors, nested as a type says."""
    if not isinstance(ty, TupleType):
        return next(leaves)
    return Tuple(tuple(_nested(field, leaves) for field in ty.fields))


def _leaves(value: Expr) -> list[Expr]:
    """The tensors in nested tuples."""
    if not isinstance(value.ty, TupleType):
        return [value]
    return [leaf for i in range(len(value.ty.fields)) for leaf in _leaves(TupleGetItem(value, i))]
