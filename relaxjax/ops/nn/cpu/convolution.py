"""Which form computes a convolution on a CPU: the first of a table whose condition holds."""

from collections.abc import Callable
from typing import Any

from relaxjax.ops.nn.array_convolution import Convolution, Layouts

from . import planes
from .case import FEW, LONG, MANY_PLACES, SMALL, WIDE, Case, Counts
from .products import (
    grouped_product_for_each_result,
    one_product,
    product_for_each_result,
    product_laid_out_as_a_kernel,
    product_of_patches,
    sums_of_one_image,
)
from .shifts import is_sum_of_shifts, sum_of_shifts
from .winograd import is_gradient_of_a_small_kernel, kernel_of_tiles


def convolved(of: Convolution, data: Any, weight: Any, dtype: Any) -> Any:
    """The result of a convolution, added up in `dtype`."""
    case = Case(of, data, weight, dtype)
    for holds, form in FORMS:
        if holds(case):
            return form(case)
    return of.on_cpu(data, weight, dtype)


def _is_one_product(case: Case) -> bool:
    return case.of.is_pointwise(case.weight) and not any(map(any, case.of.pads))


def _is_of_one_channel(case: Case) -> bool:
    return is_sum_of_shifts(case.of, case.weight)


def _has_one_result(case: Case) -> bool:
    counts = case.counts
    return counts is not None and case.of.groups == 1 and counts.results == 1 < counts.places


def _has_few_results_of_one_image(case: Case) -> bool:
    """Whether results are few, and kernels lie as they are multiplied, in groups."""
    one = case.data.shape[case.of.data_layout.index("N")] == 1
    return one and case.of.kernel_layout.endswith("O") and _has_few_results_in_groups(case)


def _has_few_results_in_groups(case: Case) -> bool:
    counts, groups = case.counts, case.of.groups
    if counts is None or groups == 1:
        return False
    single = counts.batch == 1 and counts.outputs <= groups * FEW
    return counts.results < counts.places and counts.results <= (MANY_PLACES if single else 1)


def _is_gradient_of_few_places(case: Case) -> bool:
    """Whether it is the gradient of a kernel of few places, by an image of few."""
    counts = case.counts
    if counts is None or case.of.groups > 1 or min(counts.batch, counts.outputs) < WIDE:
        return False
    few = counts.results <= 9 and counts.places <= SMALL
    return few and counts.inputs * counts.places <= LONG


def _has_few_windows(case: Case) -> bool:
    """Whether windows are few, or XLA has no good program: their elements are copied out."""
    counts = case.counts
    if counts is None or case.of.groups > 1 or counts.places > MANY_PLACES:
        return False
    small = counts.results < counts.places and counts.batch * counts.results <= counts.outputs
    # XLA takes such a kernel for the data, and has then only its slowest program.
    larger = counts.places > counts.elements
    return small or larger or _is_small_image(counts)


def _is_small_image(counts: Counts) -> bool:
    """Whether there are many channels in images of few places."""
    wide = min(counts.inputs, counts.outputs) >= WIDE and counts.results <= SMALL
    return wide and counts.batch * counts.results <= LONG


def _is_of_few_planes(case: Case) -> bool:
    """Whether windows are in three dimensions, where XLA's CPU backend has no products."""
    if case.counts is None or len(case.of.strides) != 3:
        return False
    return bool(min(case.windows.size[0], case.windows.counts[0]) <= planes.MOST_PLANES)


def _by_planes(case: Case) -> Any:
    """A convolution of volumes as one of images."""

    def of_images(layouts: Layouts, data: Any, weight: Any) -> Any:
        return convolved(case.of.within_planes(layouts), data, weight, case.dtype)

    of = case.of
    return planes.convolved(case.data, case.weight, case.windows, of.layouts, of.groups, of_images)


# Beside each form its time, of that of XLA's own convolution: of result and adjoints together, by
# `benchmarks/operators.py` or the command that docs/performance_choices.md names, or "by itself".
FORMS: tuple[tuple[Callable[[Case], bool], Callable[[Case], Any]], ...] = (
    (_is_one_product, one_product),  # 0.45
    (_is_of_one_channel, sum_of_shifts),  # 0.13 depthwise, 0.06 with strides
    (_has_one_result, product_for_each_result),  # 0.72 of a step of ResNet-50
    (_has_few_results_of_one_image, sums_of_one_image),  # 0.14 by itself, a depthwise 3x3 of 32x32
    (_has_few_results_in_groups, grouped_product_for_each_result),  # 0.37 to 0.62 by itself
    (is_gradient_of_a_small_kernel, kernel_of_tiles),  # 0.47 by itself, of 128 channels in 16x16
    (_is_gradient_of_few_places, product_laid_out_as_a_kernel),  # 0.04 to 0.84, with the next
    (_has_few_windows, product_of_patches),  # 0.04 for images of 2x2, 0.84 for 4x4
    (_is_of_few_planes, _by_planes),  # 0.20, 0.04 with strides
)
