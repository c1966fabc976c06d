"""Loops and choices of JAX: which parameters of their functions get which arguments."""

from dataclasses import dataclass

from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import operator_name
from relaxjax.ir.types import FuncType
from relaxjax.ir.uses import Uses

_WHILE, _SCAN, _CHOICE = "lax.while_loop", "lax.scan", "lax.switch"
LOOPS = (_WHILE, _SCAN)


@dataclass(frozen=True)
class ControlCall:
    """A loop with its body, behind its condition if it has one, or a choice with its branches.

    Behind `first` arguments come those that a loop carries, or that a choice hands to its branches,
    so many as `count` says. Each function gets so many constants of a loop before, as `consts`
    tells. What a loop carries are the first fields that it gives.
    """

    call: Call
    names: tuple[Expr, ...]  # of the functions
    functions: tuple[Function, ...]
    consts: tuple[int, ...]
    first: int
    count: int

    @staticmethod
    def of(value: Expr | None, known: Uses) -> "ControlCall | None":
        """What a value calls, where its functions are known, and give tuples."""
        name = operator_name(value)
        if not isinstance(value, Call) or name not in (*LOOPS, _CHOICE):
            return None
        names = tuple(arg for arg in value.args if isinstance(arg.ty, FuncType))
        found = map(known.value, names)
        functions = tuple(one for one in found if isinstance(one, Function))
        if len(functions) < len(names):
            return None
        attrs, consts = value.attrs, (0,) * len(names)
        if name == _WHILE:
            consts = attrs["cond_consts"], attrs["body_consts"]
        elif name == _SCAN:
            consts = (attrs["num_consts"],)
        first = len(names) + sum(consts) + (name == _CHOICE)  # which has an index
        count = attrs["num_carry"] if name == _SCAN else len(value.args) - first
        one = ControlCall(value, names, functions, consts, first, count)
        return one if all(isinstance(end, Tuple) for end in one.ends) else None

    @property
    def is_loop(self) -> bool:
        return operator_name(self.call) in LOOPS

    @property
    def condition(self) -> Function | None:
        return self.functions[0] if operator_name(self.call) == _WHILE else None

    @property
    def handed(self) -> tuple[Expr, ...]:
        """What a loop carries at first, or what the branches get."""
        return self.call.args[self.first : self.first + self.count]

    @property
    def constants(self) -> list[tuple[Expr, Var]]:
        """What the body of a loop gets in each of its steps, with its parameters for it."""
        count = self.consts[-1]
        given = self.call.args[self.first - count : self.first]
        return list(zip(given, self.functions[-1].params[:count], strict=True))

    @property
    def ends(self) -> list[Expr]:
        """What the body gives, or each of the branches."""
        givers = self.functions if self.condition is None else self.functions[1:]
        return [function.body.body for function in givers]

    def results(self, index: int) -> list[Expr]:
        """What these give for one field."""
        return [end.fields[index] for end in self.ends if isinstance(end, Tuple)]

    def params(self, index: int) -> list[Var]:
        """The parameters that get one of those that are handed over."""
        pairs = zip(self.functions, self.consts, strict=True)
        return [function.params[consts + index] for function, consts in pairs]
