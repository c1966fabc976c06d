"""One binding as a planner of memory sees it: what it takes and costs, and what XLA makes of it."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Constant, Expr, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.span import Span
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ir.types import Type
from relaxjax.ir.walk import free_vars
from relaxjax.ops.cost import cost_of
from relaxjax.ops.cost_rules import VIEWS, UnknownCostError, byte_count, elements

from .found_once import found_once


class MemoryPlanError(ValueError):
    """A program whose memory cannot be planned, or not within a budget."""


_PRODUCTS = frozenset({"lax.dot_general", "relax.matmul"})
_TRANSPOSES = frozenset({"lax.transpose", "relax.permute_dims"})
_DEAR = frozenset({"lax.div", "lax.rem", "relax.divide"})
_BROADCASTS = frozenset({"lax.broadcast_in_dim", "relax.broadcast_to", "relax.full"})
_CHOICES = frozenset(
    f"lax.{name}" for name in ("select_n", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not")
)
_WRITES = ("lax.scatter", "lax.dynamic_update_slice")
_POINTWISE = frozenset({"elementwise", "broadcast", "injective"})
_FUSIBLE = _POINTWISE | {"reduction"}
# The bytes of a word of JAX's own generator of random numbers, threefry.
_WORD = 4
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

    @found_once
    def is_view(self) -> bool:
        """Whether the value is another name, or another view, of the bytes of its inputs."""
        if self.op is not None:
            return (self.op.cost is VIEWS and not self.waits) or self._moves_no_number
        return isinstance(self.binding.value, Var | Tuple | TupleGetItem)

    @found_once
    def is_name(self) -> bool:
        """Whether it is a view, or a function, which reads what it needs where it is run.

        A CPU leaves in their place what others send to the host and fetch.
        """
        return self.is_view or self.is_closure or self.is_sent or self.is_fetched

    @found_once
    def is_closure(self) -> bool:
        """Whether it is a function: no bytes that a loop could stack."""
        return isinstance(self.binding.value, Function)

    @found_once
    def _moves_no_number(self) -> bool:
        """Whether it is a transpose that leaves the order of all axes but those of length 1."""
        call = self.binding.value
        if self._name != "lax.transpose" or not isinstance(call, Call):
            return False
        dims = getattr(call.args[0].ty, "dims", None) or ()
        order = [axis for axis in call.attrs["permutation"] if dims[axis] != 1]
        return order == sorted(order)

    @found_once
    def pointwise(self) -> bool:
        """Whether XLA computes it inside what consumes it, if all of that is fusible."""
        fuses = self.op is not None and self.op.fusion in _POINTWISE
        return fuses or self.waits or self.is_outer_product

    @found_once
    def is_elementwise(self) -> bool:
        """Whether each of its numbers needs only those at its place."""
        return self.op is not None and (self.op.fusion == "elementwise" or self.waits)

    @found_once
    def alike(self) -> frozenset[Var]:
        """Those of its inputs that are of its value's type."""
        return frozenset(var for var in self.inputs if var.ty == self.var.ty)

    @found_once
    def expensive(self) -> bool:
        """Whether XLA would rather store a pointwise value than compute it in several places."""
        if self._name in _DEAR:
            return not self._has_one_divisor
        return self.flops > _DEAREST_COPIED * self.numbers or self.is_padded

    @found_once
    def _has_one_divisor(self) -> bool:
        """Whether many numbers are divided by each: XLA multiplies by what 1 divided by it is."""
        call = self.binding.value
        return isinstance(call, Call) and elements(call.args[1].ty) != self.numbers

    @found_once
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

    @found_once
    def fusible(self) -> bool:
        """Whether XLA computes inside it the pointwise values that it consumes."""
        fusible = self.op is not None and self.op.fusion in _FUSIBLE
        return fusible or self.waits or self._name == "lax.reduce" or self.is_outer_product

    @found_once
    def waits(self) -> bool:
        """Whether the value is the first input, had once the second is computed."""
        return self._name == "relax.grad.delay"

    @found_once
    def is_threefry(self) -> bool:
        """Whether it draws random numbers by JAX's own generator, which is a loop over rounds."""
        key = self.inputs[0].ty if self.inputs else None
        return self._name == "lax.random_bits" and getattr(key, "dtype", None) == "key<fry>"

    @property
    def drawn_bytes(self) -> int:
        """What it takes until they are read: two words of 32 bits for each."""
        return 2 * _WORD * self.numbers if self.is_threefry else 0

    @property
    def is_quotient(self) -> bool:
        """Whether it divides numbers by others."""
        return self._name == "lax.div"

    @found_once
    def is_sent(self) -> bool:
        """Whether the value goes to the memory of the host."""
        return self._name == "relax.memory.to_host"

    @found_once
    def is_fetched(self) -> bool:
        """Whether it comes back from there."""
        return self._name == "relax.memory.to_device"

    @found_once
    def is_product(self) -> bool:
        """Whether it is a product of matrices, which XLA reads from the tensors that it takes."""
        return self._name in _PRODUCTS and not self.is_outer_product

    @found_once
    def is_outer_product(self) -> bool:
        """Whether it is a product that sums up nothing: XLA multiplies numbers that it broadcasts.

        Such is the gradient of a matrix for one sample.
        """
        call = self.binding.value
        if self._name != "lax.dot_general" or not isinstance(call, Call):
            return False
        dims = static_dims(call.args[0].ty)
        summed = call.attrs["dimension_numbers"][0][0]
        return dims is not None and all(dims[axis] == 1 for axis in summed)

    @found_once
    def is_written(self) -> bool:
        return is_write(self.binding.value)

    @found_once
    def is_transpose(self) -> bool:
        return self._name in _TRANSPOSES

    @found_once
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

    @found_once
    def is_broadcast(self) -> bool:
        """Whether it has the numbers of its input, each once or several times."""
        return self._name in _BROADCASTS

    @found_once
    def is_reduction(self) -> bool:
        return self.op is not None and self.op.fusion == "reduction"

    @found_once
    def is_unary(self) -> bool:
        """Whether at most one of its inputs is as large as it is."""
        return sum(size_of(var) >= self.size for var in self.inputs) <= 1

    @found_once
    def is_sum(self) -> bool:
        """Whether numbers far apart are summed up, which XLA leaves to a library."""
        call = self.binding.value
        return self._name == "lax.reduce_sum" and isinstance(call, Call) and 0 in call.attrs["axes"]

    @found_once
    def is_arithmetic(self) -> bool:
        """Whether what XLA calls for reductions can compute it as well."""
        return self.pointwise and self._name not in _CHOICES and not self._moves

    @found_once
    def is_moved(self) -> bool:
        """Whether it is a part or another order of its inputs, for which a kernel reads them."""
        return self._moves and not self.is_transpose and not self.is_view

    @found_once
    def _moves(self) -> bool:
        op = self.op
        return op is not None and op.fusion == "injective" and self._name not in _BROADCASTS

    @found_once
    def _name(self) -> str:
        return "" if self.op is None else self.op.name

    @property
    def span(self) -> Span | None:
        return self.binding.span or self.binding.value.span


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


def is_write(value: Expr) -> bool:
    """Whether a value is its first tensor with some numbers changed, which XLA does in place."""
    return (
        isinstance(value, Call) and isinstance(value.op, Op) and value.op.name.startswith(_WRITES)
    )
