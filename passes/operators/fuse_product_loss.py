"""The loss of scores that are a product, as one operator that never has all of the scores."""

from collections.abc import Sequence
from dataclasses import dataclass

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.dims import Dim
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, ShapeExpr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dims
from relaxjax.ir.types import is_float
from relaxjax.ir.uses import Uses
from relaxjax.ops.emit import dtype_of
from relaxjax.ops.shapes import element_count, same_dims
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings
from relaxjax.passes.simplification.loss_laws import logits_of_predictions

# As many scores, 64 MiB of float32, are worth the loop that it takes to do without them.
MANY = 2**24

_LOSSES = ("relax.nn.softmax_nll_loss", "relax.nn.nll_loss")
_VIEWS = ("relax.reshape", "lax.reshape")


@pass_factory(opt_level=1, kind="function")
def FuseProductLoss(function: Function, mod: IRModule, many: int | None = None) -> Function:
    """Make one operator of a matrix product, a bias, log_softmax and the loss of classes.

    It computes the scores of some tokens at a time, which is for a large vocabulary: where there
    are `many` scores or more, by default 2**24, of known shape, that nothing else uses. A loss with
    weights of the classes, of smoothed labels or of probabilities stays as it is.

    It belongs before `Gradient`: then the backward program never has all scores either.
    """
    finder = _Finder(Uses.of(function), MANY if many is None else many)
    changed = expand_calls(function, finder.fused)
    return function if changed is function else remove_all_unused(canonical_bindings(changed))


@dataclass(frozen=True)
class _Product:
    """The rows and the matrix of a product, as the operator takes them, and a bias."""

    rows: Expr
    weight: Expr
    transposed: bool
    bias: Expr | None


@dataclass(frozen=True)
class _Finder:
    known: Uses
    many: int

    def fused(self, call: Call) -> Expr | None:
        """The loss in one operator; None where it is another one, or of few scores."""
        if not isinstance(call.op, Op) or call.op.name not in _LOSSES or len(call.args) != 2:
            return None
        predictions, targets = call.args
        logits: Expr | None = predictions
        if call.op.name == "relax.nn.nll_loss":
            if not self.only_for_this(predictions):
                return None
            logits = logits_of_predictions(predictions, self.known)
        if logits is None or not self.is_large(logits):
            return None
        found = self.product(logits, None)
        if found is None:
            return None
        return get_op("relax.nn.product_nll_loss")(
            found.rows, found.weight, targets, found.bias, found.transposed, **call.attrs
        )

    def only_for_this(self, predictions: Expr) -> bool:
        """Whether nothing else uses the logarithms of probabilities, be they put into rows."""
        moved = self.known.call(predictions, "relax.reshape")
        whole = predictions if moved is None else moved.args[0]
        return self.known.used_once(predictions) and self.known.used_once(whole)

    def is_large(self, logits: Expr) -> bool:
        """Whether these are many scores, one row a token, whose number is known."""
        dims = known_dims(logits)
        if dims is None or len(dims) != 2:
            return False
        count = element_count(dims)
        return isinstance(count, int) and count >= self.many

    def product(self, scores: Expr, bias: Expr | None) -> _Product | None:
        """What scores are a product of, with a bias, in rows or not; nothing else may use them."""
        value = scores if isinstance(scores, Call) else self.known.call(scores)
        if value is None or not isinstance(value.op, Op):
            return None
        if value is not scores and not self.known.used_once(scores):
            return None
        match value.op.name:
            case name if name in _VIEWS:
                return self.product(value.args[0], bias) if _keeps_last(value) else None
            case "relax.add" | "lax.add" if bias is None:
                return self.product_and_bias(value)
            case "relax.matmul" if value.attrs["out_dtype"] is None:
                return self.of_matrices(value.args[0], value.args[1], bias)
            case _:
                return None

    def product_and_bias(self, total: Call) -> _Product | None:
        for scores, added in (total.args, total.args[::-1]):
            bias = self.bias(added, total)
            found = None if bias is None else self.product(scores, bias)
            if found is not None:
                return found
        return None

    def bias(self, added: Expr, total: Call) -> Expr | None:
        """One number for each word, as a vector, out of what is added to all scores."""
        spread, dims = self.known.call(added, "lax.broadcast_in_dim"), known_dims(total)
        if not dims:
            return None
        if spread is not None and list(spread.attrs["broadcast_dimensions"]) == [len(dims) - 1]:
            added = spread.args[0]
        own = known_dims(added)
        if not own or element_count(own) != dims[-1] or not same_dims(own[-1:], dims[-1:]):
            return None
        return added if len(own) == 1 else _shaped(added, dims[-1:])

    def of_matrices(self, x: Expr, w: Expr, bias: Expr | None) -> _Product | None:
        rows, matrix = known_dims(x), known_dims(w)
        if rows is None or matrix is None or len(rows) < 2 or len(matrix) != 2:
            return None
        if not is_float(dtype_of(x)) or dtype_of(x) != dtype_of(w):
            return None
        x = x if len(rows) == 2 else _shaped(x, (element_count(rows[:-1]), rows[-1]))
        turned = self.known.call(w, "relax.permute_dims")
        if turned is not None and turned.attrs["axes"] in (None, [1, 0], (1, 0)):
            return _Product(x, turned.args[0], True, bias)
        return _Product(x, w, False, bias)


def _keeps_last(reshape: Call) -> bool:
    """Whether a reshape changes only how the rows are counted."""
    before, after = known_dims(reshape.args[0]), known_dims(reshape)
    return bool(before and after) and same_dims((before or ())[-1:], (after or ())[-1:])


def _shaped(x: Expr, dims: Sequence[Dim]) -> Expr:
    return get_op("relax.reshape")(x, ShapeExpr(tuple(dims)))
