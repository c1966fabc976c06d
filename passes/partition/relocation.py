"""Functions with their values on devices: types that say where, and copies in between."""

from collections.abc import Callable
from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder, Names, make_function
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, DataflowVar, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.infer import infer
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op, operator_name
from relaxjax.ir.tuples import each_tensor
from relaxjax.ir.types import FuncType, TensorType, TupleType, Type, device_name
from relaxjax.ir.walk import all_vars, kept, map_children, substitute

MOVE, HINT = "relax.to_vdevice", "relax.hint_on_device"

# Kinds of devices that are called otherwise where code is made for them.
_KINDS = {"cpu": "llvm", "c": "llvm", "gpu": "cuda"}


def known_device(mod: IRModule, device: str) -> str:
    """The name of a device as the module lists it: `cpu:0` is its `llvm:0:global`."""
    wanted = device_name(device)
    infos = mod.global_infos.get("vdevice", ())
    listed = [info.name for info in infos if isinstance(info, VDevice)]
    same = [name for name in listed if _same_kind(name) == _same_kind(wanted)]
    return wanted if wanted in listed or not same else same[0]


def destination(mod: IRModule, call: Call) -> str:
    """The device that a move or a hint names, as the module lists it."""
    device = call.attrs["dst_vdevice"]
    if operator_name(call) == HINT:
        device = f"{device}:{call.attrs['memory_scope']}"
    return known_device(mod, device)


def _same_kind(name: str) -> str:
    kind, _, rest = name.partition(":")
    return f"{_KINDS.get(kind, kind)}:{rest}"


def located(ty: Type | None, device: str | None) -> Type | None:
    """A type with its tensors on a device."""
    return each_tensor(ty, lambda tensor: replace(tensor, vdevice=device))


@dataclass
class Relocation:
    """One function on its way: where its values are to be, and what stands for its variables.

    `copies` means that an operator's arguments are brought to where its result is to be.
    """

    mod: IRModule
    device_of: Callable[[Var], str | None]
    copies: bool
    names: Names = field(default_factory=Names)
    moved: dict[tuple[Var, str], Var] = field(default_factory=dict)
    now: dict[Var, Expr] = field(default_factory=dict)

    def function(self, function: Function) -> Function:
        self.names = Names([var.name for var in all_vars(function)])
        params = kept(function.params, map(self.var, function.params))
        body = self.sequence(function.body)
        if params is function.params and body is function.body:
            return function
        fresh = make_function(params, body)
        ret_ty = function.ret_ty if fresh.ret_ty == function.ret_ty else fresh.ret_ty
        return replace(function, params=params, body=body, ret_ty=ret_ty)

    def var(self, var: Var, ty: Type | None = None) -> Var:
        """What stands for a variable that is defined here, of type `ty` or where it is to be."""
        ty = located(var.ty, self.device_of(var)) if ty is None else ty
        changed = var if ty == var.ty else type(var)(var.name, ty, span=var.span)
        if changed is not var:
            self.now[var] = changed
        return changed

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        blocks = kept(seq.blocks, map(self.block, seq.blocks))
        return replace(seq, blocks=blocks, body=substitute(seq.body, self.now))

    def block(self, block: BindingBlock) -> BindingBlock:
        bindings: list[Binding] = []
        hidden = isinstance(block, DataflowBlock)
        for binding in block.bindings:
            bindings += self.binding(binding, hidden)
        self.moved.clear()
        return replace(block, bindings=kept(block.bindings, bindings))

    def binding(self, binding: Binding, hidden: bool) -> list[Binding]:
        """A binding, behind the copies that it needs."""
        copies: list[Binding] = []
        value = self.value(binding, copies, hidden)
        if isinstance(binding, MatchCast):
            here = value.ty.vdevice if isinstance(value.ty, TensorType) else None
            var = self.var(binding.var, located(binding.var.ty, here))
            return [replace(binding, var=var, value=value, ty=located(binding.ty, here))]
        if isinstance(value, Tuple | TupleGetItem | Var | If):
            var = self.var(binding.var, value.ty)
        else:
            var = self.var(binding.var)
            value = replace(value, ty=var.ty) if isinstance(value, Call) else value
        return [*copies, replace(binding, var=var, value=value)]

    def value(self, binding: Binding, copies: list[Binding], hidden: bool) -> Expr:
        value = binding.value
        match value:
            case If(true_branch=true, false_branch=false, cond=cond):
                now = substitute(cond, self.now)
                branches = self.sequence(true), self.sequence(false)
                same = now is cond and branches[0] is true and branches[1] is false
                return value if same else infer(If(now, *branches, span=value.span))
            case Function():
                return substitute(value, self.now)
            case Call() if operator_name(value) in (MOVE, HINT):
                return self.placed(value, self.device_of(binding.var))
            case Call(op=Op()) if self.copies and self.device_of(binding.var) is not None:
                device = self.device_of(binding.var) or ""
                return map_children(value, lambda arg: self.brought(arg, device, copies, hidden))
            case _:
                return substitute(value, self.now)

    def placed(self, call: Call, device: str | None) -> Expr:
        """A move or a hint: a copy where the value is elsewhere, else the value itself."""
        data = substitute(call.args[0], self.now)
        if isinstance(data.ty, TensorType) and data.ty.vdevice == device:
            return data
        if operator_name(call) == MOVE and data is call.args[0]:
            return call
        return infer(get_op(MOVE)(data, device))

    def brought(self, arg: Expr, device: str, copies: list[Binding], hidden: bool) -> Expr:
        """An argument, copied to a device first unless it is there."""
        if isinstance(arg, Tuple):
            return map_children(arg, lambda item: self.brought(item, device, copies, hidden))
        if not isinstance(arg, Var):
            return arg
        here = substitute(arg, self.now)
        if not isinstance(here.ty, TensorType) or here.ty.vdevice == device:
            return here
        if (arg, device) not in self.moved:
            call = infer(get_op(MOVE)(here, device))
            var = (DataflowVar if hidden else Var)(self.names.unique(arg.name), call.ty)
            copies.append(VarBinding(var, call))
            self.moved[arg, device] = var
        return self.moved[arg, device]


def with_agreeing_calls(mod: IRModule) -> IRModule:
    """`mod` with its calls naming functions by the types that these have by now.

    Arguments are moved to where the called function wants them, results to where they are needed.
    """
    rule, functions = _Agreement(mod).rule, mod.relax_functions().items()
    return mod.with_functions({name: expand_bindings(f, rule) for name, f in functions})


@dataclass(frozen=True)
class _Agreement:
    """What calls of a module's functions become."""

    mod: IRModule

    def rule(self, binding: Binding, builder: BlockBuilder) -> Expr | None:
        call = binding.value
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return None
        callee = self.mod.get_global_var(call.op.name)
        if not isinstance(callee.ty, FuncType):
            return None
        args = kept(call.args, map(self.moved, call.args, callee.ty.params or ()))
        result = infer(replace(call, op=callee, args=args, ty=None))
        if args is call.args and result.ty == call.ty and callee.ty == call.op.ty:
            return None
        return self.moved(result, binding.var.ty)

    def moved(self, value: Expr, wanted: Type | None) -> Expr:
        if isinstance(wanted, TupleType) and isinstance(value.ty, TupleType):
            whole = value.fields if isinstance(value, Tuple) else tuple(value)
            items = tuple(map(self.moved, whole, wanted.fields))
            same = all(item is old for item, old in zip(items, whole, strict=True))
            return value if same else Tuple(items)
        if not isinstance(value.ty, TensorType) or not isinstance(wanted, TensorType):
            return value
        if wanted.vdevice is None or value.ty.vdevice == wanted.vdevice:
            return value
        return infer(get_op(MOVE)(value, wanted.vdevice))
