"""Symbolic dimensions: integer expressions in one canonical form.

A dimension is an `int`, a `SymbolicVar`, or a `DimExpr`: a polynomial with integer
coefficients over variables and the atoms floor-division, remainder, maximum, minimum and
comparison. Every operation returns the canonical form, so two dimensions that are equal
as polynomials are equal as Python objects: `(n + 1) * 2 == 2 * n + 2`.

Python's `==` therefore tells whether two dimensions are known to be the same. Whether they turn
out to be when the program runs is `compare("==", n, m)`, which scripts write `n == m`.
"""

import itertools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import gcd
from typing import Any, TypeAlias, TypeVar

_serial = itertools.count()

S = TypeVar("S", bound="SymbolicExpr")


class SymbolicExpr:
    """What variables and compound dimensions share: arithmetic, and being symbolic."""

    __slots__ = ()

    @property
    def dtype(self) -> str:
        return "int64"

    def __add__(self, other: "Dim") -> "Dim":
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: "Dim") -> "Dim":
        return _combine(self, other, -1)

    def __rsub__(self, other: "Dim") -> "Dim":
        return _combine(other, self, -1)

    def __neg__(self) -> "Dim":
        return _combine(0, self, -1)

    def __mul__(self, other: "Dim") -> "Dim":
        return _multiply(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: "Dim") -> "Dim":
        return floordiv(self, other)

    def __rfloordiv__(self, other: "Dim") -> "Dim":
        return floordiv(other, self)

    def __mod__(self, other: "Dim") -> "Dim":
        return mod(self, other)

    def __rmod__(self, other: "Dim") -> "Dim":
        return mod(other, self)

    def __lt__(self, other: "Dim") -> "bool | DimOp":
        return compare("<", self, other)

    def __le__(self, other: "Dim") -> "bool | DimOp":
        return compare("<=", self, other)

    def __gt__(self, other: "Dim") -> "bool | DimOp":
        return compare(">", self, other)

    def __ge__(self, other: "Dim") -> "bool | DimOp":
        return compare(">=", self, other)

    def __bool__(self) -> bool:
        """Python cannot branch on what is known only at the call."""
        raise TypeError(
            f"`{self}` is known only when the program runs, so Python cannot branch on it: write "
            "`if` as a statement of the script, T.max and T.min for the larger and the smaller"
        )

    def __int__(self) -> int:
        raise TypeError(f"the dimension `{self}` is symbolic: it has no value before a call")

    __index__ = __int__

    def __copy__(self: S) -> S:
        return self

    def __deepcopy__(self: S, memo: Any) -> S:
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SymbolicVar(SymbolicExpr):
    """A dimension known only at the call. Its identity counts; its name is a hint."""

    name: str
    serial: int = field(default_factory=lambda: next(_serial), init=False)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        """Pickled without its serial, which another variable may bear where it is read back."""
        return SymbolicVar, (self.name,)


@dataclass(frozen=True, slots=True, repr=False)
class DimOp(SymbolicExpr):
    """An atom that no polynomial can say: `kind` is one of `ATOMS`.

    A comparison is true or false, so it stands in no arithmetic and is no size.
    """

    kind: str
    lhs: "Dim"
    rhs: "Dim"

    @property
    def dtype(self) -> str:
        return "bool" if self.kind in _COMPARISONS else "int64"

    def __repr__(self) -> str:
        return dim_text(self)

    def __reduce__(self) -> Any:
        """Pickled as an operation, because canonical order depends on the variables' serials."""
        return apply_kind, (self.kind, self.lhs, self.rhs)


Atom: TypeAlias = SymbolicVar | DimOp
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]  # atoms with their powers, in order
Term: TypeAlias = tuple[Monomial, int]  # a monomial and its coefficient


@dataclass(frozen=True, slots=True, repr=False)
class DimExpr(SymbolicExpr):
    """A polynomial of more than one bare atom: its monomials with their coefficients, in order."""

    terms: tuple[Term, ...]

    def __repr__(self) -> str:
        return dim_text(self)

    def __reduce__(self) -> Any:
        """Pickled as an operation, because canonical order depends on the variables' serials."""
        return polynomial, (self.terms,)


Dim: TypeAlias = int | SymbolicExpr
# What to do where a value of the program, such as one of type R.Prim, stands for a size.
SIZES_COME_FROM = 'sizes come from types, as `n` of `s: R.Shape(["n"])` where no value is called so'


def as_dim(value: Any) -> Dim:
    """`value` as a dimension: numpy's integers become Python's, what is no integer is an error."""
    if isinstance(value, SymbolicExpr) and value.dtype == "bool":
        raise TypeError(f"`{value}` is true or false, which is no dimension")
    if isinstance(value, SymbolicExpr) or type(value) is int:
        return value
    try:
        return int(operator.index(value))
    except TypeError:
        sought = "write an integer or a symbolic variable"
        instead = SIZES_COME_FROM if hasattr(value, "ty") else sought
        named = f', SymbolicVar("{value}") of relaxjax.ir.dims' if isinstance(value, str) else ""
        raise TypeError(f"`{value!r}` is no dimension: {instead}{named}") from None


def polynomial(terms: Iterable[tuple[Iterable[tuple[Atom, int]], int]]) -> Dim:
    """The canonical form of a sum of monomials: atoms with their powers, and a coefficient."""
    return _canonical((_monomial(factors), coefficient) for factors, coefficient in terms)


def dim_sum(dims: Iterable[Dim]) -> Dim:
    """The sum of any number of dimensions, brought into its canonical form once."""
    return _canonical(term for dim in dims for term in _terms(dim))


def floordiv(lhs: Dim, rhs: Dim) -> Dim:
    """`lhs // rhs`, with every exact multiple of an integer divisor taken out."""
    lhs, rhs = as_dim(lhs), as_dim(rhs)
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs // rhs
    if rhs == 0:
        raise ZeroDivisionError(f"the dimension `{lhs}` is divided by zero")
    if rhs == 1 or lhs == 0:
        return lhs
    if not isinstance(rhs, int):
        return _quotient(lhs, rhs)
    quotient, rest = _split_multiples(lhs, rhs)
    if isinstance(rest, int):
        return quotient + rest // rhs
    return quotient + DimOp("//", rest, rhs)


def mod(lhs: Dim, rhs: Dim) -> Dim:
    """`lhs % rhs`, with every exact multiple of an integer divisor dropped."""
    lhs, rhs = as_dim(lhs), as_dim(rhs)
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs % rhs
    if rhs == 0:
        raise ZeroDivisionError(f"the dimension `{lhs}` is taken modulo zero")
    if rhs == 1 or lhs == 0:
        return 0
    if not isinstance(rhs, int):
        return DimOp("%", lhs, rhs)
    _, rest = _split_multiples(lhs, rhs)
    return rest % rhs if isinstance(rest, int) else DimOp("%", rest, rhs)


def dim_max(lhs: Dim, rhs: Dim) -> Dim:
    lhs, rhs = as_dim(lhs), as_dim(rhs)
    difference = lhs - rhs
    if isinstance(difference, int):
        return lhs if difference >= 0 else rhs
    return DimOp("max", *sorted((lhs, rhs), key=_order))


def dim_min(lhs: Dim, rhs: Dim) -> Dim:
    lhs, rhs = as_dim(lhs), as_dim(rhs)
    difference = lhs - rhs
    if isinstance(difference, int):
        return lhs if difference <= 0 else rhs
    return DimOp("min", *sorted((lhs, rhs), key=_order))


def compare(sign: str, lhs: Dim, rhs: Dim) -> "bool | DimOp":
    """`lhs sign rhs`: true or false where that is known, else a comparison at run time."""
    if sign in (">", ">="):
        return compare(sign.replace(">", "<"), rhs, lhs)
    lhs, rhs = as_dim(lhs), as_dim(rhs)
    difference = lhs - rhs
    if isinstance(difference, int):
        return _COMPARISONS[sign](difference, 0)
    return DimOp(sign, lhs, rhs)


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
}
_ATOM_RULES: dict[str, Callable[[Dim, Dim], Dim]] = {
    "//": floordiv,
    "%": mod,
    "max": dim_max,
    "min": dim_min,
    **{sign: partial(compare, sign) for sign in _COMPARISONS},
}
ATOMS = tuple(_ATOM_RULES)


def apply_kind(kind: str, lhs: Dim, rhs: Dim) -> Dim:
    """The canonical form of the atom that `kind` names."""
    return _ATOM_RULES[kind](lhs, rhs)


def dim_text(dim: Dim, name: Callable[[SymbolicVar], str] = lambda var: var.name) -> str:
    """`dim` as the script writes it: `n * 2 + 1`, `n // 4`, `T.max(n, m)`."""
    match dim:
        case int():
            return str(dim)
        case SymbolicVar():
            return name(dim)
        case DimOp("max" | "min" as kind, lhs, rhs):
            return f"T.{kind}({dim_text(lhs, name)}, {dim_text(rhs, name)})"
        case DimOp(kind, lhs, rhs) if kind in _COMPARISONS:
            return f"{dim_text(lhs, name)} {kind} {dim_text(rhs, name)}"
        case DimOp(kind, lhs, rhs):
            return f"{_operand_text(lhs, name)} {kind} {_operand_text(rhs, name)}"
        case DimExpr(terms):
            text = ""
            for monomial, coefficient in terms:
                sign = "-" if coefficient < 0 else "+"
                text += f" {sign} {_term_text(monomial, abs(coefficient), name)}"
            first = "-" if text.startswith(" - ") else ""
            return first + text[len(" + ") :]
    raise TypeError(f"`{dim!r}` is no dimension")


def can_prove_equal(lhs: Dim, rhs: Dim) -> bool:
    return lhs == rhs


def can_prove_different(lhs: Dim, rhs: Dim) -> bool:
    """Whether the two differ by a constant other than zero, whatever the variables are."""
    difference = lhs - rhs
    return isinstance(difference, int) and difference != 0


def _terms(dim: Dim) -> tuple[Term, ...]:
    match dim:
        case int():
            return (((), dim),) if dim else ()
        case DimExpr(terms):
            return terms
        case SymbolicVar() | DimOp() if dim.dtype == "int64":
            return ((((dim, 1),), 1),)
        case DimOp():
            raise TypeError(f"`{dim}` is true or false, which has no arithmetic and no order")
    return _terms(as_dim(dim))


def _canonical(terms: Iterable[Term]) -> Dim:
    """The sum of terms, which may have the same monomials."""
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(monomial, coefficient) for monomial, coefficient in total.items() if coefficient]
    if not kept:
        return 0
    if len(kept) == 1:
        monomial, coefficient = kept[0]
        if not monomial:
            return coefficient
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            return monomial[0][0]
    return DimExpr(tuple(sorted(kept, key=lambda term: _monomial_order(term[0]))))


def _combine(lhs: Dim, rhs: Dim, sign: int) -> Dim:
    return _canonical((*_terms(lhs), *((m, sign * factor) for m, factor in _terms(rhs))))


def _multiply(lhs: Dim, rhs: Dim) -> Dim:
    pairs = itertools.product(_terms(lhs), _terms(rhs))
    return _canonical((_monomial((*a, *b)), factor * other) for (a, factor), (b, other) in pairs)


def _monomial(factors: Iterable[tuple[Atom, int]]) -> Monomial:
    """The product of powers of atoms."""
    powers: dict[Atom, int] = {}
    for atom, power in factors:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _order(item[0])))


def _split_multiples(dim: Dim, divisor: int) -> tuple[Dim, Dim]:
    """`(q, r)` with `dim == q * divisor + r` and no multiple of `divisor` left in `r`."""
    quotient = _canonical((monomial, factor // divisor) for monomial, factor in _terms(dim))
    rest = _canonical((monomial, factor % divisor) for monomial, factor in _terms(dim))
    return quotient, rest


def _quotient(lhs: Dim, rhs: Dim) -> Dim:
    """`lhs // rhs` for a symbolic `rhs`, without the factors that all terms of both share."""
    divisor = _terms(rhs)
    if len(divisor) != 1:
        return 1 if lhs == rhs else DimOp("//", lhs, rhs)
    powers, coefficient = dict(divisor[0][0]), divisor[0][1]
    terms = [(dict(monomial), factor) for monomial, factor in _terms(lhs)]
    shared = gcd(coefficient, *(factor for _, factor in terms))
    common = {atom: min(n, *(left.get(atom, 0) for left, _ in terms)) for atom, n in powers.items()}
    if shared == 1 and not any(common.values()):
        return DimOp("//", lhs, rhs)

    def rest(monomial: dict[Any, int], factor: int) -> Term:
        left = ((atom, power - common.get(atom, 0)) for atom, power in monomial.items())
        return tuple((atom, power) for atom, power in left if power), factor // shared

    numerator = _canonical(rest(*term) for term in terms)
    return floordiv(numerator, _canonical([rest(powers, coefficient)]))


def _order(dim: Dim) -> tuple[Any, ...]:
    match dim:
        case int():
            return (0, dim)
        case SymbolicVar():
            return (1, dim.serial)
        case DimOp(kind, lhs, rhs):
            return (2, kind, _order(lhs), _order(rhs))
        case DimExpr(terms):
            return (3, tuple((_monomial_order(monomial), c) for monomial, c in terms))
    raise TypeError(f"`{dim!r}` is no dimension")


def _monomial_order(monomial: Monomial) -> tuple[Any, ...]:
    """Higher degrees first and the constant last, as people write polynomials."""
    degree = sum(power for _, power in monomial)
    return (-degree, tuple((_order(atom), power) for atom, power in monomial))


def _term_text(monomial: Monomial, coefficient: int, name: Callable[[SymbolicVar], str]) -> str:
    factors = [_operand_text(atom, name) for atom, power in monomial for _ in range(power)]
    if coefficient != 1 or not factors:
        factors.append(str(coefficient))
    return " * ".join(factors)


def _operand_text(dim: Dim, name: Callable[[SymbolicVar], str]) -> str:
    text = dim_text(dim, name)
    bare = isinstance(dim, int | SymbolicVar) or text.startswith("T.")
    return text if bare else f"({text})"
