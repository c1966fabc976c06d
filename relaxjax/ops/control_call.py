"""Loops of unknown length and choices of JAX: which parameters get which arguments."""

from collections.abc import Sequence
from dataclasses import dataclass

from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import operator_name
from relaxjax.ir.types import FuncType
from relaxjax.ir.uses import Uses

_LOOP, _CHOICE = "lax.while_loop", "lax.switch"


@dataclass(frozen=True)
class ControlCall:
    """A loop with its condition and its body, or a choice with its branches.

    Behind `first` arguments come those that a loop carries, or that a choice hands to its branches.
    Each function gets so many constants of a loop before, as `consts` tells.
    """

    call: Call
    names: tuple[Expr, ...]  # of the functions
    functions: tuple[Function, ...]
    consts: tuple[int, ...]
    first: int
    is_loop: bool

    @staticmethod
    def of(value: Expr | None, known: Uses) -> "ControlCall | None":
        """What a value calls, where its functions are known, and give tuples."""
        name = operator_name(value)
        if not isinstance(value, Call) or name not in (_LOOP, _CHOICE):
            return None
        names = tuple(arg for arg in value.args if isinstance(arg.ty, FuncType))
        found = map(known.value, names)
        functions = tuple(one for one in found if isinstance(one, Function))
        if len(functions) < len(names):
            return None
        if name == _LOOP:
            consts = value.attrs["cond_consts"], value.attrs["body_consts"]
            one = ControlCall(value, names, functions, consts, 2 + sum(consts), True)
        else:
            count = len(functions)
            one = ControlCall(value, names, functions, (0,) * count, 1 + count, False)
        return one if all(isinstance(end, Tuple) for end in one.ends) else None

    @property
    def handed(self) -> Sequence[Expr]:
        """What a loop carries at first, or what the branches get."""
        return self.call.args[self.first :]

    @property
    def constants(self) -> list[tuple[Expr, Var]]:
        """What the body of a loop gets in each of its steps, with its parameters for it."""
        count = self.consts[-1]
        given = self.call.args[self.first - count : self.first]
        return list(zip(given, self.functions[-1].params[:count], strict=True))

    @property
    def ends(self) -> list[Expr]:
        """What the body gives, or each of the branches."""
        givers = self.functions[1:] if self.is_loop else self.functions
        return [function.body.body for function in givers]

    def results(self, index: int) -> list[Expr]:
        """What these give for one field."""
        return [end.fields[index] for end in self.ends if isinstance(end, Tuple)]

    def params(self, index: int) -> list[Var]:
        """The parameters that get one of those that are handed over."""
        pairs = zip(self.functions, self.consts, strict=True)
        return [function.params[consts + index] for function, consts in pairs]
