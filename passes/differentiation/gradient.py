"""Reverse-mode differentiation: the backward program, written out as ordinary IR.

The program that `Gradient` emits is the plain one: the forward bindings as they are, then for each
of them, in reverse, the adjoints of what it read. Simplifying it is left to passes after this one.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder, Names, make_function
from relaxjax.ir.check import variable_faults
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.derivatives import ADJOINT, CUSTOM_GRADIENT, carries_gradient, named_functions
from relaxjax.ir.expr import Constant, Expr, GlobalVar, Tuple, Var
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.lattice import erase
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.op import get_op
from relaxjax.ir.reached import reached
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.renew import renew
from relaxjax.ir.span import excerpt_of
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.tuples import leaf_types
from relaxjax.ir.types import TensorType, TupleType, Type, is_float, is_key, is_smooth
from relaxjax.ir.walk import definable_symbols, substitute, used_vars
from relaxjax.ops.platform import asked_for_platform, made_for
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.error_notes import in_function

from .activity import active_vars, in_full, obstacles
from .adjoint import GradientError as GradientError
from .adjoint import lying_as
from .checkpoints import without_marks
from .inlining import inline_closures
from .own_values import with_own_values
from .reverse_mode import ReverseMode
from .rows import with_rows_apart
from .vjp import is_flat


@pass_factory(opt_level=0)
def Gradient(
    mod: IRModule,
    func_name: str | GlobalVar,
    require_grads: Var | str | Sequence[Var | str] | None = None,
    target_index: int | Sequence[int] = 0,
    cotangent: bool = False,
    mode: str = "first_order",
    lazy: bool = False,
    sparse: bool = False,
) -> IRModule:
    """Add the adjoint of a function: its result, paired with the gradients of its target.

    The new function `<func_name>_adjoint` takes the same parameters and returns
    `(result, (gradient, ...))`, one gradient for each variable of `require_grads`. These are
    parameters or intermediate variables of the function, themselves or by name. By default they
    are all parameters.

    The target is the result, or its field `target_index`: a scalar of a floating-point dtype.
    Several targets are differentiated as their sum. With `cotangent`, targets may be any tensors,
    and the adjoint function takes the cotangent of each as a further parameter.

    With `mode="higher_order"`, an adjoint that cannot be differentiated again is an error. `lazy`
    writes a better program than TVM does: the adjoint of a tuple is kept in parts until something
    needs the whole, and nothing is added to zeros. What checkpoint marks ask to be computed again
    is not merged with the first then.

    With `sparse`, the gradient of a table of which only `take` reads rows is a pair, the rows and
    their places. `R.grad.rows(values, places, shape)` makes it whole.
    """
    if mode not in ("first_order", "higher_order"):
        raise GradientError(f"`mode` must be 'first_order' or 'higher_order', found {mode!r}")
    name = name_of(func_name)
    function = function_of(mod, name)
    with in_function(name, function), asked_for_platform() as platforms:
        refuse_own_rule(name, function, CUSTOM_GRADIENT)
        added = free_name(mod, name, ADJOINT)
        required = _required_vars(name, function, require_grads)
        whole = inline_closures(function)
        flat = is_flat(whole)
        copy, renewed = renew(whole, visible=not flat)
        targets = [_target(name, copy, index, cotangent) for index in _indices(target_index)]
        wanted = [renewed[var] for var in required]
        problems = obstacles(mod, Tuple(tuple(targets)), tuple(copy.body.bindings()), wanted)
        if problems:
            raise GradientError("\n".join(["no gradient is known for:", *problems]))
        reverse_mode = ReverseMode(mod)
        names = Names([param.name for param in copy.params])
        seeds = [
            _cotangent(target, copy.params, names) if cotangent else _ones(target)
            for target in targets
        ]
        body = _adjoint_body(reverse_mode, copy, flat, lazy, targets, seeds, wanted)
    params = (*copy.params, *(seed for seed in seeds if isinstance(seed, Var)))
    attrs = Attrs(function.attrs, global_symbol=added)
    adjoint = make_function(params, body, pure=function.pure, attrs=attrs, span=function.span)
    adjoint = remove_all_unused(with_own_values(adjoint, wanted, reverse_mode.module))
    done = reverse_mode.module.with_function(added, adjoint)
    done = made_for(done, platforms)
    if mode == "higher_order":
        _require_second_order(done, done[added])
    return done.with_function(added, with_rows_apart(done[added])) if sparse else done


def _require_second_order(mod: IRModule, adjoint: Function) -> None:
    """Everything between the gradients and the parameters must have a derivative too."""
    result = adjoint.body.body
    assert isinstance(result, Tuple)
    smooth = [param for param in adjoint.params if carries_gradient(param.ty)]
    whole = inline_closures(adjoint)
    problems = obstacles(mod, result.fields[1], tuple(whole.body.bindings()), smooth)
    if problems:
        heading = "the gradients cannot be differentiated again, because no gradient is known for:"
        raise GradientError("\n".join([heading, *problems]))


def function_of(mod: IRModule, name: str) -> Function:
    """The function to differentiate, whose variables and those of what it calls are all bound."""
    function = mod[name]
    if not isinstance(function, Function):
        raise GradientError(f"`{name}` is no Relax function: it has no body to differentiate")
    functions = mod.relax_functions()

    def named(current: str) -> list[str]:
        return [other for other in named_functions(functions[current]) if other in functions]

    for current in reached([name], named):
        _check_variables(current, functions[current])
    return function


def _check_variables(name: str, function: Function) -> None:
    """Raise where a variable is not bound where it is used: it would count as a constant."""
    for fault in variable_faults(function):
        place = excerpt_of(fault.span)
        raise GradientError(
            f"no gradient is known for `{name}`, where {fault.message}: bind each "
            f"variable once, before it is used, or make it a parameter{place}"
        )


def free_name(mod: IRModule, name: str, ending: str) -> str:
    """The name of a derivative: one there already is replaced, unless functions need it."""
    wanted = name + ending
    functions = mod.relax_functions().items()
    users = [user for user, f in functions if user != wanted and wanted in named_functions(f)]
    if users:
        raise GradientError(
            f"the derivative of `{name}` is to be called `{wanted}`, but the module has another "
            f"function of that name, which `{users[0]}` needs: rename that one"
        )
    return wanted


def refuse_own_rule(name: str, function: Function, attr: str) -> None:
    """The body of a function that names its derivative may not be what is differentiated."""
    if attr in function.attrs:
        raise GradientError(
            f"`{name}` has a derivative of its own, `{function.attrs[attr]}`, which holds where it "
            "is called: differentiate a function that calls it"
        )


def _adjoint_body(
    reverse_mode: ReverseMode,
    function: Function,
    flat: bool,
    lazy: bool,
    targets: Sequence[Expr],
    seeds: Sequence[Expr],
    required: Sequence[Var],
) -> SeqExpr:
    """Forward bindings, seeds, backward bindings, gradients: one dataflow block if it can be."""
    unmarked = without_marks(tuple(function.body.bindings()), required)
    targets = [substitute(target, unmarked.aliases) for target in targets]
    result = substitute(function.body.body, unmarked.aliases)
    reached = used_vars(Tuple(tuple(targets)))
    active = active_vars(unmarked.bindings, reached, in_full(required), reverse_mode.functions)
    builder = BlockBuilder()
    with builder.scope(taken=[param.name for param in function.params]):
        with builder.dataflow() if flat else nullcontext():
            forward = reverse_mode.emit_forward(builder, unmarked, active)
            adjoint = forward.adjoint(builder, lazy or not flat)
            for target, seed in zip(targets, seeds, strict=True):
                with builder.origin(target.span, getattr(target, "name", None)):
                    adjoint.add(target, _as_exact(builder, seed, target))
            adjoint.go_back(forward.active_bindings())
            emit = builder.emit_output if flat else builder.emit
            outputs = []
            for var in required:
                with builder.origin(var.span, var.name):
                    own: Expr = adjoint.of(var)
                    if var in function.params:
                        own = lying_as(own, var.ty)
                    outputs.append(emit(own, f"{var.name}_adjoint_out"))
        return builder.sequence((result, Tuple(tuple(outputs))))


def _ones(target: Expr) -> Expr:
    assert isinstance(target.ty, TensorType)
    return get_op("relax.ones")((), target.ty.dtype)


def _cotangent(target: Expr, params: Sequence[Var], names: Names) -> Var:
    """The parameter for a cotangent, its type as far as it can be said before the body."""
    assert target.ty is not None
    known = {symbol for param in params for symbol in definable_symbols(param.ty)}
    ty = erase(target.ty, known, set(params))
    return Var(names.unique(f"{getattr(target, 'name', 'result')}_cotangent"), ty)


def _as_exact(builder: BlockBuilder, seed: Expr, target: Expr) -> Expr:
    """A seed of the target's type, which may have dimensions that a cast of the body defines."""
    if not isinstance(seed, Var) or seed.ty == target.ty:
        return seed
    assert target.ty is not None
    return builder.match_cast(seed, target.ty, seed.name)


def _indices(target_index: int | Sequence[int]) -> Sequence[int]:
    indices = [target_index] if isinstance(target_index, int) else list(target_index)
    if not indices or len(set(indices)) != len(indices):
        raise GradientError(f"`target_index` must name one target or several, found {indices}")
    return indices


def _required_vars(
    name: str, function: Function, require_grads: Var | str | Sequence[Var | str] | None
) -> list[Var]:
    """The variables whose gradients are asked for, checked against the function."""
    if require_grads is None:
        return [param for param in function.params if _can_be_zero(param.ty)]
    given = [require_grads] if isinstance(require_grads, Var | str) else list(require_grads)
    known = [*function.params, *(binding.var for binding in function.body.bindings())]
    required = [_known_var(name, known, item) for item in given]
    for index, var in enumerate(required):
        if var in required[:index]:
            raise GradientError(f"the variable `{var.name}` appears more than once")
        if not (carries_gradient(var.ty) and _can_be_zero(var.ty)):
            raise GradientError(
                "only tensors of floating-point or complex dtype, or tuples with some, can require "
                f"gradients, but `{var.name}` is of type {var.ty}"
            )
    return required


def _known_var(name: str, known: list[Var], item: Var | str) -> Var:
    found = [var for var in known if item is var or item == var.name]
    if len(found) == 1:
        return found[0]
    wanted = item.name if isinstance(item, Var) else item
    if found:
        raise GradientError(
            f"`{name}` has {len(found)} variables called `{wanted}`: give the variable"
        )
    if any(wanted == var.name for var in known):
        raise GradientError(
            f"the variable `{wanted}` in `require_grads` is another than that of `{name}`: give "
            f'one of the module at hand, such as `mod["{name}"].params[0]`, or its name'
        )
    hint = did_you_mean(wanted, [var.name for var in known])
    raise GradientError(f"there is no variable `{wanted}` in the function `{name}`{hint}")


def _all(have: Callable[[str | None], bool], ty: Type | None) -> bool:
    """Whether a type is one of tensors whose dtypes are such as wanted."""
    return all(isinstance(leaf, TensorType) and have(leaf.dtype) for _, leaf in leaf_types(ty))


def _can_be_zero(ty: Type | None) -> bool:
    """Whether a gradient can be stated for this type: what is no float has a gradient of zeros."""
    return _all(lambda dtype: not is_key(dtype), ty)


def _target(name: str, function: Function, index: int, any_float: bool) -> Expr:
    """What is differentiated: the result of the function, or one field of it.

    It is a variable or a constant; with a cotangent it may be a tuple, as an adjoint's gradients.
    """
    result = function.body.body
    if isinstance(result, Tuple):
        if not 0 <= index < len(result.fields):
            raise GradientError(
                f"`target_index` must be in [0, {len(result.fields)}), the number of results of "
                f"`{name}`, found {index}"
            )
        result = result.fields[index]
    elif index != 0:
        is_tuple = isinstance(result.ty, TupleType)
        raise GradientError(
            f"`{name}` has one result: `target_index` can only be 0, found {index}"
            + (f"; to choose among the fields of `{result}`, write them out" if is_tuple else "")
        )
    if not isinstance(result, Var | Constant) and not (any_float and _all_leaves(result)):
        mend = "" if isinstance(result, Tuple) else ": bind it to one, as ToANormalForm() does"
        raise GradientError(f"the target must be a variable or a number, found `{result}`{mend}")
    if any_float:
        if not _all(is_smooth, result.ty):
            raise GradientError(
                "a target with a cotangent must be a tensor of floating-point or complex dtype, or "
                f"a tuple of them, but `{result}` is of type {result.ty}"
            )
        return result
    scalar = known_ndim(result) == 0
    if not scalar or not _all(is_float, result.ty):
        others = ": write `cotangent=True` for other targets" if _all(is_smooth, result.ty) else ""
        raise GradientError(
            "the target must be a scalar (a tensor without dimensions) of floating-point dtype, "
            f"but `{result}` is of type {result.ty}{others}"
        )
    return result


def _all_leaves(expr: Expr) -> bool:
    if isinstance(expr, Tuple):
        return all(map(_all_leaves, expr.fields))
    return isinstance(expr, Var | Constant)
