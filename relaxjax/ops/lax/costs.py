"""What the primitives of JAX cost, by name."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.types import FuncType
from relaxjax.ops.cost_rules import (
    ELEMENTWISE,
    FILLS,
    MOVES,
    PICKS,
    REDUCES,
    SORTS,
    TRANSCENDENTAL,
    VIEWS,
    Cost,
    CostRule,
    FunctionCost,
    byte_count,
    counting,
    dims_at,
    dims_of,
    elements,
    logarithm,
    per_element,
    per_input,
)
from relaxjax.ops.shapes import element_count

# The steps of the generator threefry, for each 32 bits.
_RANDOM_FLOPS = 60


def _contraction(call: Call) -> Dim:
    """A multiplication and an addition for each element of the result and of the axes summed."""
    ((summed, _), _) = call.attrs["dimension_numbers"]
    lhs = dims_at(call, 0)
    length = element_count([lhs[axis] for axis in summed])
    return elements(call.ty) * length * 2


def _ragged_contraction(call: Call) -> Dim:
    """Each row meets the matrix of its own group only."""
    numbers = call.attrs["ragged_dot_dimension_numbers"]["RaggedDotDimensionNumbers"]
    ((summed, _), _) = numbers["dot_dimension_numbers"]
    lhs = dims_at(call, 0)
    return elements(call.ty) * element_count([lhs[axis] for axis in summed]) * 2


def _sparse_contraction(call: Call) -> Dim:
    """A multiplication and an addition for each element kept and each column beside it."""
    return elements(call.args[0].ty) * dims_at(call, 3)[-1] * 2


def _convolution(call: Call) -> Dim:
    """A multiplication and an addition wherever an element of the kernel meets one of the image.

    Where the image is padded or spread out there is nothing to multiply with.
    """
    image_axes, kernel_axes, _ = _axes_of(call.attrs)
    image, kernel = dims_at(call, 0), dims_at(call, 1)
    meetings = element_count([_meetings(call, place) for place in range(len(kernel) - 2)])
    channels = element_count([kernel[axis] for axis in kernel_axes[:2]])
    groups: int = call.attrs.get("batch_group_count", 1)
    pairs: Dim = image[image_axes[0]] * channels * meetings
    return pairs * 2 // groups


def _axes_of(attrs: Attrs) -> Sequence[Any]:
    """The axes of image, kernel and result: batch or features first, channels, spatial ones."""
    numbers = attrs["dimension_numbers"]["ConvDimensionNumbers"]
    return [numbers["lhs_spec"], numbers["rhs_spec"], numbers["out_spec"]]


def _meetings(call: Call, place: int) -> Dim:
    """How many pairs of an element of the kernel and one of the image meet along a spatial axis."""
    image_axes, kernel_axes, result_axes = _axes_of(call.attrs)
    length = dims_at(call, 0)[image_axes[2 + place]]
    size = dims_at(call, 1)[kernel_axes[2 + place]]
    count = dims_of(call)[result_axes[2 + place]]
    spread = call.attrs["lhs_dilation"][place]
    if not (isinstance(length, int) and isinstance(size, int) and isinstance(count, int)):
        steps: Dim = count if spread == 1 else length
        pairs: Dim = steps * size
        return pairs
    windows = np.arange(count)[:, None] * call.attrs["window_strides"][place]
    offsets = np.arange(size)[None, :] * call.attrs["rhs_dilation"][place]
    places = windows + offsets - call.attrs["padding"][place][0]
    inside = (places >= 0) & (places < (length - 1) * spread + 1) & (places % spread == 0)
    return int(inside.sum())


def _windows(call: Call) -> Dim:
    """An operation for each element of each window."""
    return elements(call.ty) * element_count(call.attrs["window_dimensions"])


def _spread_windows(call: Call) -> Dim:
    """As many comparisons for each place of the windows as the windows have elements."""
    return elements(call.args[0].ty) * element_count(call.attrs["window_dimensions"])


def _horner(call: Call) -> Dim:
    """A multiplication and an addition for each coefficient behind the first argument."""
    return elements(call.ty) * 2 * (len(call.args) - 1)


def _power(call: Call) -> Dim:
    """As many multiplications as squaring takes."""
    exponent = abs(int(call.attrs["y"]))
    return elements(call.ty) * max(1, exponent.bit_length() + exponent.bit_count() - 2)


def _updated(call: Call) -> Dim:
    """An operation for each element that is brought in, behind the operand and the places."""
    return elements(call.args[2].ty)


def _transformed(call: Call) -> Dim:
    """5 n log2(n) for each transform, the usual count."""
    length = element_count(call.attrs["fft_lengths"])
    return elements(call.ty) * 5 * logarithm(length)


def _of_matrices(share: float) -> CostRule:
    """`share` times rows times columns times the shorter side, for each matrix."""

    def flops(call: Call) -> Dim:
        dims = dims_at(call, 0)
        *_, rows, columns = dims
        known = isinstance(rows, int) and isinstance(columns, int)
        side = min(rows, columns) if known else columns
        return element_count(dims) * side * max(1, round(share * 3)) // 3

    flops.__doc__ = f"{share:.3g} * rows * columns * the shorter side, for each matrix."
    return counting(flops)


def _solved(call: Call) -> Dim:
    """A multiplication and an addition for each half of the matrix and each right side."""
    return elements(call.args[1].ty) * dims_at(call, 0)[-1]


def _random(call: Call) -> Dim:
    """The steps of the generator for each 32 bits."""
    return (byte_count(call.ty) + 3) // 4 * _RANDOM_FLOPS


def _functions(call: Call) -> list[Expr]:
    return [arg for arg in call.args if isinstance(arg.ty, FuncType)]


def _scanned(call: Call, function_cost: FunctionCost) -> Cost:
    """The body, as often as there are steps."""
    return function_cost(call.args[0]).times(call.attrs["length"])


def _one_step(call: Call, function_cost: FunctionCost) -> Cost:
    """How many steps there are is known only when it runs: one is counted."""
    return sum(map(function_cost, _functions(call)), start=Cost())


def _folded(call: Call, function_cost: FunctionCost) -> Cost:
    """The function, as often as there are elements, in one pass over them."""
    combined = function_cost(call.args[0])
    read = [byte_count(arg.ty) for arg in call.args[1:]]
    moved = sum(read, start=byte_count(call.ty))
    return Cost(combined.flops * elements(call.args[1].ty), moved)


def _dearest(call: Call, function_cost: FunctionCost) -> Cost:
    """The branch that costs most."""
    total = Cost()
    for branch in _functions(call):
        total = total.or_else(function_cost(branch))
    return total


def _group(rule: CostRule, names: str) -> dict[str, CostRule]:
    return dict.fromkeys(names.split(), rule)


_ARITHMETIC = (
    "abs add add_any and_ ceil clz complex conj convert_element_type div eq eq_to floor ge gt "
    "imag is_finite le le_to lt lt_to max min mul mulhi ne neg nextafter not_ or_ "
    "population_count real reduce_precision rem round select_n shift_left "
    "shift_right_arithmetic shift_right_logical sign square sub xor"
)
_SMOOTH = (
    "acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt cos cosh digamma erf "
    "erf_inv erfc exp exp2 expm1 igamma igamma_grad_a igammac lgamma log log1p log2 logistic "
    "polygamma pow random_gamma regularized_incomplete_beta rsqrt sin sinh sqrt tan tanh zeta"
)
_SHORT = "clamp one_minus_square"
ELEMENTWISE_NAMES = frozenset(f"{_ARITHMETIC} {_SMOOTH} {_SHORT} integer_pow".split())

_RULES: dict[str, CostRule] = {
    **_group(ELEMENTWISE, f"{_ARITHMETIC} psum pmax pmin"),
    **_group(per_element(2), _SHORT),
    **_group(TRANSCENDENTAL, _SMOOTH),
    **_group(TRANSCENDENTAL, "log1mexp logaddexp logaddexp2 xlog1py xlogx xlogy"),
    **_group(per_element(2), "frexp ldexp relu6"),
    **_group(
        REDUCES,
        "argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min "
        "reduce_or reduce_prod reduce_sum reduce_xor",
    ),
    **_group(
        MOVES,
        "all_gather all_to_all broadcast_in_dim concatenate copy device_put dynamic_update_slice "
        "lu_pivots_to_permutation pad ppermute ragged_all_to_all rev scatter split stack tile "
        "transpose unstack",
    ),
    **_group(
        VIEWS,
        "bitcast_convert_type name optimization_barrier random_clone random_unwrap random_wrap "
        "reshape sharding_constraint squeeze stop_gradient",
    ),
    **_group(PICKS, "dynamic_slice gather slice"),
    **_group(FILLS, "axis_index dim_as_value empty iota"),
    **_group(SORTS, "approx_top_k sort top_k"),
    **_group(
        counting(_random),
        "random_bits random_fold_in random_seed random_split rng_bit_generator rng_uniform "
        "threefry2x32",
    ),
    **_group(counting(_updated), "scatter_add scatter_max scatter_min scatter_mul scatter_sub"),
    **_group(counting(_windows), "reduce_window_max reduce_window_min reduce_window_sum"),
    **_group(counting(_windows), "select_and_gather_add"),
    **_group(counting(_spread_windows), "select_and_scatter_add"),
    "integer_pow": counting(_power),
    "polynomial": counting(_horner),
    "bcsr_dot_general": counting(_sparse_contraction),
    "dot_general": counting(_contraction),
    "ragged_dot_general": counting(_ragged_contraction),
    "conv_general_dilated": counting(_convolution),
    "fft": counting(_transformed),
    "triangular_solve": counting(_solved),
    "tridiagonal_solve": per_input(8),
    "cholesky_update": per_input(6),
    "symmetric_product": _of_matrices(1),
    "cholesky": _of_matrices(1 / 3),
    **_group(_of_matrices(2 / 3), "det lu"),
    **_group(_of_matrices(4 / 3), "householder_product ormqr qr tridiagonal"),
    "hessenberg": _of_matrices(10 / 3),
    "eigh": _of_matrices(9),
    "svd": _of_matrices(14),
    **_group(_of_matrices(25), "eig schur"),
    "scan": _scanned,
    "while_loop": _one_step,
    "reduce": _folded,
    **_group(_dearest, "switch platform_dependent"),
}


def cost_of_primitive(name: str) -> CostRule | None:
    """The rule of the operator `lax.<name>`, None for a primitive that JAX does not expose."""
    return _RULES.get(name)
