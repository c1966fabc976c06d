"""Values that a program computes once, however many kernels read them.

XLA may compute a value anew inside of each kernel that reads it, and rounds otherwise there: by a
fused multiply-add, or with more bits in between. Two kernels that decide by such a value, as by
which element is the largest one, then decide differently. What is computed once is stored, and each
kernel reads the same bits.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .platform import by_platform

_stored_before_use = by_platform(lax.optimization_barrier, cpu=lambda x: stored_by_cpu(x))


@jax.custom_jvp
def computed_once(x: Any) -> Any:
    """`x`, of floats, bools or unsigned integers: all kernels read its bits.

    Subnormal numbers may be zeros, as they are wherever XLA's CPU computes with them. What reads
    JAX's derivatives knows this function by its name, and makes `R.grad.once` of it.
    """
    return _stored_before_use(x)


@computed_once.defjvp
def _same_tangent(primals: Any, tangents: Any) -> Any:
    return computed_once(*primals), tangents[0]


def stored_by_cpu(x: Any) -> Any:
    """`x` as a quotient by 1.

    A CPU has no use for a barrier: XLA drops it before it forms kernels. But it never computes a
    division in two of them, because that would be dear. LLVM, which comes after that, sees that
    there is nothing to divide: only NaN is, by 2, and 0 among integers.
    """
    if x.dtype == bool:
        return stored_by_cpu(x.astype(jnp.uint8)).astype(bool)
    is_same_halved = x == 0 if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else x != x
    return lax.div(x, lax.select(is_same_halved, jnp.full_like(x, 2), jnp.ones_like(x)))
