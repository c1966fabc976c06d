"""Factors along one axis: recognising them, and giving them to other tensors."""

from dataclasses import dataclass, field

from relaxjax.ir.expr import Call, Constant, Expr, ShapeExpr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.scaling import Axis
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.walk import nested_sequences, uses
from relaxjax.passes.layout.planning import size

# A factor passes so many operators at most on the way to the weights that take it.
MOST_PASSED = 64


@dataclass(frozen=True)
class Bindings:
    """What the variables of a function are bound to, where, how often used, and by whom."""

    values: dict[Var, Expr]
    place: dict[Var, int]
    uses: dict[Var, int]
    readers: dict[Var, list[Var]]
    constants: set[Var] = field(default_factory=set)  # what is computed of constants alone
    moved: dict[Var, Expr] = field(default_factory=dict)  # and what its elements are those of

    @staticmethod
    def of(function: Function) -> "Bindings":
        known = Bindings({}, {}, uses(function), {})
        blocks = [block for seq in nested_sequences(function) for block in seq.blocks]
        for number, block in enumerate(blocks):
            for binding in block.bindings:
                known.values[binding.var] = binding.value
                known.place[binding.var] = number
                if known.is_constant(binding.value):
                    known.constants.add(binding.var)
                match binding.value:
                    case Call(op=Op(facts=facts), args=(source, *_)) if facts.get("moves"):
                        known.moved[binding.var] = known.source(source)
                for var in uses(binding.value):
                    known.readers.setdefault(var, []).append(binding.var)
        return known

    def used_once(self, expr: Expr) -> bool:
        return isinstance(expr, Var) and self.uses.get(expr) == 1

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
        match self.values.get(source) if isinstance(source, Var) else None:
            case Call(op=Op(facts=facts)):
                return bool(facts.get("nonnegative"))
            case _:
                return False

    def source(self, expr: Expr) -> Expr:
        """The tensor whose elements operators have only moved, to be those of this one."""
        return self.moved.get(expr, expr) if isinstance(expr, Var) else expr

    def call(self, expr: Expr, beside: Var) -> Call | None:
        """The operator's call that a variable is bound to in the block of another one."""
        if not isinstance(expr, Var) or self.place.get(expr) != self.place[beside]:
            return None
        value = self.values.get(expr)
        return value if isinstance(value, Call) and isinstance(value.op, Op) else None


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
        return _dtype(tensor) == _dtype(self.scale) is not None

    def runs_along(self, tensor: Expr, axis: Axis) -> bool:
        """Whether a tensor has elements along an axis, and is not repeated along it."""
        dims = tensor.ty.dims if isinstance(tensor.ty, TensorType) else None
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


def factors(call: Call, known: Bindings) -> list[Factor]:
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


def _dtype(expr: Expr) -> str | None:
    return expr.ty.dtype if isinstance(expr.ty, TensorType) else None
