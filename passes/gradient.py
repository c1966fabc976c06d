"""Reverse-mode differentiation: the backward program, written out as ordinary IR.

The program that `Gradient` emits is the plain one: the forward bindings as they are, then for each
of them, in reverse, the adjoints of what it used. Simplifying it is left to passes after this one.
"""

from collections.abc import Sequence

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Call, Expr, GlobalVar, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, If
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import ZERO_GRADIENT, Op, arguments
from relaxjax.ir.registry import did_you_mean, get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.span import located
from relaxjax.ir.types import PrimType, ShapeType, TensorType, TupleType, Type, is_float
from relaxjax.ir.walk import used_vars
from relaxjax.ops.shapes import same_dims

from .base import pass_factory
from .notes import in_function


class GradientError(ValueError):
    """A function cannot be differentiated as asked; the message says why, and where."""


@pass_factory(opt_level=0)
def Gradient(
    mod: IRModule,
    func_name: str | GlobalVar,
    require_grads: Var | str | Sequence[Var | str] | None = None,
    target_index: int = 0,
) -> IRModule:
    """Add the adjoint of a function: its result, paired with the gradients of its target.

    The new function `<func_name>_adjoint` takes the same parameters and returns
    `(result, (gradient, ...))`, one gradient for each variable of `require_grads`: parameters or
    intermediate variables of the function, themselves or by name, all parameters where it is None.
    The target is the result, or its field `target_index`: a scalar of a floating-point dtype.
    """
    name = func_name.name if isinstance(func_name, GlobalVar) else func_name
    function = mod[name]
    if not isinstance(function, Function):
        raise GradientError(f"`{name}` is no Relax function: it has no body to differentiate")
    with in_function(name, function):
        required = _required_vars(name, function, require_grads)
        copy, renewed = renew(function)
        target = _target(name, copy, target_index)
        wanted = [renewed[var] for var in required]
        _check_differentiable(copy, target, wanted)
        adjoint = _Adjoint(copy, target, wanted).function(f"{name}_adjoint")
    return mod.with_function(f"{name}_adjoint", adjoint)


class _Adjoint:
    """One backward program under construction: the adjoint of each variable so far."""

    def __init__(self, function: Function, target: Var, required: list[Var]) -> None:
        self.forward = function
        self.bindings = list(function.body.bindings())
        self.target = target
        self.required = required
        self.adjoints: dict[Var, Var] = {}
        self.fields: dict[tuple[Expr, int], Var] = {}
        self.builder = BlockBuilder()

    def function(self, name: str) -> Function:
        """The adjoint function: forward bindings, seed, backward bindings, gradients."""
        with self.builder.scope(taken=[param.name for param in self.forward.params]):
            with self.builder.dataflow():
                for binding in self.bindings:
                    self.builder.emit_binding(binding)
                self.update(self.target, _seed(self.target))
                for binding in reversed(self.bindings):
                    if binding.var in self.adjoints:
                        with located(binding.span), self.builder.origin(binding.span):
                            self.backward(binding, self.adjoints[binding.var])
                gradients = [self.output(var) for var in self.required]
            body = self.builder.sequence((self.forward.body.body, Tuple(tuple(gradients))))
        attrs = Attrs(self.forward.attrs, global_symbol=name)
        pure, span = self.forward.pure, self.forward.span
        return remove_all_unused(
            make_function(self.forward.params, body, pure=pure, attrs=attrs, span=span)
        )

    def backward(self, binding: Binding, adjoint: Var) -> None:
        """Hand the adjoint of a bound variable on to the variables in its value."""
        match binding.value:
            case Call(op=Op()) as call:
                self.call(binding.var, call, adjoint)
            case value:
                self.distribute(value, adjoint)

    def call(self, var: Var, call: Call, adjoint: Var) -> None:
        """Apply an operator's gradient rule, and hand the partial adjoints on to its arguments."""
        assert isinstance(call.op, Op)
        rule = call.op.gradient
        if rule is None or rule is ZERO_GRADIENT:
            return
        args, attrs = arguments(call)
        given = rule(adjoint, var, *args, **attrs)
        partials = (given,) if isinstance(given, Expr) else tuple(given)
        if len(partials) != len(args):
            raise GradientError(
                f"the gradient rule of {call.op.name} gives {len(partials)} adjoints "
                f"for its {len(args)} arguments"
            )
        pairs = [
            (arg, self.builder.normalize(partial))
            for arg, partial in zip(args, partials, strict=True)
            if arg is not None and partial is not None
        ]
        for arg, partial in pairs:
            self.distribute(arg, _fitted(call.op, partial, arg))

    def distribute(self, value: Expr, adjoint: Expr) -> None:
        """Add `adjoint` to the adjoints of the variables that make up `value`."""
        match value:
            case Var():
                self.update(value, adjoint)
            case Tuple(fields=fields):
                for index, field in enumerate(fields):
                    self.distribute(field, _item(self.leaf(adjoint), index))
            case TupleGetItem(tuple_value=Var() as var, index=index):
                self.update_field(var, index, adjoint)

    def update(self, var: Var, partial: Expr) -> None:
        """Add a partial adjoint to that of a variable."""
        before = self.adjoints.get(var)
        total = partial if before is None else self.sum(before, partial)
        self.adjoints[var] = self.builder.emit(total, f"{var.name}_adjoint")

    def update_field(self, var: Var, index: int, partial: Expr) -> None:
        """Add a partial adjoint to that of one field of a tuple."""
        assert isinstance(var.ty, TupleType)
        before = self.adjoints.get(var)
        fields: list[Expr] = []
        for i, ty in enumerate(var.ty.fields):
            if before is None:
                fields.append(partial if i == index else _zeros(ty))
            elif i == index:
                fields.append(self.leaf(self.sum(self.field(before, i), partial)))
            else:
                fields.append(self.field(before, i))
        self.adjoints[var] = self.builder.emit(Tuple(tuple(fields)), f"{var.name}_adjoint")

    def output(self, var: Var) -> Var:
        """The gradient of one required variable, as an output of the adjoint function."""
        if var not in self.adjoints:
            self.update(var, _zeros(var.ty))
        return self.builder.emit_output(self.adjoints[var], f"{var.name}_adjoint_out")

    def sum(self, lhs: Expr, rhs: Expr) -> Expr:
        """The sum of two adjoints of the same type, leaf by leaf for tuples."""
        if not isinstance(lhs.ty, TupleType):
            return get_op("relax.add")(self.leaf(lhs), self.leaf(rhs))
        return Tuple(
            tuple(
                self.leaf(self.sum(_item(lhs, i), _item(rhs, i))) for i in range(len(lhs.ty.fields))
            )
        )

    def leaf(self, expr: Expr) -> Expr:
        """`expr` bound to a variable; each field of a tuple is taken out once."""
        match expr:
            case TupleGetItem():
                return self.field(self.leaf(expr.tuple_value), expr.index)
            case _:
                return self.builder.normalize_leaf(expr)

    def field(self, value: Expr, index: int) -> Var:
        key = (value, index)
        if key not in self.fields:
            self.fields[key] = self.builder.emit(TupleGetItem(value, index))
        return self.fields[key]


def _fitted(op: Op, partial: Expr, arg: Expr) -> Expr:
    """A partial adjoint summed back to the shape of the argument that was broadcast."""
    wanted, found = arg.ty, partial.ty
    if not isinstance(wanted, TensorType) or not isinstance(found, TensorType):
        return partial
    if None not in (wanted.dtype, found.dtype) and wanted.dtype != found.dtype:
        raise GradientError(
            f"the gradient rule of {op.name} gives an adjoint of dtype {found.dtype} "
            f"for `{arg}` of dtype {wanted.dtype}"
        )
    if wanted.shape is not None and wanted.shape is found.shape:
        return partial
    if wanted.dims is None:
        return get_op("relax.collapse_sum_like")(partial, arg)
    if same_dims(found.dims, wanted.dims):
        return partial
    return get_op("relax.collapse_sum_to")(partial, ShapeExpr(wanted.dims))


def _item(value: Expr, index: int) -> Expr:
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


def _seed(target: Var) -> Expr:
    assert isinstance(target.ty, TensorType)
    return get_op("relax.ones")((), target.ty.dtype)


def _zeros(ty: Type | None) -> Expr:
    """The zero adjoint of a type."""
    match ty:
        case TupleType(fields=fields):
            return Tuple(tuple(map(_zeros, fields)))
        case TensorType(shape=tuple() as shape, dtype=str() as dtype):
            return get_op("relax.zeros")(shape, dtype)
        case _:
            raise GradientError(f"a zero gradient needs a known shape and dtype, found {ty}")


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
        if not _all_float(var.ty):
            raise GradientError(
                "only tensors of floating-point dtype, or tuples of them, can require gradients, "
                f"but `{var.name}` is of type {var.ty}"
            )
    return required


def _known_var(name: str, known: list[Var], item: Var | str) -> Var:
    if not isinstance(item, Var | str):
        raise TypeError(f"`require_grads` takes variables or their names, found {item!r}")
    found = [var for var in known if item is var or item == var.name]
    if len(found) == 1:
        return found[0]
    wanted = item.name if isinstance(item, Var) else item
    if found:
        raise GradientError(
            f"`{name}` has {len(found)} variables called `{wanted}`: give the variable"
        )
    hint = did_you_mean(wanted, [var.name for var in known])
    raise GradientError(f"there is no variable `{wanted}` in the function `{name}`{hint}")


def _all_float(ty: Type | None) -> bool:
    if isinstance(ty, TupleType):
        return all(map(_all_float, ty.fields))
    return isinstance(ty, TensorType) and is_float(ty.dtype)


def _can_be_zero(ty: Type | None) -> bool:
    """Whether a gradient can be stated for this type: what is no float has a gradient of zeros."""
    if isinstance(ty, TupleType):
        return all(map(_can_be_zero, ty.fields))
    return isinstance(ty, TensorType) and not (ty.dtype or "").startswith("key<")


def _target(name: str, function: Function, index: int) -> Var:
    """The variable that is differentiated: the result of the function, or one field of it."""
    result = function.body.body
    if isinstance(result, Tuple):
        if not 0 <= index < len(result.fields):
            raise GradientError(
                f"`target_index` must be in [0, {len(result.fields)}), the number of results of "
                f"`{name}`, found {index}"
            )
        result = result.fields[index]
    elif index != 0:
        raise GradientError(f"`{name}` has one result: `target_index` can only be 0, found {index}")
    if not isinstance(result, Var):
        raise GradientError(f"the target must be a variable, found `{result}`")
    scalar = isinstance(result.ty, TensorType) and result.ty.ndim == 0
    if not scalar or not _all_float(result.ty):
        raise GradientError(
            "the target must be a scalar (a tensor without dimensions) of floating-point dtype, "
            f"but `{result.name}` is of type {result.ty}"
        )
    return result


def _check_differentiable(function: Function, target: Var, required: list[Var]) -> None:
    """Raise an error that lists everything on the way to the target that has no derivative."""
    bindings = list(function.body.bindings())
    active = _active_vars(bindings, target, required)
    faults = []
    for binding in bindings:
        problem = _problem(binding, binding.var in active)
        if problem:
            where = f"\n{binding.span.excerpt()}" if binding.span else ""
            faults.append(f"  `{binding.var.name}`: {problem}{where}")
    if faults:
        raise GradientError("\n".join(["no gradient is known for:", *faults]))


def _active_vars(bindings: list[Binding], target: Var, required: list[Var]) -> set[Var]:
    """The variables through which the target depends on a required one."""
    depends = set(required)
    for binding in bindings:
        if any(var in depends for var in _differentiable_uses(binding)):
            depends.add(binding.var)
    reaches = {target}
    for binding in reversed(bindings):
        if binding.var in reaches:
            reaches.update(_differentiable_uses(binding))
    return depends & reaches


def _differentiable_uses(binding: Binding) -> tuple[Var, ...]:
    """The variables of a binding's value that it can have a derivative by."""
    value = binding.value
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.gradient is ZERO_GRADIENT:
        return ()
    return tuple(var for var in used_vars(value) if _carries_gradient(var.ty))


def _carries_gradient(ty: Type | None) -> bool:
    """Whether a value of this type can depend smoothly on anything; unknown types may."""
    match ty:
        case TupleType(fields=fields):
            return any(map(_carries_gradient, fields))
        case TensorType(dtype=dtype):
            return dtype is None or is_float(dtype)
        case ShapeType() | PrimType():
            return False
        case _:
            return True


def _problem(binding: Binding, active: bool) -> str | None:
    """What stands against differentiating a function with this binding, None where nothing does."""
    match binding.value:
        case If() | Function() as value:
            return f"a binding of kind {type(value).__name__}"
        case Call() as call if not is_pure_call(call):
            return f"the impure call of `{call.op}`"
        case Call(op=Op(gradient=None) as op) if active:
            return f"the operator {op.name}"
        case Call(op=Op()):
            return None
        case Call(op=callee) if active:
            return f"the call of `{callee}`"
        case _:
            return None
