"""From `lax.*` to `relax.*`: what LegalizeOps spells out, read back."""

from functools import partial

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten

from .activations import gelu, relu, silu
from .attention import causal_attention
from .convolutions import convolution
from .losses import class_log_probability, class_loss
from .norms import norm, norm_with_shift
from .pooling import max_pooling, mean_pooling, sum_pooling
from .reading import Reading, asks_for_precision, ndim_of, of_one_float, raises
from .softmax import log_softmax, softmax
from .writing import in_order


@raises("lax.dot_general")
def product(call: Call, reading: Reading) -> Expr | None:
    """The last axis of a tensor times a matrix, or times a transposed one."""
    if not of_one_float(call):
        return None
    (left, right), batch = call.attrs["dimension_numbers"]
    x, w = call.args
    if asks_for_precision(call) or batch != ((), ()) or ndim_of(w) != 2 or ndim_of(x) < 2:
        return None
    if left != (ndim_of(x) - 1,):
        return None
    return get_op("relax.matmul")(x, in_order(w, (0, 1) if right == (0,) else (1, 0)))


@raises("lax.transpose")
def transpose(call: Call, reading: Reading) -> Expr | None:
    """Axes in another order."""
    return get_op("relax.permute_dims")(call.args[0], axes=call.attrs["permutation"])


# What one group makes is what the next one reads.
RULES = (
    Laws([convolution, max_pooling, mean_pooling, product]),
    Laws([transpose, sum_pooling, softmax, log_softmax, class_loss, gelu, silu, norm_with_shift]),
    Laws([class_log_probability, norm, causal_attention]),
)


@pass_factory(opt_level=0, kind="function")
def RaiseOps(function: Function, mod: IRModule) -> Function:
    """Write calls of `lax.*`, and idioms of them, as the operators of `relax.*` that they compute.

    Those have formulations by platform and gradients in closed form, and are what other passes
    know: convolutions, pooling, products with a matrix, softmax and its logarithm, the cross
    entropy of classes, batch, layer, instance and root-mean-square norms, ReLU, GELU, SiLU and
    causal attention, in the forms in which programs that come in from JAX have them.

    A call stays where the operator would not compute the same up to rounding: where it asks for a
    precision, or for sums of another dtype than its own, or where axes do not fit together. GELU
    by `erfc` is rounded as 1 is, not as its result. Constants are to be folded and common values
    shared before.
    """
    return rewritten(expand_calls(function, partial(relu, mod=mod)), *RULES)
