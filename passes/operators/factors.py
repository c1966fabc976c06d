"""Factors along one axis: recognising them, and giving them to other tensors."""

from collections.abc import Iterable
from dataclasses import dataclass

from relaxjax.ir.expr import Call, Constant, Expr, ShapeExpr, Var
from relaxjax.ir.function import Binding, BindingBlock
from relaxjax.ir.node import replace
from relaxjax.ir.op import Axis, Op, get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.uses import Uses
from relaxjax.passes.layout.planning import size

# A factor passes so many operators at most on the way to the weights that take it.
MOST_PASSED = 64


class Weighed(Uses):
    """The use-def view of a function that knows what is constant in it, and not negative."""

    def __init__(self) -> None:
        super().__init__()
        self.constants: set[Var] = set()  # what is computed of constants alone
        self.moved: dict[Var, Expr] = {}  # and what its elements are those of

    def bind(self, binding: Binding, block: BindingBlock, used: Iterable[Var]) -> None:
        super().bind(binding, block, used)
        if self.is_constant(binding.value):
            self.constants.add(binding.var)
        match binding.value:
            case Call(op=Op(facts=facts), args=(source, *_)) if facts.get("moves"):
                self.moved[binding.var] = self.source(source)

    def is_constant(self, expr: Expr) -> bool:
        """Whether a tensor is computed of constants alone, and so ahead."""
        if isinstance(expr, Var):
            return expr in self.constants
        if isinstance(expr, Call):
            return isinstance(expr.op, Op) and all(map(self.is_constant, expr.args))
        return isinstance(expr, Constant | ShapeExpr)

    def is_nonnegative(self, expr: Expr) -> bool:
        """Whether no element of a tensor is known to be below 0."""
        source = self.source(expr)
        if isinstance(source, Constant):
            return bool((source.data >= 0).all())
        match self.value(source):
            case Call(op=Op(facts=facts)):
                return bool(facts.get("nonnegative"))
            case _:
                return False

    def source(self, expr: Expr) -> Expr:
        """The tensor whose elements operators have only moved, to be those of this one."""
        return self.moved.get(expr, expr) if isinstance(expr, Var) else expr


@dataclass(frozen=True)
class Factor:
    """`tensor op scale`, a product or a quotient, where the scale differs along one axis only.

    The axis is counted from the back; None says that the scale is one number.
    """

    tensor: Expr
    op: Op
    scale: Expr
    axis: Axis
    nonnegative: bool

    def fits(self, tensor: Expr) -> bool:
        """Whether the factor may be given to a tensor: both are of one dtype."""
        return known_dtype(tensor) == known_dtype(self.scale) is not None

    def runs_along(self, tensor: Expr, axis: Axis) -> bool:
        """Whether a tensor has elements along an axis, and is not repeated along it."""
        dims = known_dims(tensor)
        return axis is None or (dims is not None and -axis <= len(dims) and dims[axis] != 1)

    def cost(self, tensor: Expr, axis: Axis) -> int:
        """How many elements are multiplied; what is constant is multiplied ahead."""
        if isinstance(tensor, Constant) and isinstance(self.scale, Constant):
            return 0
        return size(tensor) * (1 if self.runs_along(tensor, axis) else size(self.scale))

    def given(self, tensor: Expr, axis: Axis) -> Expr:
        """`tensor` times the scale along one of its axes."""
        return self.op(tensor, along(self.scale, axis))


def along(vector: Expr, axis: Axis) -> Expr:
    """A tensor with elements along one axis, so that it broadcasts along another."""
    ty = vector.ty
    if axis is None or not isinstance(ty, TensorType) or ty.dims is None:
        return vector
    long = [dim for dim in ty.dims if dim != 1] or [1]
    shape = (*long, *[1] * (-axis - 1))
    if shape == ty.dims:
        return vector
    if isinstance(vector, Constant):
        return Constant(vector.data.reshape([dim for dim in shape if isinstance(dim, int)]))
    return get_op("relax.reshape")(vector, ShapeExpr(shape))


def factors(call: Call, known: Weighed) -> list[Factor]:
    """The ways to read a call as a tensor times a factor."""
    product, quotient = get_op("relax.multiply"), get_op("relax.divide")
    if call.op is product:
        pairs = [(call.args[0], call.args[1]), (call.args[1], call.args[0])]
    elif call.op is quotient:
        pairs = [(call.args[0], call.args[1])]
    else:
        return []
    assert isinstance(call.op, Op)
    found = []
    for tensor, scale in pairs:
        axes = _axes(tensor, scale, call)
        if len(axes) == 1:
            found.append(Factor(tensor, call.op, scale, axes[0], known.is_nonnegative(scale)))
    return found


def _axes(tensor: Expr, scale: Expr, call: Call) -> list[Axis]:
    """The one axis along which a scale differs, in a list; an empty one where there are more."""
    types = (tensor.ty, scale.ty, call.ty)
    if not all(isinstance(ty, TensorType) and ty.dims is not None for ty in types):
        return []
    x, s, out = (ty for ty in types if isinstance(ty, TensorType))
    if x.dims != out.dims or s.dims is None or not is_float(out.dtype):
        return []
    long = [axis - s.ndim for axis, dim in enumerate(s.dims) if dim != 1]
    return [*long] if long else [None]


def with_args(call: Call, args: dict[int, Expr]) -> Call:
    """A call with some of its arguments replaced, to be typed anew."""
    changed = tuple(args.get(place, arg) for place, arg in enumerate(call.args))
    return replace(call, args=changed, ty=None)
