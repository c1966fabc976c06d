"""Following hints on devices through a program."""

from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, If, MatchCast, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, operator_name
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.walk import nested_bindings
from relaxjax.passes.infrastructure.base import pass_factory

from .classes import Classes
from .relocation import HINT, MOVE, Relocation, destination, with_agreeing_calls


@pass_factory(opt_level=0)
def RealizeVDevice(mod: IRModule) -> IRModule:
    """Let types say on which device values are, as hints and moves imply; hints become moves.

    What an operator takes is on the device of its result. A hint on a value that nothing else puts
    on a device decides where it is; a hint on a value that is elsewhere becomes `R.to_vdevice`.
    Where hints would have what is computed together on two devices, the first one counts.
    Functions are looked at one by one, and closures are left alone.
    """
    changed = {}
    for name, function in mod.relax_functions().items():
        places = _Places(mod, function)
        changed[name] = Relocation(mod, places.device_of, copies=False).function(function)
    realized = mod.with_functions(changed)
    return mod if realized is mod else with_agreeing_calls(realized)


def _comes_from_outside(value: Expr) -> bool:
    """Whether a value is what a function gives, whose type says where it is."""
    return isinstance(value, Call) and not isinstance(value.op, Op)


class _Places:
    """The values of a function in classes that share a device, and the devices known of those."""

    def __init__(self, mod: IRModule, function: Function) -> None:
        self.classes = Classes[Var]()
        self.devices: dict[Var, str] = {}
        self.fields: dict[Var, Tuple] = {}
        self.calls: list[tuple[Var, Call]] = []
        bindings = list(nested_bindings(function))
        for param in function.params:
            self._state(param)
        for binding in bindings:
            self._bind(binding.var, binding.value)
            if isinstance(binding, MatchCast) or _comes_from_outside(binding.value):
                self._state(binding.var)
        self._follow(mod)
        for binding in bindings:
            self._suggest(binding.var, binding.var.ty)
        self._suggest(function.body.body, function.ret_ty)

    def device_of(self, var: Var) -> str | None:
        return self.devices.get(self.classes.leader(var))

    def _follow(self, mod: IRModule) -> None:
        """Put values where moves bring them, and then where hints advise."""
        for var, call in self.calls:
            if operator_name(call) == MOVE:
                self._place(var, destination(mod, call))
        for var, call in self.calls:
            if operator_name(call) == HINT and self.device_of(var) is None:
                self._place(var, destination(mod, call))
        for _, call in self.calls:
            data = call.args[0]
            if (
                operator_name(call) == HINT
                and isinstance(data, Var)
                and self.device_of(data) is None
            ):
                self._place(data, destination(mod, call))

    def _bind(self, var: Var, value: Expr) -> None:
        match value:
            case Call() if operator_name(value) in (MOVE, HINT):
                self.calls.append((var, value))
            case Call(op=Op(), args=args) if isinstance(var.ty, TensorType | TupleType):
                for arg in args:
                    self._join_leaves(var, arg)
            case Tuple():
                self.fields[var] = value
            case TupleGetItem(tuple_value=Var() as whole, index=index):
                known = self.fields.get(whole)
                self._join_leaves(var, whole if known is None else known.fields[index])
            case If(true_branch=SeqExpr(body=true), false_branch=SeqExpr(body=false)):
                self._join_leaves(var, true)
                self._join_leaves(var, false)
            case Var():
                self._join_leaves(var, value)

    def _join_leaves(self, var: Var, expr: Expr) -> None:
        """One device for a variable and all tensors in an expression."""
        match expr:
            case Var() if expr in self.fields:
                self._join_leaves(var, self.fields[expr])
            case Var(ty=TensorType() | TupleType()):
                self._join(var, expr)
            case Tuple(fields=fields):
                for item in fields:
                    self._join_leaves(var, item)

    def _suggest(self, expr: Expr, ty: Type | None) -> None:
        """Where nothing else decides, a value is where a type that was inferred has it."""
        match expr, ty:
            case Tuple(fields=items), TupleType(fields=types):
                for item, field in zip(items, types, strict=True):
                    self._suggest(item, field)
            case Var(), TensorType(vdevice=str() as device) if self.device_of(expr) is None:
                self._place(expr, device)

    def _state(self, var: Var) -> None:
        """A value is where a type says that was given to it."""
        if isinstance(var.ty, TensorType) and var.ty.vdevice is not None:
            self._place(var, var.ty.vdevice)

    def _join(self, one: Var, other: Var) -> None:
        device = self.devices.pop(self.classes.leader(other), None)
        self.classes.join(one, other)
        if device is not None:
            self._place(one, device)

    def _place(self, var: Var, device: str) -> None:
        known = self.devices.setdefault(self.classes.leader(var), device)
        if known != device:
            raise ValueError(
                f"`{var.name}` must be on {known} and on {device}, because what is computed "
                "together is on one device: bring values there by R.to_vdevice"
            )
