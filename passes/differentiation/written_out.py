"""Adjoints as TVM writes them: what is added to one is bound at once, a tuple whole.

The names and the order of what TVM writes follow from what was added when, so this is a way to add
and no pass over the finished program, which does not hold that any more.
"""

from relaxjax.ir.expr import Expr, Var

from .adjoint import Adjoint, Cotangent, named_after


class WrittenOut(Adjoint):
    """Each sum is a variable of its own; the zeros in a tuple are tensors, and added to."""

    def sum(self, before: Cotangent, added: Cotangent, var: Var) -> Var:
        whole = self.total(before, added) if isinstance(before, Expr) else self.whole(added, var)
        return self.builder.emit(whole, named_after(var))

    def parts(self, adjoint: Cotangent) -> dict[int, Cotangent]:
        """The fields of a tuple that is bound before they are taken."""
        return super().parts(self.leaf(adjoint) if isinstance(adjoint, Expr) else adjoint)
