"""The exponential of matrices."""

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dtype_of, ndim_of, scalar, where

from .complex_numbers import is_complex
from .matrices import identity
from .pairs import fixed
from .promotion import cast
from .table import aten

# Higham's approximants (2005) by dtype: the norm up to which they hold, and the coefficients of
# the polynomial above; the one below has them with signs in turns.
_APPROXIMANTS = {
    "float32": (3.925724783138660, (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)),
    "float64": (
        5.371920351148152,
        (
            *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800),
            *(129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800),
            *(960960, 16380, 182, 1),
        ),
    ),
}
_MOST_SQUARINGS = 16


@aten("matrix_exp.default", "linalg_matrix_exp.default")
def matrix_exp(self: Expr) -> Expr:
    """By a quotient of polynomials of a part of the matrix, which is squared as often as halved.

    It is NaN where the norm of a matrix is above 2 ** 16 times what an approximant is good for.
    """
    dtype = dtype_of(self)
    if is_complex(self):
        raise ValueError("the exponential of a matrix of complex numbers is not there here")
    if dtype not in _APPROXIMANTS:
        return cast(matrix_exp(cast(self, "float32")), dtype)
    limit, coefficients = _APPROXIMANTS[dtype]
    axis = ndim_of(self) - 1
    sums = call("sum", call("abs", fixed(self)), [axis - 1], True)
    times = call("ceil", call("log2", call("max", sums, [axis], True) / scalar(limit, self)))
    # Stored: a kernel that rounded otherwise would square once more than it has halved.
    times = call("grad.once", call("maximum", times, scalar(0, times)))
    found = _approximated(self / call("exp2", times), coefficients)
    for turn in range(_MOST_SQUARINGS):
        found = where(times > scalar(turn, times), call("matmul", found, found), found)
    return where(times <= scalar(_MOST_SQUARINGS, times), found, scalar(float("nan"), found))


def _approximated(x: Expr, coefficients: tuple[int, ...]) -> Expr:
    """(even - odd)^-1 (even + odd), of the even and the odd powers of a polynomial."""
    square = call("matmul", x, x)
    power = identity(x)
    even, odd = scalar(coefficients[0], x) * power, scalar(coefficients[1], x) * power
    for place in range(2, len(coefficients), 2):
        power = square if place == 2 else call("matmul", power, square)
        even = even + scalar(coefficients[place], x) * power
        odd = odd + scalar(coefficients[place + 1], x) * power
    odd = call("matmul", x, odd)
    return call("linalg.solve", even - odd, even + odd)
