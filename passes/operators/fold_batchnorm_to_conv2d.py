"""Folding the batch norm of inference into the convolution before it."""

from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var, const
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments, get_op
from relaxjax.ir.tensor_types import known_dtype, known_ndim
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.layout.planning import size
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

from .factors import Weighed, along, with_args


@pass_factory(opt_level=0, kind="function")
def FoldBatchnormToConv2D(function: Function, mod: IRModule) -> Function:
    """Fold a batch norm, as it behaves in inference, into the weight of the convolution before it.

    As in DecomposeOpsForInference, the running statistics count, and are handed on. The weight and
    all of the norm must be constants, or the weight smaller than what it is multiplied for. That
    goes for convolutions in any layout and number of axes, and for matmul; FoldConstant computes
    the new weights ahead.
    """
    known = Weighed.of(function)
    folded = expand_bindings(function, lambda binding, _: _folded(binding, known))
    return folded if folded is function else remove_all_unused(canonical_bindings(folded))


def _folded(binding: Binding, known: Weighed) -> Expr | None:
    """What a field of a batch norm is computed as."""
    if not isinstance(binding.value, TupleGetItem):
        return None
    norm = known.call_beside(binding.value.tuple_value, binding.var)
    if norm is None or norm.op is not get_op("relax.nn.batch_norm"):
        return None
    found = _norm(norm, binding.var, known)
    return None if found is None else found.fields[binding.value.index]


def _norm(norm: Call, beside: Var, known: Weighed) -> Tuple | None:
    product = known.call_beside(norm.args[0], beside)
    if product is None or not known.used_once(norm.args[0]):
        return None
    ndim = known_ndim(norm.args[0])
    if ndim < 0:
        return None
    axis = norm.attrs["axis"] % ndim - ndim
    place = _weight_axis(product, axis)
    fixed = all(isinstance(arg, Constant) for arg in (product.args[1:2] + norm.args[1:]))
    if place is None or not (fixed or size(product.args[1]) < size(product)):
        return None
    return _normalised(product, norm, place, axis)


def _weight_axis(product: Call, axis: int) -> int | None:
    """The axis of the second argument along which factors of the result may be put."""
    assert isinstance(product.op, Op)
    if product.op.scaling is None or product.op.scaling.nonnegative or len(product.args) != 2:
        return None
    types = [arg.ty.dtype for arg in (product, *product.args) if isinstance(arg.ty, TensorType)]
    ways = product.op.scaling.to_arguments(product, axis) if len(set(types)) == 1 else []
    return next((way[1] for way in ways if list(way) == [1]), None)


def _normalised(product: Call, norm: Call, place: int, axis: int) -> Tuple:
    (_, gamma, beta, mean, variance), attrs = arguments(norm)
    assert gamma is not None
    assert beta is not None
    assert mean is not None
    assert variance is not None
    dtype = known_dtype(gamma)
    deviation = get_op("relax.sqrt")(variance + const(attrs["epsilon"], dtype))
    scale: Expr = gamma / deviation if attrs["scale"] else const(1, dtype) / deviation
    shift = beta - mean * scale if attrs["center"] else -(mean * scale)
    weight = product.args[1] * along(scale, place)
    out = with_args(product, {1: weight}) + along(shift, axis)
    return Tuple((out, mean, variance))
