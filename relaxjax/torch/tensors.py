"""Tensors that share memory in PyTorch: what is written into one is read from the others."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from relaxjax.ir.expr import Expr

from .aten.pointwise import detach, with_gradient_of
from .errors import TorchImportError

Emit: TypeAlias = Callable[[Expr], Expr]


class Tensor:
    """A tensor with memory of its own, as it is at this point of the program.

    One without a gradient is a buffer, or was computed where there are none.
    """

    def __init__(self, expr: Expr, has_gradient: bool = True) -> None:
        self._expr = expr
        self.has_gradient = has_gradient
        self.version = 0

    def read(self) -> Expr:
        return self._expr

    def write(self, expr: Expr) -> None:
        self._expr = expr
        self.version += 1

    def root(self) -> "Tensor":
        return self


class View(Tensor):
    """A tensor that shows a part of another: it is read from that, and written into that.

    `get` makes it of the other, `put` the other of itself and of what the part becomes. Where the
    part may be a copy as well, for all that is known, no write may meet it.
    """

    def __init__(
        self,
        base: Tensor,
        expr: Expr,
        get: Callable[[Expr], Expr],
        put: Callable[[Expr, Expr], Expr] | None,
        is_certain: bool = True,
    ) -> None:
        super().__init__(expr)
        self._base, self._get, self._put, self._is_certain = base, get, put, is_certain
        self._seen = self.root().version

    def root(self) -> Tensor:
        return self._base.root()

    def read(self) -> Expr:
        if self._seen != self.root().version:
            if not self._is_certain:
                raise TorchImportError(
                    "a tensor is written to, and another one, which may be a view of it or a copy, "
                    "is read afterwards: say which by `clone`, or export a functional program, by "
                    "`program.run_decompositions()`"
                )
            self._expr, self._seen = self._get(self._base.read()), self.root().version
        return self._expr

    def write(self, expr: Expr) -> None:
        if self._put is None or not self._is_certain:
            raise TorchImportError(
                "what is written to here is a view, of which it is not known where it lies in the "
                "tensor that it shows: export a functional program, by "
                "`program.run_decompositions()`"
            )
        self._base.write(self._put(self._base.read(), expr))
        self._expr, self._seen = expr, self.root().version


class Detached(View):
    """A tensor with the memory of another, and a gradient of its own: of what is written into it.

    It has none before that. What is written elsewhere into the memory changes only its numbers.
    """

    def __init__(self, base: Tensor, emit: Emit) -> None:
        def get(whole: Expr) -> Expr:
            return emit(detach(whole))

        def put(whole: Expr, new: Expr) -> Expr:
            return emit(with_gradient_of(whole, new))

        super().__init__(base, get(base.read()), get, put)
        self._emit = emit
        self._is_written = False

    def read(self) -> Expr:
        old, is_old = self._expr, self._seen != self.root().version
        new = super().read()
        if is_old and self._is_written:
            self._expr = self._emit(with_gradient_of(old, new))
        return self._expr

    def write(self, expr: Expr) -> None:
        super().write(expr)
        self._is_written = True


def is_view(sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> bool | None:
    """Whether a tensor takes another shape without being copied; None where it is not known.

    Axes that follow one another in memory are one, and the new axes must divide up each of these.
    """
    if -1 in (*sizes, *strides, *wanted):
        return None
    axes = [(size, step) for size, step in zip(sizes, strides, strict=True) if size != 1]
    runs: list[int] = []
    for place, (size, step) in enumerate(axes):
        follows = place > 0 and axes[place - 1][1] == size * step
        runs = [*runs[:-1], runs[-1] * size] if follows else [*runs, size]
    rest = [size for size in wanted if size != 1]
    for run in runs:
        product = 1
        while rest and product < run:
            product *= rest.pop(0)
        if product != run:
            return False
    return True
