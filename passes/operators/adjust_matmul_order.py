"""The cheaper order of two matrix products."""

from collections.abc import Sequence

from relaxjax.ir.dim_variables import dim_vars, substitute_dim
from relaxjax.ir.dims import Dim, DimExpr, SymbolicVar
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.laws import Laws, law
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dims, known_ndim
from relaxjax.ir.uses import Uses
from relaxjax.ops.shapes import broadcast_dims, element_count
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.apply_laws import rewritten
from relaxjax.passes.simplification.tensors import weights_of


@pass_factory(opt_level=1, kind="function")
def AdjustMatmulOrder(function: Function, mod: IRModule) -> Function:
    """Compute x (A B) as (x A) B where that takes fewer multiplications, and the other way round.

    Each may be a matrix or a stack of them, an outer one also a vector; the inner product must have
    no other use, nor may its transpose. Symbolic sizes are compared where one order is cheaper
    whatever they are: x of n rows, or weights of a rank r. If two factors in a row are weights and
    the third is not, the weights stay together, for LiftTransformParams to compute their product
    once: these are the parameters behind the first `num_input` ones, an attribute of the function.
    """
    return rewritten(function, laws(weights_of(function)))


def laws(weights: frozenset[Var]) -> Laws:
    @law("relax.matmul")
    def product_in_order(call: Call, op: Op, known: Uses) -> Expr | None:
        """x (A B) = (x A) B, by the order that takes less, or that keeps weights together."""
        return _reordered(call, known, weights)

    return Laws([product_in_order])


def _reordered(call: Call, known: Uses, weights: frozenset[Var]) -> Expr | None:
    if not _is_plain_product(call):
        return None
    left, right = call.args
    orders = (
        *((left, a, b, True) for a, b in _factors(right, known)),
        *((a, b, right, False) for a, b in _factors(left, known)),
    )
    for one, two, three, left_first in orders:
        fixed = [known.follows_from(item, weights) for item in (one, two, three)]
        if _from_left(one, two, three, fixed) is left_first:
            if left_first:
                return _product(_product(one, two), three)
            return _product(one, _product(two, three))
    return None


def _from_left(one: Expr, two: Expr, three: Expr, fixed: Sequence[bool]) -> bool | None:
    """Whether (one two) three is better than one (two three); None where neither is known to be."""
    costs = _costs(one, two, three)
    if costs is None:
        return None
    if fixed[1] and fixed[0] != fixed[2]:
        return fixed[0]
    from_left, from_right = costs
    if _is_less(from_left, from_right):
        return True
    return False if _is_less(from_right, from_left) else None


def _is_less(lhs: Dim, rhs: Dim) -> bool:
    """Whether one number is known to be less, or for some sizes no more, whatever sizes are."""
    difference = rhs - lhs
    # All sizes are 1 at least, or nothing is computed.
    above = substitute_dim(difference, {var: var + 1 for var in dim_vars(difference)})
    match above:
        case int():
            return above > 0
        case SymbolicVar():
            return True
        case DimExpr(terms):
            plain = all(isinstance(atom, SymbolicVar) for term, _ in terms for atom, _ in term)
            return plain and all(coefficient > 0 for _, coefficient in terms)
    return False


def _factors(product: Expr, known: Uses) -> list[tuple[Expr, Expr]]:
    """The two matrices of which a value, used once, is the product, transposed with it."""
    transpose, turns = get_op("relax.permute_dims"), 0
    while known.used_once(product):
        inner = known.call(product, "relax.matmul")
        if inner is not None and _is_plain_product(inner):
            a, b = inner.args
            if turns and not known_ndim(a) == known_ndim(b) == 2:
                return []
            return [(transpose(b), transpose(a))] if turns % 2 else [(a, b)]
        turned = known.call(product, "relax.permute_dims")
        if turned is None or not _swaps(turned):
            return []
        product, turns = turned.args[0], turns + 1
    return []


def _costs(one: Expr, two: Expr, three: Expr) -> tuple[Dim, Dim] | None:
    """The multiplications of (one two) three and of one (two three), where they are the same.

    A vector is multiplied as one matrix after the other: no stack may be among the others.
    """
    sizes = [known_dims(item) for item in (one, two, three)]
    left, middle, right = sizes
    if not left or not middle or not right or len(middle) < 2:
        return None
    if min(len(left), len(right)) < 2 and max(len(left), len(middle), len(right)) > 2:
        return None
    rows = left[-2] if len(left) > 1 else 1
    inner, outer = middle[-2:]
    columns = right[-1] if len(right) > 1 else 1
    first, last = _stack(left, middle), _stack(middle, right)
    whole = None if first is None or last is None else broadcast_dims(first, last, ("x", "y"))
    if first is None or last is None or whole is None:
        return None
    product, others, stack = map(element_count, (first, last, whole))
    from_left = product * rows * inner * outer + stack * rows * outer * columns
    from_right = others * inner * outer * columns + stack * rows * inner * columns
    return from_left, from_right


def _stack(lhs: Sequence[Dim], rhs: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The sizes along which a product of stacks repeats matrices."""
    return broadcast_dims(lhs[:-2], rhs[:-2], ("x", "y"))


def _is_plain_product(call: Call) -> bool:
    return call.op is get_op("relax.matmul") and call.attrs["out_dtype"] is None


def _swaps(call: Call) -> bool:
    axes = call.attrs["axes"]
    return known_ndim(call) == 2 and (axes is None or [axis % 2 for axis in axes] == [1, 0])


def _product(left: Expr, right: Expr) -> Expr:
    return get_op("relax.matmul")(left, right)
