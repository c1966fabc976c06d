"""Another device instead of one of a module's."""

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function, MatchCast, SeqExpr
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import operator_name
from relaxjax.ir.types import FuncType, TensorType, TupleType, Type
from relaxjax.ir.walk import kept, map_bindings, map_children
from relaxjax.passes.infrastructure.base import pass_factory

from .relocation import MOVE, with_agreeing_calls


@pass_factory(opt_level=0)
def UpdateVDevice(mod: IRModule, new_vdevice: VDevice, index: int) -> IRModule:
    """Replace the device at `index` by `new_vdevice`, in all types and moves, too."""
    infos = mod.global_infos.get("vdevice", ())
    if not 0 <= index < len(infos):
        raise IndexError(
            f"the module has no device at index {index}: it lists {len(infos)} in its "
            'I.module_global_infos({"vdevice": [...]})'
        )
    old = infos[index]
    if old == new_vdevice:
        return mod
    listed = {
        **mod.global_infos,
        "vdevice": tuple(new_vdevice if i == index else info for i, info in enumerate(infos)),
    }
    update = _Update(old.name, new_vdevice.name)
    functions = {name: update.expr(f) for name, f in mod.relax_functions().items()}
    changed = mod.with_functions({n: f for n, f in functions.items() if isinstance(f, Function)})
    return replace(with_agreeing_calls(changed), global_infos=listed)


class _Update:
    """One device's name for another's, throughout."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new
        self.vars: dict[Var, Var] = {}

    def expr(self, expr: Expr) -> Expr:
        match expr:
            case Var():
                return self.var(expr)
            case Function():
                params = kept(expr.params, map(self.var, expr.params))
                changed = map_children(expr, self.expr)
                return replace(changed, params=params, ret_ty=self.type(expr.ret_ty))
            case SeqExpr():
                seq = map_bindings(
                    expr,
                    lambda b: replace(
                        replace(b, var=self.var(b.var), value=self.expr(b.value)),
                        **({"ty": self.type(b.ty)} if isinstance(b, MatchCast) else {}),
                    ),
                )
                return replace(seq, body=self.expr(seq.body), ty=self.type(seq.ty))
            case Call():
                call = replace(map_children(expr, self.expr), ty=self.type(expr.ty))
                ty_args = kept(expr.ty_args, map(self.type, expr.ty_args))
                return replace(call, attrs=self.attrs(expr), ty_args=ty_args)
            case _:
                changed = map_children(expr, self.expr)
                return changed if changed is expr else replace(changed, ty=self.type(expr.ty))

    def var(self, var: Var) -> Var:
        if var not in self.vars:
            ty = self.type(var.ty)
            same = ty is var.ty
            self.vars[var] = var if same else type(var)(var.name, ty, span=var.span)
        return self.vars[var]

    def attrs(self, call: Call) -> Attrs:
        moves = operator_name(call) == MOVE and call.attrs["dst_vdevice"] == self.old
        return call.attrs.updated(dst_vdevice=self.new) if moves else call.attrs

    def type(self, ty: Type | None) -> Type | None:
        match ty:
            case TensorType(vdevice=str() as device) if device == self.old:
                return replace(ty, vdevice=self.new)
            case TupleType(fields=fields):
                return replace(ty, fields=kept(fields, map(self.type, fields)))
            case FuncType(params=params):
                changed = params and kept(params, map(self.type, params))
                return replace(ty, params=changed, ret=self.type(ty.ret))
            case _:
                return ty
