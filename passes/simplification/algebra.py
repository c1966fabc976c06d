"""The laws by which expressions are made simpler, one function each, and the table of them.

A law looks at one call and at the definitions of its arguments, and gives what the call is equal
to, or None. Each makes less to compute, or a smaller program with as much to compute, so applying
them ends. They hold for finite numbers: an infinity times zero is taken to be zero.
"""

from relaxjax.ir.laws import Laws

from .element_laws import (
    difference,
    doubled,
    numbers_together,
    same_dtype,
    sum_with_negative,
    undone,
)
from .fill_laws import (
    filled,
    moved,
    no_choice,
    product_with_zero,
    scalar_beside,
    sum_of_filled,
    unit,
    zero,
)
from .loss_laws import adjoint_of_logits, loss_of_logits
from .product_laws import (
    product_with_diagonal,
    product_with_filled,
    product_with_identity,
    sum_of_product,
    sum_of_products,
    sum_of_stacked_products,
    transposed_product,
)
from .shape_laws import (
    broadcast_away,
    permuted,
    reshaped,
    reshaped_as_in_jax,
    sum_of_broadcast,
    sum_of_repeats,
)
from .sum_laws import factor_of_sum

# Those on tensors that one number fills.
FILL_LAWS = Laws([unit, zero, filled, moved, sum_of_filled, no_choice, product_with_zero])

LAWS = Laws(
    [
        unit,
        zero,
        filled,
        moved,
        difference,
        sum_with_negative,
        doubled,
        undone,
        scalar_beside,
        numbers_together,
        permuted,
        reshaped,
        reshaped_as_in_jax,
        broadcast_away,
        sum_of_repeats,
        sum_of_filled,
        same_dtype,
        no_choice,
        product_with_zero,
        transposed_product,
        sum_of_broadcast,
        factor_of_sum,
        product_with_identity,
        product_with_filled,
        product_with_diagonal,
        sum_of_product,
        sum_of_products,
        sum_of_stacked_products,
        loss_of_logits,
        adjoint_of_logits,
    ]
)
