"""Copies of parameters that others read when results may have taken their memory already.

It stands for copy insertion, which knows no order yet.
"""

from collections.abc import Sequence

from ..memory_model import Buffer, Kernel, Kernels
from ..step import size_of


def with_parameter_copies(kernels: Kernels) -> Sequence[Kernel]:
    """The kernels, after those that copy parameters.

    A result takes the memory of a parameter where all else that reads that is needed for the
    result. XLA copies the others before it knows an order, and at the start.
    """
    if not kernels.over:
        return kernels.all
    readers: dict[Buffer, int] = {}  # as the bits of a number
    behind: dict[Buffer, int] = {}  # all that a kernel needs, itself too
    for place, kernel in enumerate(kernels.all):
        own = 1 << place
        for buffer in kernel.reads:
            readers[buffer] = readers.get(buffer, 0) | own
        for buffer in (*kernel.reads, *kernel.after):
            own |= behind.get(buffer, 0)
        behind[kernel.buffer] = own
    copied = [
        param for result, param in kernels.over if readers.get(param, 0) & ~behind.get(result, 0)
    ]
    copies = [Kernel(buffer, size_of(buffer[0][0]), (), ()) for buffer in dict.fromkeys(copied)]
    return (*copies, *kernels.all)
