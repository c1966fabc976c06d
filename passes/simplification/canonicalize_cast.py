"""Casts where they are used, and as few of them as possible."""

import numpy as np

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, Var, np_dtype
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType
from relaxjax.ir.uses import Uses
from relaxjax.ir.walk import kept
from relaxjax.passes.infrastructure.base import pass_factory

from .apply_laws import rewritten


@pass_factory(opt_level=3, kind="function")
def CanonicalizeCast(function: Function, mod: IRModule) -> Function:
    """Cast to a wider dtype at each use, so that what is kept is narrow; join casts of casts.

    A kernel that is fused with its cast reads the narrow tensor, where a cast that several share
    would be written and read in the wide dtype. Casts in a row are one where the first loses
    nothing. EliminateCommonSubexpr, which undoes the first, comes before this pass.
    """
    joined = rewritten(function, LAWS)
    known = Uses.of(joined)
    shared = _shared_casts(known)

    def cast_here(binding: Binding, builder: BlockBuilder) -> Expr | None:
        call = binding.value
        if not isinstance(call, Call):
            return None
        own = {
            arg: builder.emit(known.values[arg], arg.name)
            for arg in dict.fromkeys(call.args)
            if isinstance(arg, Var) and arg in shared
        }
        if not own:
            return None
        args = (own.get(arg, arg) if isinstance(arg, Var) else arg for arg in call.args)
        return replace(call, args=kept(call.args, args))

    return remove_all_unused(expand_bindings(joined, cast_here)) if shared else joined


@law("relax.astype")
def joined_casts(call: Call, op: Op, known: Uses) -> Expr | None:
    """A cast of a cast that loses nothing is one cast."""
    outer = _dtypes(call)
    inner = known.call(call.args[0], "relax.astype") if outer is not None else None
    dtypes = None if inner is None else _dtypes(inner)
    if inner is None or dtypes is None or outer is None or not _loses_nothing(*dtypes):
        return None
    x = inner.args[0]
    return x if dtypes[0] == outer[1] else x.astype(outer[1])


LAWS = Laws([joined_casts])


def _shared_casts(known: Uses) -> set[Var]:
    """The variables of widening casts that several calls use."""
    return {
        var
        for var in known.values
        if _widens(known.call(var, "relax.astype")) and len(_calls_on(var, known)) > 1
    }


def _calls_on(var: Var, known: Uses) -> list[Var]:
    """The variables of the calls that have a variable itself among their arguments."""
    users = ((user, known.value(user)) for user in known.users_of(var))
    return [user for user, call in users if isinstance(call, Call) and var in call.args]


def _widens(cast: Call | None) -> bool:
    dtypes = None if cast is None else _dtypes(cast)
    if dtypes is None:
        return False
    narrow, wide = map(np_dtype, dtypes)
    return narrow.itemsize < wide.itemsize


def _dtypes(cast: Call) -> tuple[str, str] | None:
    """The dtypes from which and to which a call casts, None where it is no cast of a known one."""
    x = cast.args[0] if cast.args else None
    is_cast = getattr(cast.op, "name", "") == "relax.astype"
    if not is_cast or x is None or not isinstance(x.ty, TensorType) or x.ty.dtype is None:
        return None
    return x.ty.dtype, str(cast.attrs["dtype"])


def _loses_nothing(start: str, end: str) -> bool:
    """Whether a dtype has every number of another: a float has not all integers of 64 bits."""
    narrow, wide = np_dtype(start), np_dtype(end)
    rounds = narrow.kind in "iu" and narrow.itemsize == 8 and wide.kind not in "iu"
    return not rounds and np.can_cast(narrow, wide, "safe")
