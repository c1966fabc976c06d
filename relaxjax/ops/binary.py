"""Binary operators: arithmetic, comparison, logic and bits, all with numpy's broadcasting.

Gradient rules give the adjoint in the broadcast shape: the Gradient pass sums it back for all.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from relaxjax.ir.expr import Constant, Expr
from relaxjax.ir.op import ZERO_GRADIENT, GradientRule, NoGradient, Op, ScalingRule
from relaxjax.ir.types import TensorType, is_smooth

from . import integers
from .arrays import broadcasting, keeping_dtype, through_floats
from .cost_rules import ELEMENTWISE, TRANSCENDENTAL, TRANSCENDENTAL_FLOPS, CostRule, per_element
from .declare import OpError, op
from .emit import call, scalar, where
from .host_operands import beside_tensors
from .scaling import PRODUCT, QUOTIENT, SUM
from .shapes import broadcast, common_dtype, require_numbers, require_real

_ELEMENTWISE = {"elementwise": True}


def arithmetic(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    gradient: GradientRule | NoGradient | None = None,
    facts: Mapping[str, Any] | None = None,
    cost: CostRule = ELEMENTWISE,
    scaling: ScalingRule | None = None,
    of_complex: bool = True,
    of_bools: bool = True,
) -> Op:
    """An operator on two tensors of one dtype, which is also the dtype of the result."""

    def infer(x1: TensorType, x2: TensorType) -> TensorType:
        if not of_complex:
            require_real(x1=x1, x2=x2)
        if not of_bools:
            require_numbers("x1", x1)
            require_numbers("x2", x2)
        return broadcast(x1, x2, common_dtype(x1=x1, x2=x2))

    infer.__doc__ = doc
    return _declared(name, lower, gradient, facts, cost, scaling)(infer)


def comparison(name: str, sign: str, **facts: Any) -> Op:
    """An operator on two tensors of one dtype with a result of dtype bool."""

    def infer(x1: TensorType, x2: TensorType) -> TensorType:
        common_dtype(x1=x1, x2=x2)
        return broadcast(x1, x2, "bool")

    infer.__doc__ = f"Whether x {sign} y."
    return _declared(name, getattr(jnp, name), ZERO_GRADIENT, facts)(infer)


def bitwise(
    name: str,
    lower: Callable[..., Any],
    doc: str,
    facts: Mapping[str, Any] | None = None,
    of_bools: bool = True,
) -> Op:
    """An operator on the bits of two tensors of one integer dtype, or bool."""

    def infer(x1: TensorType, x2: TensorType) -> TensorType:
        dtype = common_dtype(x1=x1, x2=x2)
        if is_smooth(dtype) or (dtype == "bool" and not of_bools):
            wanted = "an integer or bool" if of_bools else "an integer"
            raise OpError(f"the dtype must be {wanted}, found {dtype}")
        return broadcast(x1, x2, dtype)

    infer.__doc__ = doc
    return _declared(name, lower, ZERO_GRADIENT, facts)(infer)


def _declared(
    name: str,
    lower: Callable[..., Any],
    gradient: GradientRule | NoGradient | None,
    facts: Mapping[str, Any] | None,
    cost: CostRule = ELEMENTWISE,
    scaling: ScalingRule | None = None,
) -> Callable[[Callable[..., TensorType]], Op]:
    return op(
        f"relax.{name}",
        complete=beside_tensors,
        lower=broadcasting(lower),
        gradient=gradient,
        precision="follow",
        fusion="broadcast",
        facts={**_ELEMENTWISE, **(facts or {})},
        cost=cost,
        scaling=scaling,
    )


def _divide_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    return g / y, -g * z / y


def _power_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr | None]:
    """With the limits where a factor is infinite: x ** 0 is flat, and so is 0 ** y for y > 0."""
    if isinstance(y, Constant) and 0 not in y.data:
        return g * y * x ** (y - 1), None
    is_zero = call("equal", x, scalar(0, x))
    is_flat = call("logical_and", is_zero, call("equal", y, scalar(0, y)))
    lower_power = where(is_flat, scalar(0, y), y - 1)
    positive = where(is_zero, scalar(1, x), x)
    return g * y * x**lower_power, g * z * call("log", positive)


def _maximum_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    of_y = _decided(x < y, x, y)
    return where(of_y, scalar(0, g), g), where(of_y, g, scalar(0, g))


def _minimum_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    of_x = _decided(x < y, x, y)
    return where(of_x, g, scalar(0, g)), where(of_x, scalar(0, g), g)


def _decided(which: Expr, x: Expr, y: Expr) -> Expr:
    """Which of two numbers is chosen, computed once for both: one of them has the adjoint."""
    is_either = not isinstance(x, Constant) and not isinstance(y, Constant)
    return call("grad.once", which) if is_either else which


def _remainder_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """By how many times the result took `y` away: a quotient anew may lie beyond an integer."""
    return g, -g * call("round", (x - z) / y)


def _atan2_gradient(g: Expr, z: Expr, y: Expr, x: Expr) -> tuple[Expr, Expr]:
    square = x * x + y * y
    return g * x / square, -g * y / square


def _log_add_exp_gradient(g: Expr, z: Expr, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """Equal ones share, infinities too, of which there is no difference."""
    ahead = where(call("equal", x, y), scalar(0, x), x - y)
    return g * call("sigmoid", ahead), g * call("sigmoid", -ahead)


def _by_kind(of_integers: Callable[..., Any], of_others: Callable[..., Any]) -> Callable[..., Any]:
    """One function of integers, and another one of floats and complex numbers."""

    def lower(x: Any, y: Any) -> Any:
        is_integer = jnp.issubdtype(jnp.result_type(x), jnp.integer)
        return (of_integers if is_integer else of_others)(x, y)

    return lower


def _remainder(x: Any, y: Any) -> Any:
    return lax.rem(*jnp.broadcast_arrays(x, y))


def _log_add_exp(x: Any, y: Any) -> Any:
    """The larger one, plus a correction; of two equal infinities, their sum."""
    difference = x - y
    correction = jnp.log1p(jnp.exp(-abs(difference)))
    return lax.select(jnp.isnan(difference), x + y, jnp.maximum(x, y) + correction)


add = arithmetic(
    "add",
    jnp.add,
    "Sum: z = x + y.",
    lambda g, z, x, y: (g, g),
    {"unit": 0, "commutative": True, "associative": True},
    scaling=SUM,
)
subtract = arithmetic(
    "subtract",
    jnp.subtract,
    "Difference: z = x - y.",
    lambda g, z, x, y: (g, -g),
    {"right_unit": 0},
    scaling=SUM,
    of_bools=False,
)
multiply = arithmetic(
    "multiply",
    jnp.multiply,
    "Product: z = x * y.",
    lambda g, z, x, y: (g * y, g * x),
    {"unit": 1, "zero": 0, "commutative": True, "associative": True},
    scaling=PRODUCT,
)
divide = arithmetic(
    "divide",
    _by_kind(integers.quotient, jnp.divide),
    "Quotient: z = x / y; of integers, cut off towards zero, and -1 for y = 0.",
    _divide_gradient,
    {"right_unit": 1},
    scaling=QUOTIENT,
    of_bools=False,
)
power = arithmetic(
    "power",
    _by_kind(integers.power, jnp.power),
    "Power: z = x ** y; of integers, cut off towards zero for y < 0.",
    _power_gradient,
    {"right_unit": 1},
    TRANSCENDENTAL,
    of_bools=False,
)
floor_divide = arithmetic(
    "floor_divide",
    _by_kind(integers.quotient_rounded_down, jnp.floor_divide),
    "Quotient rounded down: z = floor(x / y); of integers, -1 for y = 0.",
    ZERO_GRADIENT,
    facts={"jumps": True},
    of_complex=False,
    of_bools=False,
)
mod = arithmetic(
    "mod",
    _by_kind(integers.remainder, _remainder),
    "Remainder with the sign of x: z = x - trunc(x / y) * y; of integers, x for y = 0.",
    _remainder_gradient,
    facts={"jumps": True},
    of_complex=False,
    of_bools=False,
)
floor_mod = arithmetic(
    "floor_mod",
    jnp.remainder,
    "Remainder with the sign of y: z = x - floor(x / y) * y; of integers, 0 for y = 0.",
    _remainder_gradient,
    facts={"jumps": True},
    of_complex=False,
    of_bools=False,
)
maximum = arithmetic(
    "maximum",
    jnp.maximum,
    "Larger of two: z = max(x, y). A tie hands its whole adjoint to x.",
    _maximum_gradient,
    {"commutative": True, "associative": True, "idempotent": True, "turns": True},
    of_complex=False,
)
minimum = arithmetic(
    "minimum",
    jnp.minimum,
    "Smaller of two: z = min(x, y). A tie hands its whole adjoint to y.",
    _minimum_gradient,
    {"commutative": True, "associative": True, "idempotent": True, "turns": True},
    of_complex=False,
)
atan2 = arithmetic(
    "atan2",
    through_floats(jnp.arctan2),
    "Angle of the point (x2, x1) in the plane: z = atan(x1 / x2), in the right quadrant.",
    _atan2_gradient,
    cost=TRANSCENDENTAL,
    of_complex=False,
)
log_add_exp = arithmetic(
    "log_add_exp",
    through_floats(_log_add_exp),
    "Sum in the logarithm's domain: z = log(exp(x) + exp(y)), without overflow.",
    _log_add_exp_gradient,
    {"commutative": True, "associative": True},
    per_element(TRANSCENDENTAL_FLOPS * 2 + 4),
    of_complex=False,
)

equal = comparison("equal", "=", commutative=True, negated="relax.not_equal")
not_equal = comparison("not_equal", "!=", commutative=True, negated="relax.equal")
less = comparison("less", "<", swapped="relax.greater", negated="relax.greater_equal")
less_equal = comparison("less_equal", "<=", swapped="relax.greater_equal", negated="relax.greater")
greater = comparison("greater", ">", swapped="relax.less", negated="relax.less_equal")
greater_equal = comparison("greater_equal", ">=", swapped="relax.less_equal", negated="relax.less")

_LOGIC = {"commutative": True, "associative": True}


def _logic(name: str, holds: str) -> Op:
    lower, doc = keeping_dtype(getattr(jnp, name)), f"Whether {holds} true (not 0)."
    return arithmetic(name, lower, doc, ZERO_GRADIENT, _LOGIC)


logical_and = _logic("logical_and", "both are")
logical_or = _logic("logical_or", "one of the two or both are")
logical_xor = _logic("logical_xor", "exactly one of the two is")
bitwise_and = bitwise(
    "bitwise_and", jnp.bitwise_and, "The bits that both have.", {**_LOGIC, "idempotent": True}
)
bitwise_or = bitwise(
    "bitwise_or", jnp.bitwise_or, "The bits that one or both have.", {**_LOGIC, "idempotent": True}
)
bitwise_xor = bitwise(
    "bitwise_xor", jnp.bitwise_xor, "The bits that exactly one of them has.", _LOGIC
)
left_shift = bitwise(
    "left_shift", jnp.left_shift, "Bits moved to the left: z = x * 2 ** y.", of_bools=False
)
right_shift = bitwise(
    "right_shift",
    jnp.right_shift,
    "Bits moved to the right, the sign kept: z = floor(x / 2 ** y).",
    of_bools=False,
)
