"""Steps of random programs with control flow: choices, closures, and loops of two kinds."""

from typing import TYPE_CHECKING

from guarded_operators import bounded, dims_of, tensor
from hypothesis import strategies as st

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax.ir import Expr, If, TensorType, Tuple, TupleGetItem, TupleType, Var
from relaxjax.ir.builder import make_function
from relaxjax.ops.emit import call, scalar

if TYPE_CHECKING:
    from differentiable_programs import Maker


def choice(maker: "Maker") -> None:
    x = maker.value()
    asked = call("sum", x) > scalar(0.1, x)
    condition = maker.builder.emit(maker.choose([maker.flag, asked]), "c")
    branches = [maker.sequence(like=x) for _ in range(2)]
    maker.keep(If(condition, *branches))


def closure(maker: "Maker") -> None:
    x = maker.value()
    param = Var("inner", x.ty)
    body = maker.sequence([param])
    closure = maker.builder.emit(make_function([param], body, ret_ty=body.ty), "closure")
    maker.keep(closure(x))
    if maker.draw(st.booleans()):
        maker.keep(closure(bounded(x)))


def scan(maker: "Maker") -> None:
    """A loop over the rows of a value, or over nothing, that sees the values around it."""
    x, rows = maker.value(), maker.value()
    steps = dims_of(tensor(rows))[0] if tensor(rows).ndim else None
    carry = Var("carry", x.ty)
    xs: Expr = Tuple() if steps is None else rows
    length = maker.draw(st.integers(0, 5)) if steps is None else None
    each = TupleType() if steps is None else tensor(rows)
    row = Var(
        "row", each if isinstance(each, TupleType) else TensorType(dims_of(each)[1:], each.dtype)
    )
    seen = [carry] if steps is None else [carry, row]
    body = maker.sequence(seen, like=carry, paired=True)
    step = maker.builder.emit(make_function([carry, row], body, ret_ty=body.ty), "step")
    is_known = steps is None or isinstance(steps, int)  # not n, nor n * 2
    checkpoint = is_known and maker.draw(st.booleans())
    reverse = maker.draw(st.booleans())
    done = call("scan", step, x, xs, length, reverse=reverse, checkpoint=checkpoint)
    both = maker.builder.emit(done, "scanned")
    # Of nothing there is no largest number: no step's rows are asked for one.
    maker.keep(TupleGetItem(both, 0 if length == 0 else maker.choose([0, 1])))


def while_loop(maker: "Maker") -> None:
    """A loop that goes on as long as something holds, three times at most."""
    x = maker.value()
    carry, asked = Var("carry", x.ty), Var("asked", x.ty)
    body = maker.sequence([carry], like=carry)
    step = maker.builder.emit(make_function([carry], body, ret_ty=body.ty), "step")
    with maker.builder.scope():
        goes_on = maker.builder.sequence(call("sum", bounded(asked)) < scalar(0.4, x))
    test = make_function([asked], goes_on, ret_ty=goes_on.ty)
    condition = maker.builder.emit(test, "goes_on")
    bound, checkpoint = maker.draw(st.integers(0, 3)), maker.draw(st.booleans())
    maker.keep(call("while_loop", condition, step, x, bound, checkpoint=checkpoint))
