"""Loops whose body is a Relax function."""

from typing import Any

from jax import lax

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import If
from relaxjax.ir.infer import unify
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.tuples import each_tensor
from relaxjax.ir.types import FuncType, TensorType, TupleType, Type
from relaxjax.ir.walk import substitute_type

from .cost_rules import Cost, FunctionCost
from .declare import OpError, op
from .loop_segments import in_segments
from .loop_types import stacked, steps_of, unstacked
from .plain_jax import bounded_loop


def _scan(
    body: Any, init: Any, xs: Any, length: int | None, reverse: bool, checkpoint: bool, unroll: int
) -> Any:
    return lax.scan(
        lambda carry, x: body(carry, x), init, xs, length=length, reverse=reverse, unroll=unroll
    )


def _scan_in_segments(
    body: Expr,
    init: Expr,
    xs: Expr,
    length: int | None,
    reverse: bool,
    checkpoint: bool,
    unroll: int,
) -> Expr | None:
    assert xs.ty is not None
    return in_segments(body, init, xs, steps_of(xs.ty, length), reverse) if checkpoint else None


def _scanned(call: Call, function_cost: FunctionCost) -> Cost:
    """The body, as often as there are steps."""
    assert call.args[2].ty is not None
    return function_cost(call.args[0]).times(steps_of(call.args[2].ty, call.attrs["length"]))


def _repeated(call: Call, function_cost: FunctionCost) -> Cost:
    """As many steps as there may be."""
    step = function_cost(call.args[0]) + function_cost(call.args[1])
    return step.times(call.attrs["max_iter"])


@op("relax.scan", lower=_scan, training_form=_scan_in_segments, facts={"loop": True}, cost=_scanned)
def scan(
    body: FuncType,
    init: Type,
    xs: Type,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool = False,
    unroll: int = 1,
) -> TupleType:
    """A loop over the leading dimension of `xs`: `body(carry, x) -> (carry, y)`.

    The carry starts as `init`; the result is the last carry, and the y of all steps stacked. `xs`
    is a tensor or a tuple of tensors; where it is the empty tuple, `length` says how many steps
    there are. With `reverse` the last x comes first. The body is a function of the module or one
    defined on the spot, which may use the variables around it.

    With `checkpoint`, the backward program of n steps keeps what about 2 sqrt(n) of them need, and
    runs the body once more. With `unroll`, so many steps are compiled one after another: it costs
    compile time and can save run time.
    """
    if unroll < 1:
        raise OpError(f"`unroll` must be a positive number of steps, found {unroll}")
    steps = steps_of(xs, length)
    if body.params is None or len(body.params) != 2:
        raise OpError(f"`body` must take a carry and an x, but it is of type {body}")
    if not isinstance(body.ret, TupleType) or len(body.ret.fields) != 2:
        raise OpError(f"`body` must return a carry and a y, but it returns {body.ret}")
    carry, y = body.ret.fields
    wanted_carry, wanted_x = body.params
    for name, given, wanted in (
        ("init", init, wanted_carry),
        ("xs", each_tensor(xs, unstacked), wanted_x),
        ("the carry that `body` returns", carry, wanted_carry),
    ):
        if fits(given, wanted) is Fit.NEVER:
            what = "each step of `xs`" if name == "xs" else name.replace("init", "`init`")
            raise OpError(f"{what} must be of type {wanted}, which `body` takes, found {given}")
    own: dict[SymbolicVar, Dim] = {}  # the body's dimensions, as they are here
    unify(wanted_carry, init, own)
    unify(wanted_x, each_tensor(xs, unstacked), own)
    ys = each_tensor(substitute_type(y, own), lambda ty: stacked(ty, steps))
    return TupleType((substitute_type(wanted_carry, own), ys))


def _while_loop(cond: Any, body: Any, init: Any, max_iter: int, checkpoint: bool) -> Any:
    return bounded_loop(cond, body, init, max_iter)


def _as_scan(cond: Expr, body: Expr, init: Expr, max_iter: int, checkpoint: bool) -> Expr:
    """As many steps as there may be; one after the end does nothing, and has no derivative."""
    carry, nothing = Var("carry", init.ty), Var("nothing", TupleType())
    builder = BlockBuilder()
    with builder.scope(taken=["carry", "nothing"]):
        goes_on = builder.emit(Call(cond, (carry,)), "goes_on")
        with builder.scope():
            step = builder.sequence(builder.emit(Call(body, (carry,)), "step"))
        with builder.scope():
            stay = builder.sequence(carry)
        after = builder.emit(If(goes_on, step, stay), "after")
        seq = builder.sequence((after, Tuple()))
    step_function = make_function([carry, nothing], seq, ret_ty=seq.ty)
    done = scan(step_function, init, Tuple(), max_iter, checkpoint=checkpoint)
    return TupleGetItem(done, 0)


@op(
    "relax.while_loop",
    lower=_while_loop,
    training_form=_as_scan,
    facts={"loop": True},
    cost=_repeated,
)
def while_loop(
    cond: FuncType, body: FuncType, init: Type, max_iter: int, checkpoint: bool = False
) -> Type:
    """A loop: `body(carry) -> carry`, as long as `cond(carry)` holds, `max_iter` times at most.

    The bound is what lets the loop be differentiated: its backward program is a loop of `max_iter`
    steps in reverse, of which those that were not taken do nothing. `checkpoint` is as in R.scan.
    """
    if max_iter < 0:
        raise OpError(f"`max_iter` must not be negative, found {max_iter}")
    for name, function in (("cond", cond), ("body", body)):
        if function.params is None or len(function.params) != 1:
            raise OpError(f"`{name}` must take a carry, but it is of type {function}")
        if fits(init, function.params[0]) is Fit.NEVER:
            raise OpError(f"`init` must be of type {function.params[0]}, found {init}")
    if fits(cond.ret, TensorType((), "bool")) is Fit.NEVER:
        raise OpError(f"`cond` must return a scalar of dtype bool, but it returns {cond.ret}")
    assert body.params is not None
    carry = body.params[0]
    if fits(body.ret, carry) is Fit.NEVER:
        raise OpError(f"`body` must return a carry of type {carry}, but it returns {body.ret}")
    own: dict[SymbolicVar, Dim] = {}
    unify(carry, init, own)
    return substitute_type(carry, own)
