"""From `lax.*` to `relax.*`: what LegalizeOps spells out, read back."""

from functools import partial

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, Tuple
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import is_float
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten

from .activations import gelu, relu, silu
from .attention import attention
from .convolutions import convolution
from .lookups import row_lookup
from .losses import class_log_probability, class_loss
from .norms import norm, norm_with_shift
from .pooling import max_pooling, mean_pooling, sum_pooling
from .products import product
from .put_back import put_back
from .reading import Reading, View, raises
from .softmax import log_softmax, softmax
from .stacked_products import stacked_product


@raises("lax.transpose")
def transpose(call: Call, reading: Reading) -> Expr | None:
    """Axes in another order."""
    return get_op("relax.permute_dims")(call.args[0], axes=call.attrs["permutation"])


@raises("lax.sort")
def sort(call: Call, reading: Reading) -> Expr | None:
    """One tensor of floats in order: its gradient needs the places of the same sort."""
    data, *others = call.args
    if others or not is_float(known_dtype(data) or ""):
        return None
    return Tuple((get_op("relax.sort")(data, axis=call.attrs["dimension"]),))


@raises("lax.sub")
def nothing_less(call: Call, reading: Reading) -> Expr | None:
    """x - 0, as flax's root-mean-square norm takes off a mean that is 0."""
    data, taken = reading.elementwise(call, View.whole(call).axes)
    same = data.expr.ty == call.ty
    return data.expr if same and reading.number(taken) == 0 else None


# What one group makes is what the next one reads.
RULES = (
    Laws([nothing_less, sort, row_lookup, convolution, max_pooling, mean_pooling, product]),
    Laws([transpose, sum_pooling, softmax, log_softmax, class_loss, gelu, silu, norm_with_shift]),
    Laws([class_log_probability, norm, attention]),
    Laws([stacked_product]),
    Laws([put_back]),
)


@pass_factory(opt_level=0, kind="function")
def RaiseOps(function: Function, mod: IRModule) -> Function:
    """Write calls of `lax.*`, and idioms of them, as the operators of `relax.*` that they compute.

    Those have formulations by platform and gradients in closed form, and are what other passes
    know: convolutions, pooling, products with a matrix or with each of a stack, softmax and its
    logarithm, the cross entropy of classes, batch, layer, instance and root-mean-square norms,
    ReLU, GELU, SiLU, sorts and attention, in the forms in which programs that come in from JAX have
    them. What lies between two orders of axes is computed in the first one. Rows that `jax.vmap`
    looks up stay a `lax.gather`, of whole rows.

    A call stays where the operator would not compute the same up to rounding: where it asks for a
    precision, or for sums of another dtype than its own, or where axes do not fit together. GELU
    by `erfc` is rounded as 1 is, not as its result. Constants are to be folded and common values
    shared before.
    """
    return rewritten(expand_calls(function, partial(relu, mod=mod)), *RULES)
