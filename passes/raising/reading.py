"""What expressions of `lax.*` compute: numbers, sums and means over axes, as JAX writes them.

JAX writes a statistic of some axes as a smaller tensor, laid along the axes that are left. Which
these are is what a `View` keeps: a mean over rows must not be taken for one over columns, and the
only number of an axis that is repeated not for numbers that count along it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

from relaxjax.ir.expr import Call, Constant, Expr
from relaxjax.ir.laws import Law, law
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype, known_ndim, static_dims
from relaxjax.ir.types import is_float
from relaxjax.ir.uses import Uses

# A product is taken apart into so many factors at most, and so many numbers are taken out of it in
# turn. No norm or activation has as many, and a value that is multiplied by itself time and again
# has two to the power of the times.
_MOST_FACTORS = 8

HALF_PRECISION = ("bfloat16", "float16")


@dataclass(frozen=True)
class View:
    """A tensor and where its axes lie among those of a larger one.

    None is for an axis of one element that is repeated there.
    """

    expr: Expr
    axes: tuple[int | None, ...]

    @staticmethod
    def whole(expr: Expr) -> "View":
        return View(expr, tuple(range(known_ndim(expr))))


@dataclass(frozen=True)
class Reduced:
    """What a statistic is of, and over which axes."""

    data: Expr
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Factor:
    """A factor of a product, or with `inverted` what it is divided by."""

    view: View
    inverted: bool = False


@dataclass(frozen=True)
class Reading:
    """The questions that rules ask of expressions."""

    known: Uses

    def call(self, expr: Expr, *names: str) -> Call | None:
        """The call of one of some operators of `lax` that `expr` is, or is bound to."""
        call = expr if isinstance(expr, Call) else self.known.call(expr)
        if call is None or not isinstance(call.op, Op):
            return None
        return call if call.op.name.removeprefix("lax.") in names else None

    def operands(self, expr: Expr, name: str) -> list[View] | None:
        """The arguments of the very operator whose result `expr` is."""
        call = self.call(expr, name)
        return None if call is None else self.elementwise(call, View.whole(expr).axes)

    def args(self, view: View, name: str) -> list[View] | None:
        """The arguments of an operator, elementwise, that gives what `view` is spread from."""
        view = self.peeled(view)
        call = self.call(view.expr, name)
        return None if call is None else self.elementwise(call, view.axes)

    def elementwise(self, call: Call, axes: tuple[int | None, ...]) -> list[View]:
        """The arguments of a call as laid along axes; numbers have none."""
        return [View(arg, self._laid(arg, call, axes)) for arg in call.args]

    def _laid(self, arg: Expr, call: Call, axes: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Where the axes of an argument lie, which may have one element where others have more."""
        before, after = known_dims(arg), known_dims(call)
        if before is None or after is None or len(before) != len(after):
            return ()
        triples = zip(before, after, axes, strict=True)
        return tuple(axis if length == whole else None for length, whole, axis in triples)

    def peeled(self, view: View) -> View:
        """What `view` is made of by repeating it along further axes."""
        while (call := self.call(view.expr, "broadcast_in_dim", "reshape")) is not None:
            places = _places(call)
            if places is None:
                break
            axes = (None if place is None else view.axes[place] for place in places)
            view = View(call.args[0], tuple(axes))
        return view

    def unturned(self, view: View) -> View:
        """What `view` is made of by that, and by putting its axes into another order."""
        while True:
            view = self.peeled(view)
            call = self.call(view.expr, "transpose", "relax.permute_dims")
            places = None if call is None else order_of(call)
            if call is None or places is None:
                return view
            view = View(call.args[0], tuple(view.axes[place] for place in places))

    def number(self, view: View) -> float | None:
        """The number that fills a tensor, None where it is not filled with one known number."""
        expr = self.peeled(view).expr
        if not isinstance(expr, Constant) or expr.data.size != 1:
            return None
        real = expr.data.dtype.kind in "biu" or is_float(known_dtype(expr))
        return float(expr.data.reshape(())) if real else None

    def with_number(self, view: View, name: str) -> tuple[View, float] | None:
        """The arguments of an operator of which one is a number, the number last."""
        args = self.args(view, name)
        if args is None or len(args) != 2:
            return None
        for one, other in (args, args[::-1]):
            number = self.number(other)
            if number is not None:
                return one, number
            if name == "div":
                break
        return None

    def reduced(self, view: View, name: str) -> Reduced | None:
        """What `view` is a reduction of, with the axes that are left where they were."""
        view = self.peeled(view)
        call = self.call(view.expr, f"reduce_{name}")
        if call is None:
            return None
        data, axes = call.args[0], tuple(sorted(call.attrs["axes"]))
        left = tuple(axis for axis in range(known_ndim(data)) if axis not in axes)
        return Reduced(data, axes) if left == view.axes else None

    def total(self, view: View) -> Reduced | None:
        """What `view` is the sum of. In half precision JAX makes that in float32, and narrow."""
        narrowed = self.args(view, "convert_element_type")
        if narrowed is None:
            return self.reduced(view, "sum")
        found = self.reduced(narrowed[0], "sum")
        data = None if found is None else self.rounded(found.data)
        if found is None or data is None or known_dtype(data) != known_dtype(view.expr):
            return None
        return Reduced(data, found.axes)

    def rounded(self, expr: Expr) -> Expr | None:
        """What is made wide or narrow, between half precision and float32, to give `expr`."""
        call = self.call(expr, "convert_element_type")
        if call is None:
            return None
        dtypes = {known_dtype(call), known_dtype(call.args[0])}
        is_half = any(dtypes == {half, "float32"} for half in HALF_PRECISION)
        return call.args[0] if is_half else None

    def mean(self, view: View) -> Reduced | None:
        """What `view` is the mean of."""
        divided = self.with_number(view, "div")
        total = None if divided is None else self.reduced(divided[0], "sum")
        if divided is None or total is None or divided[1] != count_over(total):
            return None
        return total

    def largest(self, view: View) -> Reduced | None:
        """What `view` is the maximum of, as a number and not as something to differentiate."""
        view = self.unturned(view)
        while (stopped := self.args(view, "stop_gradient")) is not None:
            view = self.unturned(stopped[0])
        chosen = self.args(view, "select_n")
        if chosen is not None and len(chosen) == 3 and self._is_guarded(*chosen):
            view = self.unturned(chosen[-1])
        floored = self.with_number(view, "max")
        if floored is not None and floored[1] == -math.inf:
            view = self.unturned(floored[0])
        return self.reduced(view, "max")

    def _is_guarded(self, condition: View, other: View, view: View) -> bool:
        """Whether 0 is taken where `view` is not finite: `logsumexp` does so."""
        asked = self.args(condition, "is_finite")
        same = asked is not None and self.peeled(asked[0]) == self.peeled(view)
        return same and self.number(other) == 0

    def squared(self, expr: Expr) -> Expr | None:
        """What `expr` is the square of."""
        if (call := self.call(expr, "square")) is not None:
            return call.args[0]
        call = self.call(expr, "integer_pow")
        if call is not None:
            return call.args[0] if call.attrs["y"] == 2 else None
        call = self.call(expr, "mul")
        return None if call is None or call.args[0] is not call.args[1] else call.args[0]

    def mean_square(self, view: View) -> Reduced | None:
        """What `view` is the mean of the squares of."""
        mean = self.mean(view)
        base = None if mean is None else self.squared(mean.data)
        return None if mean is None or base is None else Reduced(base, mean.axes)

    def centred(self, expr: Expr) -> Reduced | None:
        """What is left in `expr` when the mean over some axes is taken off."""
        args = self.operands(expr, "sub")
        mean = None if args is None else self.mean(args[1])
        if args is None or mean is None or mean.data is not args[0].expr:
            return None
        return mean

    def variance(self, view: View) -> Reduced | None:
        """What `view` is the variance of, of centred values or as E[x^2] - E[x]^2.

        Either may be kept from falling below 0.
        """
        view = self.certain(view)
        floored = self.with_number(view, "max")
        view = self.certain(floored[0]) if floored is not None and floored[1] == 0 else view
        spread = self.mean_square(view)
        if spread is not None:
            inner = self.centred(spread.data)
            return inner if inner is not None and inner.axes == spread.axes else None
        args = self.args(view, "sub")
        return None if args is None else self._difference_of_means(*args)

    def _difference_of_means(self, squares: View, square: View) -> Reduced | None:
        whole, bare = self.mean_square(squares), self.peeled(square)
        base = self.squared(bare.expr)
        mean = None if base is None else self.mean(View(base, bare.axes))
        return whole if whole is not None and whole == mean else None

    def certain(self, view: View) -> View:
        """What `view` chooses where a condition is known: `jnp.var` asks whether it may divide."""
        args = self.args(view, "select_n")
        if args is None or len(args) != 3:
            return view
        number = self.number(args[0])
        return view if number is None else args[1 + bool(number)]

    def multiple(self, view: View) -> tuple[View, float]:
        """A tensor as a number times another, which as a rule is no such multiple itself."""
        number = 1.0
        for _ in range(_MOST_FACTORS):
            if (negated := self.args(view, "neg")) is not None:
                view, number = negated[0], -number
            elif (scaled := self.with_number(view, "mul")) is not None:
                view, number = scaled[0], number * scaled[1]
            elif (divided := self.with_number(view, "div")) is not None and divided[1] != 0:
                view, number = divided[0], number / divided[1]
            else:
                break
        return view, number

    def factors(self, view: View, quotients: bool = False) -> list[Factor]:
        """The factors of a product of any nesting, each where it is laid along the whole.

        With `quotients`, what is divided is taken apart too. Where there are very many, some of the
        factors are products themselves.
        """
        found: list[Factor] = []
        waiting = [Factor(view)]
        while waiting:
            factor = waiting.pop()
            opens = not factor.inverted and len(found) + len(waiting) + 2 <= _MOST_FACTORS
            product = self.args(factor.view, "mul") if opens else None
            quotient = self.args(factor.view, "div") if opens and quotients else None
            if product is not None:
                waiting += (Factor(arg) for arg in reversed(product))
            elif quotient is not None:
                waiting += (Factor(quotient[1], inverted=True), Factor(quotient[0]))
            else:
                found.append(Factor(self.peeled(factor.view), factor.inverted))
        return found


def raises(*operators: str) -> Callable[[Callable[[Call, Reading], Expr | None]], Law]:
    """Make a function a law on calls of some operators that asks a `Reading` of what is around."""

    def made(rule: Callable[[Call, Reading], Expr | None]) -> Law:
        @wraps(rule)
        def write(call: Call, op: Op, known: Uses) -> Expr | None:
            return rule(call, Reading(known))

        return law(*operators)(write)

    return made


def order_of(call: Call) -> tuple[int, ...] | None:
    """Where the axes of an argument come to lie when they are put into another order."""
    is_ours = call.op is get_op("relax.permute_dims")
    order = call.attrs["axes" if is_ours else "permutation"]
    return None if order is None else tuple(order.index(axis) for axis in range(len(order)))


def _places(call: Call) -> tuple[int | None, ...] | None:
    """Where the axes of an argument come to lie when axes of one element, or repeats, are added."""
    if len(call.args) != 1:
        return None
    if "broadcast_dimensions" in call.attrs:
        return _kept_places(call)
    before, after = static_dims(call.args[0].ty), static_dims(call.ty)
    if before is None or after is None or 1 in before or call.attrs.get("dimensions") is not None:
        return None
    places = tuple(place for place, length in enumerate(after) if length != 1)
    return places if tuple(after[place] for place in places) == before else None


def _kept_places(call: Call) -> tuple[int | None, ...] | None:
    """Where a broadcast lays the axes of its argument, None for those that it repeats."""
    before, after = known_dims(call.args[0]), known_dims(call)
    if before is None or after is None:
        return None
    pairs = zip(before, call.attrs["broadcast_dimensions"], strict=True)
    return tuple(place if after[place] == length else None for length, place in pairs)


def count_over(reduced: Reduced) -> int | None:
    """How many elements of the data are reduced to one."""
    dims = known_dims(reduced.data)
    if dims is None:
        return None
    lengths = [dims[axis] for axis in reduced.axes]
    known = [length for length in lengths if isinstance(length, int)]
    return math.prod(known) if len(known) == len(lengths) else None


def of_one_float(call: Call) -> bool:
    """Whether arguments and result are of one floating-point dtype."""
    dtypes = {known_dtype(expr) for expr in (*call.args, call)}
    return len(dtypes) == 1 and is_float(dtypes.pop())


def asks_for_precision(call: Call) -> bool:
    """Whether a product asks for more than that sums are made as its dtype has them."""
    wanted = call.attrs.get("preferred_element_type")
    return call.attrs.get("precision") is not None or wanted not in (None, known_dtype(call))
