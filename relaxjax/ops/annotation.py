"""Marks that passes read: where the region of another compiler is, and where lifting ends."""

from relaxjax.ir.expr import Expr
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, Type

from .cost_rules import VIEWS
from .declare import op
from .emit import call
from .rearranging import LIKE_DATA


def _mark(name: str, doc: str) -> Op:
    """An operator whose value is its argument, of any type."""

    def infer(data: Expr, compiler: str) -> Type:
        assert data.ty is not None
        return data.ty

    infer.__doc__ = doc
    return op(
        f"relax.{name}",
        lower=lambda data, compiler: data,
        gradient=lambda g, y, data, compiler: call(name, g, compiler),
        jvp=lambda tangents, y, data, compiler: call(name, tangents[0], compiler),
        precision="follow",
        facts={"placement": True},
        cost=VIEWS,
    )(infer)


compiler_begin = _mark(
    "compiler_begin", "`data`, where it goes into a region for the backend `compiler`."
)
compiler_end = _mark(
    "compiler_end", "`data`, where it comes out of a region for the backend `compiler`."
)


@op(
    "relax.builtin.stop_lift_params",
    layout=LIKE_DATA,
    lower=lambda x: x,
    gradient=lambda g, y, x: g,
    jvp=lambda tangents, y, x: tangents[0],
    precision="follow",
    facts={"placement": True},
    cost=VIEWS,
)
def stop_lift_params(x: TensorType) -> TensorType:
    """`x`, which LiftTransformParams does not compute ahead of the model, nor what comes of it."""
    return x
