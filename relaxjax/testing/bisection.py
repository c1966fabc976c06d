"""Where in a function its derivative goes wrong, found by halving its bindings again and again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax

from relaxjax.ir.builder import make_function
from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Call, GlobalVar, Tuple, Var
from relaxjax.ir.function import Binding, BindingBlock, Function, If, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.reached import reached
from relaxjax.ir.renew import renew
from relaxjax.ir.types import FuncType
from relaxjax.ir.walk import free_vars, substitute, used_vars
from relaxjax.lowering import to_jax
from relaxjax.lowering.arguments import as_jax
from relaxjax.lowering.interpreter import Frame, Interpreter
from relaxjax.lowering.trial import all_float, as_far_as_jax_can, derivative_difference, spread_like
from relaxjax.passes import Gradient, GradientError, Jvp

from .blame import faults_of_calls


def faulty_rules(mod: IRModule, name: str, args: Sequence[Any]) -> list[str]:
    """A line for each operator whose gradient or tangent is wrong where the function calls it."""
    found = dict.fromkeys(Bisection(mod).function(mod[name], list(map(as_jax, args))))
    if not found:
        return ["each operator's own rule is right here: what puts them together is at fault"]
    return list(found)


@dataclass
class Bisection:
    """A search through one module; `tried` counts the runs of bindings that it has checked."""

    mod: IRModule
    tried: int = 0
    searched: list[Function] = field(default_factory=list)

    def function(self, function: Function, args: Sequence[Any]) -> Iterator[str]:
        """What is wrong in a function, called with `args`; each is searched once."""
        if any(function is other for other in self.searched):
            return
        self.searched.append(function)
        watcher = _Watcher(self.mod, function)
        watcher.run(function, args, "main", None)
        bindings = tuple(function.body.bindings())
        closures = {b.var: b for b in bindings if isinstance(b.value, Function)}
        rest = tuple(binding for binding in bindings if binding.var not in closures)
        outputs = used_vars(function.body.body)
        yield from self.run(Run(watcher, function.params, closures, rest, outputs))

    def run(self, run: "Run") -> Iterator[str]:
        """What is wrong in a run of bindings: in its one binding, or in its halves."""
        self.tried += 1
        if not run.bindings or run.is_right():
            return
        if len(run.bindings) == 1:
            yield from self.binding(run)
        else:
            for half in run.halves():
                yield from self.run(half)

    def binding(self, run: "Run") -> Iterator[str]:
        """What is wrong in one binding; what it calls or chooses is searched in its turn."""
        value, watcher = run.bindings[0].value, run.watcher
        match value:
            case Call(op=GlobalVar() as callee) if isinstance(self.mod[callee], Function):
                args = [watcher.value(arg, watcher.frame) for arg in value.args]
                yield from self.function(self.mod[callee], args)
            case If() if not run.needed_closures:
                chosen = bool(watcher.value(value.cond, watcher.frame))
                branch = value.true_branch if chosen else value.false_branch
                outputs = used_vars(branch.body)
                taken = replace(run, bindings=tuple(branch.bindings()), outputs=outputs)
                yield from self.function(taken.function, taken.args)
            case _:
                yield from faults_of_calls(run.module, "main", run.args)


class _Watcher(Interpreter):
    """Runs a function, and keeps the values of its variables."""

    def __init__(self, mod: IRModule, function: Function) -> None:
        super().__init__(mod)
        self.body = function.body
        self.frame = Frame("main", {})

    def sequence(self, seq: SeqExpr, frame: Frame) -> Any:
        if seq is self.body:
            self.frame = frame
        return super().sequence(seq, frame)


@dataclass(frozen=True)
class Run:
    """Some bindings of a function that was run, as a function of what they use.

    `given` are the parameters of the function around them, which tell its symbolic dimensions.
    """

    watcher: _Watcher
    given: Sequence[Var]
    closures: dict[Var, Binding]
    bindings: tuple[Binding, ...]
    outputs: tuple[Var, ...]

    def halves(self) -> tuple["Run", "Run"]:
        middle = len(self.bindings) // 2
        first, second = self.bindings[:middle], self.bindings[middle:]
        wanted = {*self.outputs, *(var for b in second for var in used_vars(b.value))}
        handed_on = tuple(b.var for b in first if b.var in wanted)
        outputs = tuple(var for var in self.outputs if var in {b.var for b in second})
        return replace(self, bindings=first, outputs=handed_on), replace(
            self, bindings=second, outputs=outputs
        )

    @cached_property
    def needed_closures(self) -> tuple[Binding, ...]:
        """The closures that the bindings use, and those that these use."""
        used = (var for b in self.bindings for var in used_vars(b.value))
        known = {var: used_vars(binding.value) for var, binding in self.closures.items()}
        needed = set(reached(used, lambda var: known.get(var, ())))
        return tuple(binding for var, binding in self.closures.items() if var in needed)

    @cached_property
    def free(self) -> tuple[Var, ...]:
        """The variables that the bindings take from around them."""
        whole = SeqExpr((BindingBlock((*self.needed_closures, *self.bindings)),), Tuple())
        return tuple(var for var in free_vars(whole) if not isinstance(var.ty, FuncType))

    @cached_property
    def params(self) -> tuple[Var, ...]:
        given = (var for var in self.given if not isinstance(var.ty, FuncType))
        return tuple(dict.fromkeys((*given, *self.free)))

    @property
    def args(self) -> list[Any]:
        return [self.watcher.frame.env[var] for var in self.params]

    @cached_property
    def function(self) -> Function:
        own = {var: Var(f"x{index}", var.ty) for index, var in enumerate(self.params)}
        blocks = (BindingBlock((*self.needed_closures, *self.bindings)),)
        floats = tuple(var for var in self.outputs if all_float(var.ty))
        body = substitute(SeqExpr(blocks, Tuple(floats)), own)
        return renew(make_function(tuple(own.values()), body, pure=False), visible=True)[0]

    @cached_property
    def module(self) -> IRModule:
        return self.watcher.mod.with_function("main", self.function)

    def is_right(self) -> bool:
        """Whether the gradient and the tangent of the bindings are those of JAX."""
        params, args = self.function.params, self.args
        places = [i for i, var in enumerate(self.params) if var in self.free and all_float(var.ty)]
        result = self.function.body.body
        assert isinstance(result, Tuple)
        count = len(result.fields)
        if not places:
            return True
        if any(carries_gradient(var.ty) and not all_float(var.ty) for var in self.outputs):
            return False  # such as a loop that gives a carry and nothing a step
        if not count:
            return True

        def forward(*moving: Any) -> Any:
            values = dict(zip(places, moving, strict=True))
            return to_jax(self.module, "main")(*(values.get(i, a) for i, a in enumerate(args)))

        floats = [args[place] for place in places]
        v = spread_like(floats, start=1)
        u = spread_like(forward(*floats))

        def pushed_by_jax(floats: Any, v: Any) -> Any:
            return jax.jvp(forward, floats, v)[1]

        def pulled_by_jax(floats: Any, u: Any) -> Any:
            return list(jax.vjp(forward, *floats)[1](u))

        known = as_far_as_jax_can(lambda: (pushed_by_jax(floats, v), pulled_by_jax(floats, u)))
        if known is None:
            return False  # nobody knows: what it holds is looked at one by one
        try:
            wanted, targets = [params[i] for i in places], list(range(count))
            adjoint = Gradient("main", wanted, targets, cotangent=True)(self.module)
            pushed = Jvp("main", wrt=[param.name for param in wanted])(self.module)
        except GradientError:
            return len(self.bindings) == 1  # what the derivative does not go through
        _, found = to_jax(adjoint, "main_adjoint")(*args, *u)
        _, tangent = to_jax(pushed, "main_jvp")(*args, *v)
        moved, expected = known
        return not (
            derivative_difference(list(found), expected, pulled_by_jax, (floats, u))
            or derivative_difference(tangent, moved, pushed_by_jax, (floats, v))
        )
