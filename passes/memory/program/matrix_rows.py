"""Elementwise operators between two products of matrices, in the shape of the matrices.

A layer of rows, `(batch, length, width)`, is a product of matrices with `batch * length` rows, and
is reshaped before and behind it. XLA's compiler for CPUs lets a kernel take the memory of what it
reads only where both have one shape, number by number, and not through a reshape: of an activation
between two layers it would store one array more.
"""

import math
from collections.abc import Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Constant, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import static_dims
from relaxjax.ops.emit import reshaped
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.passes.simplification.tensors import is_elementwise_of_jax

_RESHAPE = "lax.reshape"


def with_matrix_rows(mod: IRModule, name: str) -> IRModule:
    """The module whose function `name` reshapes behind elementwise operators, not before them.

    That is where what they give is reshaped back. It is the very module where there is nothing.
    """
    function: Function = mod[name]
    rows = _MatrixRows(_reshaped_back(function))
    changed = expand_bindings(function, rows.value)
    if changed is function:
        return mod
    return mod.with_function(name, remove_all_unused(canonical_bindings(changed)))


def _reshaped_back(function: Function) -> dict[Var, int]:
    """What ends in a matrix, by elementwise operators alone, and how many axes are its rows."""
    found: dict[Var, int] = {}
    for binding in reversed(tuple(function.body.bindings())):
        dims = static_dims(binding.var.ty)
        if dims is None:
            continue
        if (x := _reshaped(binding.value)) is not None:
            if rows := _axes_of_rows(x, dims):
                found.setdefault(x, rows)
        elif binding.var in found and (call := _elementwise(binding.value)) is not None:
            for arg in call.args:
                if isinstance(arg, Var) and static_dims(arg.ty) == dims:
                    found.setdefault(arg, found[binding.var])
    return found


class _MatrixRows:
    """What the values of a function are computed by, where some are needed as matrices."""

    def __init__(self, wanted: dict[Var, int]) -> None:
        self.wanted = wanted
        self.matrices: dict[Var, Var] = {}

    def value(self, binding: Binding, builder: BlockBuilder) -> Expr | None:
        var, dims = binding.var, static_dims(binding.var.ty)
        if dims is None:
            return None
        if (x := _reshaped(binding.value)) is not None:
            if x in self.matrices:
                return reshaped(self.matrices[x], dims)
            if var in self.wanted and _axes_of_rows(var, static_dims(x.ty)) == self.wanted[var]:
                self.matrices[var] = x
            return None
        call = _elementwise(binding.value)
        if call is None or var not in self.wanted or self.matrices.keys().isdisjoint(call.args):
            return None
        args = [self.argument(arg, dims, self.wanted[var]) for arg in call.args]
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        assert isinstance(call.op, Op)
        matrix = builder.emit(call.op(*known, **call.attrs), f"{var.name}_rows")
        self.matrices[var] = matrix
        return reshaped(matrix, dims)

    def argument(self, arg: Expr, dims: Sequence[int], rows: int) -> Expr | None:
        """An argument as it goes with matrices, None where that is more than to see it so."""
        own = static_dims(arg.ty)
        if own == () or own is None:
            return arg if own == () else None
        if own == dims:
            return self.matrices.get(arg) if isinstance(arg, Var) else None
        first = own[:rows]
        is_for_all = all(length == 1 for length in first) or first == tuple(dims[:rows])
        if len(own) != len(dims) or not is_for_all:
            return None
        return reshaped(arg, (math.prod(first), *own[rows:]))


def _reshaped(value: Expr) -> Var | None:
    """What a value is in another shape."""
    if not isinstance(value, Call) or value.op is not get_op(_RESHAPE):
        return None
    (x,) = value.args
    return x if isinstance(x, Var) and value.attrs.get("dimensions") is None else None


def _elementwise(value: Expr) -> Call | None:
    """A call that computes each number of those at the same place of variables and constants."""
    if not isinstance(value, Call) or not is_elementwise_of_jax(value):
        return None
    return value if all(isinstance(arg, Var | Constant) for arg in value.args) else None


def _axes_of_rows(value: Var, matrix: Sequence[int] | None) -> int:
    """How many of the first axes of a value are one of the matrix, 0 where it is no such."""
    dims = static_dims(value.ty)
    if dims is None or matrix is None or len(matrix) < 2 or len(dims) <= len(matrix):
        return 0
    rows = len(dims) - len(matrix) + 1
    return rows if (math.prod(dims[:rows]), *dims[rows:]) == tuple(matrix) else 0
