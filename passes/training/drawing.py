"""Keys for what draws random numbers: others for each call of a closure and each step of a loop."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.emit_function import emit_sequence
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Expr, PrimExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr, VarBinding
from relaxjax.ir.inline import open_calls
from relaxjax.ir.op import get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ir.uses import count_uses, values_of_kind
from relaxjax.ir.walk import (
    all_vars,
    map_bindings,
    map_sequences,
    nested_bindings,
    post_order,
    used_vars,
)
from relaxjax.ops.loop_types import steps_of

# Whether a call draws, and what it becomes when it is given a key.
Draws = Callable[[Call], bool]
Drawn = Callable[[Call, Expr], Expr | None]

_SCAN = "relax.scan"


def with_keys_of_calls(
    function: Function, key: Var, numbers: Iterator[int], draws: Draws, drawn: Drawn
) -> Function:
    """`function` with each of its calls that draws given a key, made of `key` and a number.

    The bodies of closures that draw take the place of their calls. In a loop by R.scan, the keys
    are made of the number of the step, too.
    """
    function = _opened(function, draws)
    steps = _closures_that_draw(function, draws)
    _check_steps(function, steps)
    apart = {var: _without(closure, steps) for var, closure in steps.items()}
    return _Keys(draws, drawn, apart).given(_without(function, steps), key, numbers)


def folded(key: Expr, number: int | Expr) -> Expr:
    return get_op("relax.random.fold_in")(key, number)


@dataclass(frozen=True)
class _Keys:
    """Gives keys. `steps` are the closures that draw, each the body of loops."""

    draws: Draws
    drawn: Drawn
    steps: Mapping[Var, Function]

    def given(self, function: Function, key: Var, numbers: Iterator[int]) -> Function:
        def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
            call = binding.value
            if not isinstance(call, Call):
                return None
            if self.draws(call):
                return self.drawn(call, folded(key, next(numbers)))
            if any(arg in self.steps for arg in call.args):
                return self.loop(call, builder, folded(key, next(numbers)))
            return None

        return expand_bindings(function, rule)

    def loop(self, call: Call, builder: BlockBuilder, key: Expr) -> Expr:
        """A loop over its steps and their numbers."""
        body, init, xs = call.args
        assert isinstance(body, Var)
        assert xs.ty is not None
        count_of_steps = PrimExpr(steps_of(xs.ty, call.attrs["length"]))
        numbers = get_op("relax.arange")(PrimExpr(0), count_of_steps, PrimExpr(1), "int32")
        step = builder.emit(self.step(self.steps[body], key), body.name)
        return get_op(_SCAN)(step, init, Tuple((xs, numbers)), **call.attrs)

    def step(self, body: Function, key: Expr) -> Function:
        """`body(carry, (x, number))`, which draws by `key` and the number."""
        carry, x = body.params
        assert x.ty is not None
        both = Var(x.name, TupleType((x.ty, TensorType((), "int32"))))
        builder = BlockBuilder()
        with builder.scope(taken=[var.name for var in all_vars(body)]):
            builder.emit_binding(VarBinding(x, TupleGetItem(both, 0)))
            number = builder.emit(TupleGetItem(both, 1))
            own = builder.emit(folded(builder.emit(key), number), "key")
            inside = self.given(body, own, count()).body
            seq = builder.sequence(emit_sequence(builder, inside))
        made = make_function((carry, both), seq, pure=body.pure, attrs=body.attrs, span=body.span)
        step, _ = renew(made, visible=True)
        return step


def _opened(function: Function, draws: Draws) -> Function:
    """`function` with what closures that draw do in the place of their calls, and of no others."""
    while True:
        closures = _closures_that_draw(function, draws)

        def callee(call: Call, known: Mapping[Var, Function] = closures) -> Function | None:
            return known.get(call.op) if isinstance(call.op, Var) else None

        opened = open_calls(function, callee)
        if opened is function:
            return function
        left = count_uses(opened)
        function = _without(opened, [var for var in closures if not left.get(var)])


def _without(function: Function, closures: Collection[Var]) -> Function:
    """`function` without the bindings of some closures."""

    def less(seq: SeqExpr) -> SeqExpr:
        return map_bindings(seq, lambda binding: None if binding.var in closures else binding)

    return map_sequences(function, less) if closures else function


def _closures_that_draw(function: Function, draws: Draws) -> dict[Var, Function]:
    """The closures in a function that draw, or use one that does."""
    closures = values_of_kind(nested_bindings(function.body), Function)
    found = {var for var, closure in closures.items() if _has(closure, draws)}
    using = {var: set(used_vars(closure)) for var, closure in closures.items()}
    while more := {var for var, used in using.items() if var not in found and used & found}:
        found |= more
    for var in found:
        if var in using[var]:
            raise ValueError(
                f"`{var.name}` draws random numbers in training and calls itself, so that no one "
                "key is that of a call: write it as a loop by R.scan"
            )
    return {var: closures[var] for var in closures if var in found}


def _has(function: Function, draws: Draws) -> bool:
    return any(isinstance(expr, Call) and draws(expr) for expr in post_order(function))


def _check_steps(function: Function, steps: Mapping[Var, Function]) -> None:
    """What draws in a closure does so in steps of R.scan, which have numbers."""
    counts = count_uses(function)
    for call in (expr for expr in post_order(function) if isinstance(expr, Call)):
        for place, arg in enumerate(call.args):
            if not isinstance(arg, Var) or arg not in steps:
                continue
            if getattr(call.op, "name", "") != _SCAN or place:
                raise ValueError(
                    f"`{arg.name}` draws random numbers in training, and is handed to {call.op}, "
                    "which gives it no key: write a loop as R.scan, or draw the numbers outside"
                )
            counts[arg] -= 1
    for var in steps:
        if counts.get(var):
            raise ValueError(
                f"`{var.name}` draws random numbers in training and is a value, which is given no "
                "key: call it, or hand it to R.scan, by its name"
            )
