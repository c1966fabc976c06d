"""The variables of dimensions: which there are, and other dimensions in their places."""

from collections.abc import Mapping

from .dims import Dim, DimExpr, DimOp, Monomial, SymbolicVar, apply_kind, dim_sum


def dim_vars(dim: Dim) -> tuple[SymbolicVar, ...]:
    """The variables of `dim`, each once, in order of appearance."""
    match dim:
        case int():
            return ()
        case SymbolicVar():
            return (dim,)
        case DimOp(_, lhs, rhs):
            return tuple(dict.fromkeys((*dim_vars(lhs), *dim_vars(rhs))))
        case DimExpr(terms):
            atoms = (atom for monomial, _ in terms for atom, _ in monomial)
            return tuple(dict.fromkeys(var for atom in atoms for var in dim_vars(atom)))
    raise TypeError(f"`{dim!r}` is no dimension")


def is_never_negative(dim: Dim) -> bool:
    """Whether `dim` is known to be 0 or more where its variables are sizes; False if it may be."""
    match dim:
        case int():
            return dim >= 0
        case SymbolicVar():
            return True
        case DimOp("max", lhs, rhs):
            return is_never_negative(lhs) or is_never_negative(rhs)
        case DimOp("min" | "//", lhs, rhs):
            return is_never_negative(lhs) and is_never_negative(rhs)
        case DimOp("%", _, rhs):
            return is_never_negative(rhs)
        case DimExpr(terms):
            return all(
                coefficient > 0 and all(is_never_negative(atom) for atom, _ in monomial)
                for monomial, coefficient in terms
            )
    return False


def substitute_dim(dim: Dim, mapping: Mapping[SymbolicVar, Dim]) -> Dim:
    """`dim` with each variable of `mapping` replaced; all integers give an integer.

    Where `mapping` changes none of its variables, it is the very same object.
    """
    if all(mapping.get(var, var) is var for var in dim_vars(dim)):
        return dim
    match dim:
        case SymbolicVar():
            return mapping[dim]
        case DimOp(kind, lhs, rhs):
            return apply_kind(kind, substitute_dim(lhs, mapping), substitute_dim(rhs, mapping))
        case DimExpr(terms):
            return dim_sum(_substituted_term(*term, mapping) for term in terms)
    raise TypeError(f"`{dim!r}` is no dimension")


def _substituted_term(
    monomial: Monomial, coefficient: int, mapping: Mapping[SymbolicVar, Dim]
) -> Dim:
    product: Dim = coefficient
    for atom, power in monomial:
        value = substitute_dim(atom, mapping)
        for _ in range(power):
            product = product * value
    return product
