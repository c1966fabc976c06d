"""The derivatives of what writes into a tensor at places that tensors of indices say."""

from collections.abc import Callable
from dataclasses import dataclass

from relaxjax.ir.expr import Expr
from relaxjax.ir.types import is_float

from .emit import call, dtype_of, shape_of, tensor_type, where


def is_empty(data: Expr) -> bool:
    """Whether a tensor is known to have no elements: whatever is written, is written nowhere."""
    return 0 in (tensor_type(data).dims or ())


@dataclass(frozen=True, slots=True)
class Scatter:
    """How one call writes, by the reduction, and what reads the places that it writes to.

    What would be written outside of a tensor is left out; `is_inside` says what is not.
    """

    write: Callable[[Expr, Expr, str], Expr]
    read: Callable[[Expr], Expr]
    is_inside: Callable[[Expr], Expr]

    def gradient(
        self, g: Expr, y: Expr, data: Expr, updates: Expr, reduction: str
    ) -> tuple[Expr, Expr]:
        """The adjoints of `data` and `updates`, where the reduction is update, add or mul."""
        if is_empty(data):
            return g, call("zeros_like", updates)
        if reduction == "add":
            return g, self._of_written(data, self.read(g))
        if reduction == "mul":
            factors = self._times_others(g, y, data, updates)
            return self.write(g, updates, "mul"), self._of_written(data, factors)
        kept = self.write(g, call("zeros_like", updates), "update")
        read = self.read(g)
        return kept, where(self._took_place(data, read), read, call("zeros_like", read))

    def product_tangent(
        self, of_data: Expr | None, of_updates: Expr | None, y: Expr, data: Expr, updates: Expr
    ) -> Expr:
        """The tangent where the reduction is mul."""
        still = call("zeros_like", data)
        moved = still if of_data is None else self.write(of_data, updates, "mul")
        if of_updates is None:
            return moved
        factors = self._times_others(call("ones_like", data), y, data, updates)
        return self.write(moved, of_updates * factors, "add")

    def _of_written(self, data: Expr, adjoints: Expr) -> Expr:
        return where(self._was_written(data), adjoints, call("zeros_like", adjoints))

    def _was_written(self, data: Expr) -> Expr:
        """Where the shape is known when the program runs only, what can be read tells."""
        if tensor_type(data).dims is not None:
            return self.is_inside(data)
        read = self.read(call("ones_like", data, dtype="int32"))
        return call("equal", read, call("ones_like", read))

    def _times_others(self, g: Expr, y: Expr, data: Expr, updates: Expr) -> Expr:
        """For each update, at its place, `g` times the product of all but the update.

        That is the whole product divided by the update, but where the update is zero. Which ones
        are is asked of updates that are computed once: the answers are read together. The other
        zeros at its place are factors as well, and their product has derivatives: of one and of two
        it is told by sums of them and of their squares. So derivatives are exact up to the third.
        """
        if is_float(dtype_of(updates)):
            updates = call("grad.once", updates)
        ones, zeros = call("ones_like", updates), call("zeros_like", updates)
        is_zero = call("equal", updates, zeros)
        divisors, small = where(is_zero, ones, updates), where(is_zero, updates, zeros)
        nothing = call("zeros_like", data)
        count, sums, squares = (
            self.read(self.write(nothing, each, "add"))
            for each in (where(is_zero, ones, zeros), small, small * small)
        )
        other = sums - small
        pair = (other * other - (squares - small * small)) * 0.5
        of_zeros = where(call("equal", count, ones * 3), pair, zeros)
        of_zeros = where(call("equal", count, ones * 2), other, of_zeros)
        of_zeros = where(call("equal", count, ones), ones, of_zeros)
        of_others = self.read(g * self.write(data, divisors, "mul")) * of_zeros
        return where(is_zero, of_others, self.read(g * y) / divisors)

    def _took_place(self, data: Expr, read: Expr) -> Expr:
        """Whether an update is what stands at its place: of several for one place, one is."""
        running = call("cumsum", call("ones_like", read, dtype="int32"))
        numbers = call("reshape", running, shape_of(read))
        written = self.write(call("zeros_like", data, dtype="int32"), numbers, "update")
        return call("equal", self.read(written), numbers)
