"""Linear algebra, and distances between all rows of two matrices.

Vectors of decompositions are not there: their signs are free.
"""

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, ndim_of, scalar

from .promotion import promoted
from .reductions import vector_norm
from .shapes import permute
from .table import aten


@aten("linalg_inv.default", "inverse.default")
def inv(self: Expr | None = None, A: Expr | None = None) -> Expr:  # noqa: N803  # torch's name
    return call("linalg.inv", A if self is None else self)


@aten("linalg_det.default", "det.default")
def det(self: Expr | None = None, A: Expr | None = None) -> Expr:  # noqa: N803  # torch's name
    return call("linalg.det", A if self is None else self)


@aten("linalg_slogdet.default")
def slogdet(A: Expr) -> list[Expr]:  # noqa: N803  # torch's name
    sign_and_logarithm = call("linalg.slogdet", A)
    return [sign_and_logarithm[0], sign_and_logarithm[1]]


@aten("linalg_solve.default")
def solve(A: Expr, B: Expr, left: bool = True) -> Expr:  # noqa: N803  # torch's name
    if not left:
        raise ValueError("a matrix to the right of what is sought: transpose both sides")
    if ndim_of(B) == ndim_of(A) - 1:
        return call("squeeze", call("linalg.solve", A, call("expand_dims", B, -1)), [-1])
    return call("linalg.solve", A, B)


@aten("linalg_cholesky.default", "cholesky.default")
def cholesky(self: Expr, upper: bool = False) -> Expr:
    lower = call("linalg.cholesky", self)
    ndim = ndim_of(self)
    return permute(lower, [*range(ndim - 2), ndim - 1, ndim - 2]) if upper else lower


@aten("linalg_eigvalsh.default")
def eigvalsh(self: Expr, UPLO: str = "L") -> Expr:  # noqa: N803  # torch's name
    return call("linalg.eigh", self)[0]


@aten("cdist.default", "_cdist_forward.default")
def cdist(x1: Expr, x2: Expr, p: float = 2.0, compute_mode: int | None = None) -> Expr:
    first, second = promoted(x1, x2)
    apart = call("expand_dims", first, -2) - call("expand_dims", second, -3)
    return vector_norm(apart, p, [-1], False)


@aten("dist.default")
def dist(self: Expr, other: Expr, p: float = 2.0) -> Expr:
    first, second = promoted(self, other)
    return vector_norm(first - second, p, None, False)


@aten("linalg_cross.default")
def cross(self: Expr, other: Expr, dim: int = -1) -> Expr:
    first, second = promoted(self, other)

    def part(x: Expr, place: int) -> Expr:
        return call("take", x, scalar(place, call("arange", 0, 1, 1, "int64")), dim)

    parts = [
        part(first, (i + 1) % 3) * part(second, (i + 2) % 3)
        - part(first, (i + 2) % 3) * part(second, (i + 1) % 3)
        for i in range(3)
    ]
    return call("stack", parts, dim)
