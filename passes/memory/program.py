"""A backward program as its planner sees it: steps in order, what each needs, takes and costs."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Constant, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.span import Span
from relaxjax.ir.types import Type
from relaxjax.ir.walk import free_vars, used_vars
from relaxjax.ops.cost import cost_of
from relaxjax.ops.cost_rules import VIEWS, UnknownCostError, byte_count, elements

from .caller import Caller, Rest, rest_of
from .loop_bodies import loop_bodies, rest_of_body
from .writes import is_write


class MemoryPlanError(ValueError):
    """A program whose memory cannot be planned, or not within a budget."""


_PRODUCTS = frozenset({"lax.dot_general", "relax.matmul"})
_TRANSPOSES = frozenset({"lax.transpose", "relax.permute_dims"})
_DEAR = frozenset({"lax.div", "lax.rem", "relax.divide"})
_BROADCASTS = frozenset({"lax.broadcast_in_dim", "relax.broadcast_to", "relax.full"})
_CHOICES = frozenset(
    f"lax.{name}" for name in ("select_n", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not")
)
_POINTWISE = frozenset({"elementwise", "broadcast", "injective"})
_FUSIBLE = _POINTWISE | {"reduction"}
# The flops an element of what XLA computes in each of several consumers.
_DEAREST_COPIED = 3


@dataclass(frozen=True, eq=False)
class Step:
    """One binding. Its value has `numbers` in `size` bytes, and computing it costs `flops`."""

    var: Var
    inputs: tuple[Var, ...]
    numbers: int
    size: int
    flops: int
    binding: Binding
    op: Op | None
    pure: bool

    @cached_property
    def is_view(self) -> bool:
        """Whether the value is another name, or another view, of the bytes of its inputs."""
        if self.op is not None:
            return (self.op.cost is VIEWS and not self.waits) or self._moves_no_number
        return isinstance(self.binding.value, Var | Tuple | TupleGetItem)

    @property
    def is_closure(self) -> bool:
        """Whether it is a function: no bytes that a loop could stack."""
        return isinstance(self.binding.value, Function)

    @cached_property
    def _moves_no_number(self) -> bool:
        """Whether it is a transpose that leaves the order of all axes but those of length 1."""
        call = self.binding.value
        if self._name != "lax.transpose" or not isinstance(call, Call):
            return False
        dims = getattr(call.args[0].ty, "dims", None) or ()
        order = [axis for axis in call.attrs["permutation"] if dims[axis] != 1]
        return order == sorted(order)

    @cached_property
    def pointwise(self) -> bool:
        """Whether XLA computes it inside what consumes it, if all of that is fusible."""
        return self.op is not None and (self.op.fusion in _POINTWISE or self.waits)

    @cached_property
    def is_elementwise(self) -> bool:
        """Whether each of its numbers needs only those at its place."""
        return self.op is not None and (self.op.fusion == "elementwise" or self.waits)

    @cached_property
    def expensive(self) -> bool:
        """Whether XLA would rather store a pointwise value than compute it in several places."""
        if self._name in _DEAR:
            return not self._has_one_divisor
        return self.flops > _DEAREST_COPIED * self.numbers or self.is_padded

    @cached_property
    def _has_one_divisor(self) -> bool:
        """Whether many numbers are divided by each: XLA multiplies by what 1 divided by it is."""
        call = self.binding.value
        return isinstance(call, Call) and elements(call.args[1].ty) != self.numbers

    @cached_property
    def is_padded(self) -> bool:
        """Whether there is something around its input, or elements are chosen by known numbers."""
        call = self.binding.value
        if not isinstance(call, Call):
            return False
        if self._name == "lax.gather":
            return isinstance(call.args[1], Constant)
        return self._name == "lax.pad" and any(
            size > 0 for sizes in call.attrs["padding_config"] for size in sizes
        )

    @cached_property
    def fusible(self) -> bool:
        """Whether XLA computes inside it the pointwise values that it consumes."""
        fusible = self.op is not None and self.op.fusion in _FUSIBLE
        return fusible or self.waits or self._name == "lax.reduce"

    @cached_property
    def waits(self) -> bool:
        """Whether the value is the first input, had once the second is computed."""
        return self._name == "relax.grad.delay"

    @cached_property
    def is_product(self) -> bool:
        """Whether it is a product of matrices, which XLA reads from the tensors that it takes."""
        return self._name in _PRODUCTS

    @cached_property
    def is_written(self) -> bool:
        return is_write(self.binding.value)

    @cached_property
    def is_transpose(self) -> bool:
        return self._name in _TRANSPOSES

    @cached_property
    def layouts(self) -> dict[Var, tuple[int, ...]]:
        """The orders of axes in which a convolution reads its tensors, where not their own."""
        call = self.binding.value
        if self._name != "lax.conv_general_dilated" or not isinstance(call, Call):
            return {}
        numbers: Any = call.attrs["dimension_numbers"]["ConvDimensionNumbers"]
        image, kernel = numbers["lhs_spec"], numbers["rhs_spec"]
        orders = ((image[0], *image[2:], image[1]), (*kernel[2:], kernel[1], kernel[0]))
        return {
            arg: order
            for arg, order in zip(call.args, orders, strict=False)
            if isinstance(arg, Var) and order != tuple(range(len(order)))
        }

    @property
    def is_broadcast(self) -> bool:
        """Whether it has the numbers of its input, each once or several times."""
        return self._name in _BROADCASTS

    @cached_property
    def is_reduction(self) -> bool:
        return self.op is not None and self.op.fusion == "reduction"

    @cached_property
    def is_unary(self) -> bool:
        """Whether at most one of its inputs is as large as it is."""
        return sum(size_of(var) >= self.size for var in self.inputs) <= 1

    @cached_property
    def is_sum(self) -> bool:
        """Whether numbers far apart are summed up, which XLA leaves to a library."""
        call = self.binding.value
        return self._name == "lax.reduce_sum" and isinstance(call, Call) and 0 in call.attrs["axes"]

    @cached_property
    def is_arithmetic(self) -> bool:
        """Whether what XLA calls for reductions can compute it as well."""
        return self.pointwise and self._name not in _CHOICES and not self._moves

    @cached_property
    def is_moved(self) -> bool:
        """Whether it is a part or another order of its inputs, for which a kernel reads them."""
        return self._moves and not self.is_transpose and not self.is_view

    @cached_property
    def _moves(self) -> bool:
        op = self.op
        return op is not None and op.fusion == "injective" and self._name not in _BROADCASTS

    @cached_property
    def _name(self) -> str:
        return "" if self.op is None else self.op.name

    @property
    def span(self) -> Span | None:
        return self.binding.span or self.binding.value.span


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of an adjoint function, of which the first `split` are the forward program.

    After its own there may be those of a function that calls it, the `rest`.
    """

    function: Function
    steps: tuple[Step, ...]
    split: int
    rest: Rest | None = None
    loops: Mapping[Var, "Program"] = field(default_factory=dict)  # what each computes a step

    @staticmethod
    def of(
        function: Function,
        mod: IRModule,
        name: str,
        caller: Caller | None = None,
        like: "Program | None" = None,
    ) -> "Program":
        """Read an adjoint: what the function it is of returns, then a tuple of the gradients.

        Bindings that a program `like` it has as well are known from there.
        """
        body = function.body.body
        if not (isinstance(body, Tuple) and len(body.fields) >= 2):
            raise MemoryPlanError(
                f"`{name}` returns {body.ty}, which is not what an adjoint returns: a result and a "
                "tuple of gradients; give the name of a function that Gradient has written"
            )
        bindings = list(function.body.bindings())
        closures = {b.var: b.value for b in bindings if isinstance(b.value, Function)}
        # What a loop costs is not said by its binding alone.
        known = {step.binding: step for step in like.steps} if like and not closures else {}
        steps = tuple(known.get(b) or read_step(b, mod, name, closures) for b in bindings)
        results = {var for field in body.fields[:-1] for var in used_vars(field)}
        last = max((i for i, step in enumerate(steps) if step.var in results), default=-1)
        loops = dict(Program._loops(closures, bindings, mod, name))
        if caller is None:
            return Program(function, steps, last + 1, None, loops)
        rest = rest_of(mod.with_function(name, function), name, caller)
        after = tuple(read_step(binding, mod, caller.name) for binding in rest.bindings)
        return Program(function, (*steps, *after), last + 1, rest, loops)

    @staticmethod
    def _loops(
        closures: Mapping[Var, Function], bindings: Sequence[Binding], mod: IRModule, name: str
    ) -> Iterator[tuple[Var, "Program"]]:
        """The loops among some bindings, and what each of them computes in a step."""
        for var, function in loop_bodies(closures, bindings):
            body = list(function.body.bindings())
            own = {b.var: b.value for b in body if isinstance(b.value, Function)}
            rest = rest_of_body(function)
            with suppress(MemoryPlanError):  # its shapes may be known to the loop only
                steps = tuple(read_step(b, mod, name, own) for b in (*body, *rest.bindings))
                loops = dict(Program._loops(own, body, mod, name))
                yield var, Program(function, steps, len(steps), rest, loops)

    @property
    def forward(self) -> tuple[Step, ...]:
        return self.steps[: self.split]

    @property
    def backward(self) -> tuple[Step, ...]:
        return self.steps[self.split :]

    @cached_property
    def step_of(self) -> dict[Var, Step]:
        return {step.var: step for step in self.steps}

    @cached_property
    def results(self) -> frozenset[Var]:
        """The variables that are returned: their bytes are the caller's."""
        if self.rest is not None:
            return self.rest.results
        return frozenset(used_vars(self.function.body.body))

    @property
    def given(self) -> Mapping[Var, Var]:
        """What stands for parameters whose memory results take, and the first name of each."""
        return {} if self.rest is None else self.rest.given

    @property
    def in_place(self) -> Mapping[Var, Var | None]:
        """The results that take the memory of parameters, and which."""
        return {} if self.rest is None else self.rest.in_place

    @cached_property
    def foreign(self) -> frozenset[Var]:
        """The variables that are not of the adjoint, but of what calls it."""
        return (
            frozenset(b.var for b in self.rest.bindings) if self.rest is not None else frozenset()
        )

    @cached_property
    def gradients(self) -> frozenset[Var]:
        """The results of the backward program that its caller computes with."""
        return self.pinned & frozenset(step.var for step in self.backward)

    @cached_property
    def updated_alone(self) -> frozenset[Var]:
        """The gradients that the caller takes one by one: nothing that it computes needs two."""
        behind: dict[Var, frozenset[Var]] = {var: frozenset({var}) for var in self.gradients}
        together: set[Var] = set()
        for step in self.steps[len(self.steps) - len(self.foreign) :]:
            if isinstance(step.binding.value, Tuple):
                continue
            found = frozenset[Var]().union(*(behind.get(v, frozenset()) for v in step.inputs))
            behind[step.var] = found
            if len(found) > 1:
                together |= found
        return self.gradients - together

    @cached_property
    def pinned(self) -> frozenset[Var]:
        """The values that must be as they are: what calls the adjoint uses them."""
        late = [step for step in self.steps if step.var in self.foreign]
        return frozenset(var for step in late for var in step.inputs) - self.foreign

    @cached_property
    def users(self) -> dict[Var, list[Step]]:
        """The steps that use each variable."""
        found: dict[Var, list[Step]] = {}
        for step in self.steps:
            for var in step.inputs:
                found.setdefault(var, []).append(step)
        return found

    @cached_property
    def depth(self) -> dict[Var | None, int]:
        """How many steps each value lies behind."""
        found: dict[Var | None, int] = {}
        for step in self.steps:
            found[step.var] = 1 + max((found.get(var, 0) for var in step.inputs), default=0)
        return found

    @cached_property
    def kernel_depth(self) -> dict[Var, int]:
        """How many steps each value lies behind that others are not computed inside of."""
        found: dict[Var, int] = {}
        for step in self.steps:
            inside = step.pointwise or step.is_view
            before = max((found.get(var, 0) for var in step.inputs), default=0)
            found[step.var] = before if inside else before + 1
        return found

    @cached_property
    def residuals(self) -> tuple[Step, ...]:
        """The forward values that the backward program uses."""
        late = {var for step in self.backward for var in step.inputs}
        return tuple(step for step in self.forward if step.var in late)


def size_of(var: Var) -> int:
    """The bytes of a variable; those of unknown size are the largest."""
    return _size_of(var.ty)


@lru_cache(maxsize=4096)
def _size_of(ty: Type | None) -> int:
    try:
        size = byte_count(ty)
    except UnknownCostError:
        return sys.maxsize
    return size if isinstance(size, int) else sys.maxsize


def read_step(
    binding: Binding, mod: IRModule, name: str, closures: Mapping[Var, Function] | None = None
) -> Step:
    """A binding of the function `name` as a step. `closures` are the functions defined in it."""
    value = binding.value
    call = value if isinstance(value, Call) else None
    cost = None if call is None else cost_of(call, mod, closures)
    flops = 0 if cost is None else _known(cost.flops, binding, name)
    return Step(
        binding.var,
        free_vars(value),
        _counted(elements, binding, name),
        _counted(byte_count, binding, name),
        flops,
        binding,
        call.op if call is not None and isinstance(call.op, Op) else None,
        isinstance(value, _PLAIN) or (call is not None and is_pure_call(call)),
    )


_PLAIN = (Var, Tuple, TupleGetItem, Constant, ShapeExpr)


def _counted(count: Callable[[Type | None], Dim], binding: Binding, name: str) -> int:
    """Something that is counted of the value of a binding."""
    try:
        return _known(count(binding.var.ty), binding, name)
    except UnknownCostError:
        raise _unknown(binding, name) from None


def _known(count: object, binding: Binding, name: str) -> int:
    if not isinstance(count, int):
        raise _unknown(binding, name)
    return count


def _unknown(binding: Binding, name: str) -> MemoryPlanError:
    return MemoryPlanError(
        f"in `{name}`, the size of `{binding.var.name}` of type {binding.var.ty} is not known: "
        "memory is planned for values of known sizes only"
    )
