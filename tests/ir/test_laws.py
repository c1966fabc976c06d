"""Tables of laws, looked up by operators."""

from relaxjax.ir import Call, Expr, TensorType, Var
from relaxjax.ir.laws import Laws, law, says
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.uses import Uses

X = Var("x", TensorType((2,), "float32"))
ADD, EXP, MAXIMUM = map(get_op, ("relax.add", "relax.exp", "relax.maximum"))


@law("relax.add", "relax.subtract")
def of_sums(call: Call, op: Op, known: Uses) -> Expr | None:
    return call.args[0] if call.args[0] is call.args[1] else None


@law("relax.exp", where=says("commutative"))
def of_some(call: Call, op: Op, known: Uses) -> Expr | None:
    return EXP(call.args[0])


TABLE = Laws([of_sums, of_some])


def test_a_law_says_which_operators_it_looks_at() -> None:
    assert of_sums.name == "of_sums"
    assert of_sums.concerns(get_op("relax.subtract"))
    assert not of_sums.concerns(EXP)
    assert of_some.concerns(EXP)  # by its name
    assert of_some.concerns(MAXIMUM)  # by what it says
    assert not of_some.concerns(get_op("relax.subtract"))


def test_a_table_is_looked_up_by_the_operator() -> None:
    assert list(TABLE) == [of_sums, of_some]
    assert TABLE.on(ADD) == (of_sums, of_some)
    assert TABLE.on(EXP) == (of_some,)
    assert TABLE.on(get_op("relax.sin")) == ()
    assert TABLE.concern(EXP(X))
    assert not TABLE.concern(get_op("relax.sin")(X))
    assert not TABLE.concern(X)


def test_the_first_law_that_applies_is_taken() -> None:
    known, other = Uses(), Var("y", X.ty)
    assert TABLE.written(ADD(X, X), known) == ("of_sums", X)
    assert TABLE.written(ADD(X, other), known) == ("of_some", EXP(X))
    assert TABLE.written(X, known) is None
    assert Laws([of_sums]).written(ADD(X, other), known) is None
