"""Kernels of convolutions stored with their axes in the order in which a step reads them."""

from collections import Counter
from collections.abc import Iterator, Sequence

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.layout import Order, inverse
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import map_bindings, substitute, used_vars
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.layout.channels_last import CONVOLUTIONS
from relaxjax.trainable.arguments import Arguments, count_of
from relaxjax.trainable.names import BACKBONE, BACKBONE_LOSS, INPUT_NUM
from relaxjax.trainable.storage import params_of, with_stored_params

from .prologue import with_prologue
from .update import tensor_type

# The order of the axes of those parameters, by their numbers, that are not stored as they are.
Moves = dict[int, Order]


@pass_factory(opt_level=0)
def StoreKernels(mod: IRModule) -> IRModule:
    """Let functions take kernels with their axes in the order in which the loss reads them.

    These are the parameters that `backbone_loss` uses in no other way than rearranged as kernels.
    The attribute `stored_params` says in which order each is; a Trainer has them as they were. It
    is for optimizers that treat each number separately, and comes before StackLayers.
    """
    arrays = Arguments.of(mod, BACKBONE_LOSS).params
    first, moves = count_of(mod, INPUT_NUM), moves_of(mod[BACKBONE_LOSS], arrays)
    if not moves:
        return mod
    own, storage = params_of(mod, arrays)
    names = [name for name in (BACKBONE_LOSS, BACKBONE) if name in mod]
    changed = mod.with_functions({name: with_moves(mod[name], first, moves) for name in names})
    return with_stored_params(changed, [param.name for param in own], storage.moved(moves))


def moves_of(function: Function, params: Sequence[Var]) -> Moves:
    """Those parameters that a function uses in no other way than rearranged as kernels."""
    numbers = {param: n for n, param in enumerate(params)}
    kernels = {call.args[1] for call in _convolutions(function)}
    bindings = list(function.body.bindings())
    uses = Counter(var for binding in bindings for var in used_vars(binding.value))
    moves: Moves = {}
    for binding in bindings:
        moved = _moved(binding.value)
        if moved is not None and moved[0] in numbers and binding.var in kernels:
            moves[numbers[moved[0]]] = moved[1]
    once = {numbers[var] for var, times in uses.items() if var in numbers and times == 1}
    return {number: order for number, order in moves.items() if number in once}


def _convolutions(function: Function) -> Iterator[Call]:
    for binding in function.body.bindings():
        call = binding.value
        if isinstance(call, Call) and operator_name(call) in CONVOLUTIONS:
            yield call


def with_moves(function: Function, first: int, moves: Moves) -> Function:
    """A function that takes parameters rearranged, and has them as they were where it needs so."""
    orders = {function.params[first + number]: order for number, order in moves.items()}
    stored = {var: Var(var.name, _moved_type(var, order)) for var, order in orders.items()}
    made = {
        binding.var: stored[moved[0]]
        for binding in function.body.bindings()
        if (moved := _moved(binding.value)) is not None and orders.get(moved[0]) == moved[1]
    }
    kept = map_bindings(function.body, lambda b: None if b.var in made else b)
    body = substitute(kept, made)
    used = set(used_vars(body))
    back = {var: order for var, order in orders.items() if var in used}

    def as_they_were(builder: BlockBuilder) -> dict[Var, Expr]:
        permute = get_op("relax.permute_dims")
        return {
            var: builder.emit(permute(stored[var], list(inverse(order))), var.name)
            for var, order in back.items()
        }

    if back:
        body = with_prologue(function, body, as_they_were)
    given = tuple(stored.get(param, param) for param in function.params)
    return make_function(
        given, body, ret_ty=function.ret_ty, pure=function.pure, attrs=function.attrs
    )


def _moved(value: Expr) -> tuple[Var, Order] | None:
    """Which variable a call rearranges, and the order in which it has its axes then."""
    if not isinstance(value, Call) or value.op is not get_op("relax.permute_dims"):
        return None
    (source,), axes = value.args, value.attrs["axes"]
    return (source, tuple(axes)) if isinstance(source, Var) and axes is not None else None


def _moved_type(param: Var, order: Order) -> TensorType:
    ty = tensor_type(param)
    assert ty.dims is not None
    dims = tuple(ty.dims[axis] for axis in order)
    placement = None if ty.placement is None else ty.placement.in_order(order)
    return TensorType(dims, ty.dtype, vdevice=ty.vdevice, placement=placement)
