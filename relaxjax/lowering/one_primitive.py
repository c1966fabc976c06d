"""Elementwise operators that are one primitive of JAX: found out once for tensors of all shapes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Constant, Expr, Var
from relaxjax.ir.function import SeqExpr
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import TensorType, Type
from relaxjax.ops.lax import is_key

# The bindings that a call becomes where it is traced.
Spell: TypeAlias = Callable[[Call], SeqExpr | None]
_SOME_LENGTH = 7


@dataclass(frozen=True, slots=True)
class _Form:
    """A primitive, and its arguments: the places of some of the call's, and numbers."""

    op: Op
    attrs: Attrs
    args: tuple[int | Constant, ...]

    def of(self, call: Call) -> Call:
        args = (call.args[arg] if isinstance(arg, int) else arg for arg in self.args)
        return Call(self.op, tuple(args), self.attrs, ty=call.ty)


class OnePrimitive:
    """Calls of elementwise operators as calls of primitives: what one is, tells of all shapes.

    Arguments are of the shape of the result, or scalars, which primitives take as they are.
    """

    def __init__(self, spell: Spell) -> None:
        self._spell = spell
        self._forms: dict[Any, _Form | None] = {}

    def call(self, call: Call) -> Call | None:
        """The call of a primitive; None where the operator is more, or broadcasts."""
        if not (isinstance(call.op, Op) and call.op.facts.get("elementwise")):
            return None
        types = [call.ty, *(arg.ty for arg in call.args)]
        if not _are_alike(types):
            return None
        key = call.op, call.attrs, tuple((ty.dims == (), ty.dtype) for ty in types)
        if key not in self._forms:
            self._forms[key] = self._form(call, types)
        form = self._forms[key]
        return None if form is None else form.of(call)

    def _form(self, call: Call, types: Sequence[TensorType]) -> _Form | None:
        """What a call of vectors of some length becomes, if that is one primitive."""
        ty, *others = (TensorType((_SOME_LENGTH,) if t.dims else (), t.dtype) for t in types)
        params = [Var(f"x{index}", other) for index, other in enumerate(others)]
        seq = self._spell(replace(call, args=tuple(params), ty=ty))
        bindings = [] if seq is None else list(seq.bindings())
        if seq is None or len(bindings) != 1 or bindings[0].var is not seq.body:
            return None
        found = bindings[0].value
        if not (isinstance(found, Call) and isinstance(found.op, Op)) or _holds_shapes(found.attrs):
            return None
        args = [_place(arg, params) for arg in found.args]
        known = tuple(arg for arg in args if arg is not None)
        return _Form(found.op, found.attrs, known) if len(known) == len(args) else None


def _are_alike(types: Sequence[Type | None]) -> TypeGuard[Sequence[TensorType]]:
    """Whether they are numbers in one known shape, the first's, or scalars, and in no place."""
    dims = static_dims(types[0])
    if dims is None:
        return False
    return all(
        isinstance(ty, TensorType)
        and ty.dims in ((), dims)
        and not (ty.dtype is None or is_key(ty.dtype))
        and ty.vdevice is None
        for ty in types
    )


def _holds_shapes(attrs: Attrs) -> bool:
    """Whether a primitive's attributes may be of the shape that it was traced for."""
    return not all(isinstance(value, str | bool | None) for value in attrs.values())


def _place(arg: Expr, params: Sequence[Var]) -> int | Constant | None:
    """Which of the parameters an argument is, or the number that it is."""
    if isinstance(arg, Constant):
        return arg if arg.data.ndim == 0 else None
    return next((index for index, param in enumerate(params) if param is arg), None)
