"""What is made of random numbers alone, stored once for the kernels that read it."""

from collections import Counter
from dataclasses import dataclass, field

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import is_float
from relaxjax.ir.walk import used_vars
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.tensors import is_elementwise_of_jax

from .program.step import size_of

_DRAWS = frozenset({"lax.random_bits", "lax.rng_bit_generator"})
_MOVES = frozenset({"lax.bitcast_convert_type", "lax.broadcast_in_dim", "lax.reshape"})
_SMALL = 2**12  # bytes, of which fewer are left as they are


@pass_factory(opt_level=0, kind="function")
def StoreDraws(function: Function, mod: IRModule) -> Function:
    """Store what is made of random numbers alone, such as the mask of a dropout, for all readers.

    XLA's compiler for CPUs makes a mask anew in each kernel that reads it, of eight bytes of random
    bits for each element, which live until the last reader, in the backward part, is done. A mask
    that is stored has one byte. Of values that are made of each other, the smallest is stored. The
    function is to be legalised, and for other platforms it stays as it is.
    """
    if chosen_platform() != "cpu":
        return function
    drawn = _Drawn()
    for binding in function.body.bindings():
        drawn.add(binding)
    results = used_vars(function.body.body)
    drawn.readers.update({drawn.least[v] for v in results if v in drawn.least})
    stored = {var for var, readers in drawn.readers.items() if readers > 1 and _can_be_stored(var)}

    def rule(binding: Binding, builder: BlockBuilder) -> Expr | None:
        if binding.var not in stored:
            return None
        return get_op("relax.grad.once")(builder.emit(binding.value, f"{binding.var.name}_drawn"))

    return expand_bindings(function, rule) if stored else function


@dataclass
class _Drawn:
    """What is made of random numbers alone, and by how many others it is read."""

    # For each the smallest that it is made of, which may be itself.
    least: dict[Var, Var] = field(default_factory=dict)
    readers: Counter[Var] = field(default_factory=Counter)
    fixed: set[Var] = field(default_factory=set)  # what is made of constants alone

    def add(self, binding: Binding) -> None:
        var, value = binding.var, binding.value
        read = {self.least[v] for v in used_vars(value) if v in self.least}
        if not self.is_made(value):
            self.readers.update(read)
        elif not read and not _draws(value):
            self.fixed.add(var)
        else:
            smaller = [v for v in read if size_of(v) < size_of(var)]
            self.least[var] = smaller[0] if len(read) == len(smaller) == 1 else var

    def is_made(self, value: Expr) -> bool:
        """Whether a value is random numbers, or made of such and of constants."""
        if _draws(value):
            return True
        known = all(v in self.least or v in self.fixed for v in used_vars(value))
        return known and (is_elementwise_of_jax(value) or operator_name(value) in _MOVES)


def _draws(value: Expr) -> bool:
    return operator_name(value) in _DRAWS


def _can_be_stored(var: Var) -> bool:
    """Whether `R.grad.once` takes it, and it is worth a kernel."""
    dtype = known_dtype(var)
    if dtype is None or not (is_float(dtype) or dtype.startswith(("bool", "uint"))):
        return False
    return size_of(var) >= _SMALL
