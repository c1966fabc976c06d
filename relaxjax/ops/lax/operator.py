"""What the operators of the dialect share: how they are called, and facts that passes ask."""

from collections.abc import Callable, Mapping
from typing import Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.op import GradientRule, NoGradient, Op, Param, register, typed
from relaxjax.ir.types import Type

from .costs import ELEMENTWISE_NAMES, cost_of_primitive
from .layouts import layout_of_primitive

_CHOOSING = (
    "reduce_max reduce_min cummax cummin cumsum cumprod cumlogsumexp scatter_max scatter_min "
    "scatter_add scatter_mul pmax pmin sort top_k reduce_window_max reduce_window_min"
)
# Only what changes no number is said, so that imported programs compute what JAX computes: at most
# a zero gets the other sign.
_FACTS_OF: Mapping[str, Mapping[str, Any]] = {
    "add add_any": {"unit": 0, "commutative": True},
    "sub": {"right_unit": 0},
    "mul": {"unit": 1, "commutative": True},
    "div": {"right_unit": 1},
    "and_ or_ xor eq ne": {"commutative": True},
    "floor ceil round sign rem": {"jumps": True},
    "abs max min clamp relu6 select_n": {"turns": True},
    _CHOOSING: {"chooses": True},
    "svd": {"factors": {"compute_uv": True, "full_matrices": False}},
    "eig": {"factors": {"compute_right_eigenvectors": True}},
}
_FACTS = {name: facts for names, facts in _FACTS_OF.items() for name in names.split()}


def facts_of_primitive(name: str) -> Mapping[str, Any]:
    """The facts of the operator of a primitive."""
    return _FACTS.get(name, {})


_KINDS = {
    "injective": """
        bitcast_convert_type broadcast_in_dim concatenate copy dynamic_slice expand_dims gather
        iota name pad reshape rev slice split squeeze stop_gradient transpose
    """,
    "reduction": """
        argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
    """,
    "out_fusable": "conv_general_dilated dot_general",
}
_FUSION = {name: kind for kind, names in _KINDS.items() for name in names.split()}


def fusion_of_primitive(name: str) -> str:
    """The fusion class of the operator `lax.<name>`."""
    return "elementwise" if name in ELEMENTWISE_NAMES else _FUSION.get(name, "opaque")


class LaxOp(Op):
    """An operator of the `lax` dialect: its arguments come by position, its attributes by name."""

    __slots__ = ()

    def __call__(self, *args: Any, **named: Any) -> Call:
        for index, arg in enumerate(args):
            if not isinstance(arg, Expr):
                raise TypeError(
                    f"{self.name}: argument {index + 1} must be a Relax expression, but `{arg!r}` "
                    f"of type {type(arg).__name__} was given; write R.const(value, dtype)"
                )
        call = Call(self, args, Attrs(named))
        return typed(call) if all(arg.ty is not None for arg in args) else call


def declare(
    name: str,
    doc: str,
    infer: Callable[[Call], Type],
    lower: Callable[..., Any],
    gradient: GradientRule | NoGradient | None = None,
    facts: Mapping[str, Any] | None = None,
    **more: Any,
) -> LaxOp:
    """Enter an operator of the dialect into the table."""
    operator = LaxOp(
        name=f"lax.{name}",
        params=(Param("args", True, tuple, (), variadic=True),),
        infer=infer,
        doc=doc,
        lower=lower,
        gradient=gradient,
        cost=cost_of_primitive(name),
        fusion=fusion_of_primitive(name),
        layout=layout_of_primitive(name),
        facts=Attrs(facts_of_primitive(name) if facts is None else facts),
        **more,
    )
    register(operator)
    return operator
