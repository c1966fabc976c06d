"""What is computed of weights alone, once and outside of the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr, VarBinding
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.renew import hide_unused_outputs, renew
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import (
    definable_symbols,
    expr_symbols,
    free_vars,
    map_bindings,
    map_sequences,
    substitute,
    used_vars,
)
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=1)
def LiftTransformParams(mod: IRModule, shared_transform: bool | Sequence[str] = False) -> IRModule:
    """Move what is computed of the weights alone into a function that runs once.

    The weights of a function are the parameters behind its first `num_input` ones, as its attribute
    of this name says; one without it stays. `<name>_transform_params` takes them as a tuple and
    returns a tuple of what `<name>` takes in their place: the weights themselves where nothing is
    computed of them alone. A function that takes nothing but weights stays as it is.

    `R.builtin.stop_lift_params(w)` ends what is moved there, and is taken away. That the module has
    a function of the transformation's name already is an error, unless nothing is left to move.

    Args:
        shared_transform: True for one function `transform_params` that does what all functions
            with weights have in common, or the names of those for which it does.
    """
    models = [name for name, f in mod.relax_functions().items() if f.attrs.get("num_input")]
    if shared_transform is False:
        groups = {f"{name}_transform_params": [name] for name in models}
    else:
        chosen = models if shared_transform is True else list(shared_transform) or models
        groups = {"transform_params": chosen}
    for transform, names in groups.items():
        functions = {name: mod[name] for name in names}
        lifted = _lifted(transform, functions) if functions else {}
        if transform in mod and all(lifted[name] is mod[name] for name in functions):
            continue
        if transform in mod:
            raise ValueError(
                f"the weights would be transformed by a function `{transform}`, but the module has "
                "one: give that another name, and keep what it does of an earlier run"
            )
        mod = mod.with_functions(lifted)
    return mod


_STOP = "relax.builtin.stop_lift_params"


@dataclass(frozen=True)
class _Model:
    """A function with weights; `common` leads from its variables to those of the first one."""

    function: Function
    common: dict[Var, Var]

    @property
    def inputs(self) -> tuple[Var, ...]:
        return self.function.params[: int(self.function.attrs["num_input"])]

    @property
    def weights(self) -> tuple[Var, ...]:
        return self.function.params[len(self.inputs) :]


def _lifted(transform: str, functions: dict[str, Function]) -> dict[str, Function]:
    """The functions without what they have in common, and the one that does that."""
    values: dict[Expr, Var] = {}
    models: dict[str, _Model] = {}
    for name, function in functions.items():
        if not function.attrs.get("num_input"):
            raise ValueError(f"`{name}` has no attribute `num_input` that says which are weights")
        models[name] = _Model(function, {})
        first = next(iter(models.values()))
        _check_weights(name, models[name], first)
        models[name].common.update(zip(models[name].weights, first.weights, strict=True))
        _find_transformations(models[name], values)
    everywhere = set.intersection(*(set(model.common.values()) for model in models.values()))
    outputs = _outputs(list(models.values()), everywhere)
    bodies = {var: value for value, var in values.items() if var in everywhere}
    first = next(iter(models.values()))
    if bodies:
        result = {name: _without(model, everywhere, outputs) for name, model in models.items()}
    else:
        result, outputs = functions, list(first.weights)
    result = {name: _without_stops(function) for name, function in result.items()}
    public = {"global_symbol": transform, "num_input": 0}
    made = _transformation(first.weights, bodies, outputs)
    return {**result, transform: made.with_attrs(public)}


def _check_weights(name: str, model: _Model, first: _Model) -> None:
    types = [weight.ty for weight in model.weights]
    expected = [weight.ty for weight in first.weights]
    if types != expected:
        raise ValueError(
            f"the weights of `{name}` are of types {types}, but those of the functions that share "
            f"the transformation with it are of types {expected}"
        )


def _find_transformations(model: _Model, values: dict[Expr, Var]) -> None:
    """Enter into `common` what depends on weights only; `values` holds what others compute."""
    told = {symbol for weight in model.weights for symbol in definable_symbols(weight.ty)}
    for binding in model.function.body.bindings():
        used = free_vars(binding.value)
        of_weights = used and all(var in model.common for var in used)
        if of_weights and _can_move(binding) and told >= set(expr_symbols(binding.value)):
            value = substitute(binding.value, model.common)
            model.common[binding.var] = values.setdefault(value, binding.var)


def _can_move(binding: Binding) -> bool:
    match binding:
        case VarBinding(value=Call(op=Op(name=name))) if name == _STOP:
            return False
        case VarBinding(value=Call() as call):
            return is_pure_call(call) and not any(isinstance(a.ty, TupleType) for a in call.args)
        case VarBinding(value=Tuple() | TupleGetItem()):
            return True
        case _:
            return False


def _outputs(models: Sequence[_Model], everywhere: set[Var]) -> list[Var]:
    """What is handed over: the weights that are still used, then what is computed of them."""
    used: set[Var] = set()
    for model in models:
        rest = _rest(model, everywhere)
        used |= {
            model.common[var] for var in used_vars(rest) if model.common.get(var) in everywhere
        }
    first = models[0]
    return [var for var in dict.fromkeys(first.common.values()) if var in used]


def _rest(model: _Model, everywhere: set[Var]) -> SeqExpr:
    """The body of a model without the bindings that move."""

    def staying(binding: Binding) -> Binding | None:
        return None if model.common.get(binding.var) in everywhere else binding

    body = map_bindings(model.function.body, staying)
    return replace(body, blocks=tidy_blocks(body.blocks))


def _without(model: _Model, everywhere: set[Var], outputs: list[Var]) -> Function:
    """A model that takes the outputs of the transformation instead of its weights."""
    own: dict[Var, Var] = {}
    for var, common in model.common.items():
        own.setdefault(common, var)
    params = {var: Var(own[var].name, own[var].ty, span=own[var].span) for var in outputs}
    given = {var: params[common] for var, common in model.common.items() if common in params}
    body = substitute(_rest(model, everywhere), given)
    return replace(model.function, params=(*model.inputs, *params.values()), body=body)


def _transformation(
    weights: Sequence[Var], bodies: dict[Var, Expr], outputs: list[Var]
) -> Function:
    """The function from a tuple of weights to a tuple of what the models take."""
    bundle = Var("model_params", TupleType(tuple(w.ty for w in weights if w.ty is not None)))
    builder = BlockBuilder()
    with builder.scope():
        with builder.dataflow():
            for var, value in bodies.items():
                _take_weights(builder, bundle, weights, value)
                builder.emit_binding(VarBinding(var, value))
            result = Tuple(tuple(outputs))
            _take_weights(builder, bundle, weights, result)
            output = builder.emit_output(result, "output_tuple")
        made = make_function([bundle], builder.sequence(output))
    own, _ = renew(hide_unused_outputs(made))
    return own


def _take_weights(builder: BlockBuilder, bundle: Var, weights: Sequence[Var], value: Expr) -> None:
    """Bind the weights that a value uses, those that are not bound already."""
    for var in free_vars(value):
        if var in weights and builder.lookup_binding(var) is None:
            builder.emit_binding(VarBinding(var, TupleGetItem(bundle, weights.index(var))))


def _without_stops(function: Function) -> Function:
    """The function with the values in the place of the marks that end what is lifted."""
    values: dict[Var, Expr] = {}

    def staying(binding: Binding) -> Binding | None:
        match binding:
            case VarBinding(var=var, value=Call(op=Op(name=name), args=(value,))) if name == _STOP:
                values[var] = substitute(value, values)
                return None
        return binding

    def change(seq: SeqExpr) -> SeqExpr:
        body = map_bindings(seq, staying)
        return seq if body is seq else replace(body, blocks=tidy_blocks(body.blocks))

    changed = map_sequences(function, change)
    return replace(changed, body=substitute(changed.body, values)) if values else function
