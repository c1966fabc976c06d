"""The use-def view: what binds a variable, in which block, by whom it is used and how often."""

import pytest
from parsing import parse_function

from relaxjax.ir import Call, Function, MatchCast, SeqExpr, Var
from relaxjax.ir.node import replace
from relaxjax.ir.uses import Uses, count_uses, direct_uses, values_of, values_of_kind
from relaxjax.ir.walk import all_vars, nested_bindings

F = parse_function("""
    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), b: R.Tensor((), "bool")):
        n = T.int64()
        with R.dataflow():
            h = R.exp(x)
            y = R.add(h, h)
            R.output(y)
        c = R.match_cast(y, R.Tensor((n, 2), "float32"))
        if b:
            t = R.negative(y)
            r = R.multiply(t, c)
        else:
            r = R.sin(y)
        @R.function(pure=True)
        def twice(v: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            d = R.add(v, v)
            return d
        return (y, r)
""")
VARS = {var.name: var for var in all_vars(F)}
KNOWN = Uses.of(F)


def names(variables: object) -> list[str]:
    return [var.name for var in variables]  # type: ignore[attr-defined]  # any collection


def test_what_variables_are_bound_to() -> None:
    value = KNOWN.value(VARS["y"])
    assert isinstance(value, Call)
    assert names(value.args) == ["h", "h"]
    assert KNOWN.value(VARS["x"]) is None
    assert KNOWN.value(value) is None
    bound = set(KNOWN.bindings)
    assert bound == {binding.var for binding in nested_bindings(F)}
    # A cast gives its variable another type, and maybe other dimensions, than its value has.
    assert bound - set(KNOWN.values) == {VARS["c"]}
    assert isinstance(KNOWN.bindings[VARS["c"]], MatchCast)
    assert KNOWN.value(VARS["c"]) is None


def test_uses_are_counted_wherever_they_are() -> None:
    assert count_uses(F) == KNOWN.counts
    assert KNOWN.count(VARS["y"]) == 4  # by the cast, by either branch and by the result
    assert KNOWN.count(VARS["twice"]) == 0
    assert KNOWN.used_once(VARS["x"])
    assert not KNOWN.used_once(VARS["h"])
    assert not KNOWN.used_once(F.body.body)


def test_the_innermost_binding_is_the_user() -> None:
    users = KNOWN.users_of(VARS["y"])
    assert names(users[:2]) == ["c", "t"]
    assert [str(KNOWN.value(var)) for var in users[2:]] == ["R.sin(y)"]
    assert names(KNOWN.users_of(VARS["h"])) == ["y"]
    assert KNOWN.users[VARS["h"]][VARS["y"]] == 2
    assert KNOWN.users_of(VARS["twice"]) == ()
    assert KNOWN.users_of(F.body.body) == ()


def test_blocks() -> None:
    assert KNOWN.blocks[VARS["h"]] is F.body.blocks[0]
    assert KNOWN.share_block(VARS["h"], VARS["y"])
    assert not KNOWN.share_block(VARS["c"], VARS["y"])
    assert not KNOWN.share_block(VARS["x"], VARS["b"])  # parameters lie in none
    assert KNOWN.call_beside(VARS["h"], VARS["y"]) is KNOWN.value(VARS["h"])
    assert KNOWN.call_beside(VARS["y"], VARS["c"]) is None


def test_a_call_is_told_where_what_it_mentions_is_visible() -> None:
    assert KNOWN.call(VARS["h"], "relax.exp") is KNOWN.value(VARS["h"])
    assert KNOWN.call(VARS["h"], "relax.sin") is None
    assert KNOWN.call(VARS["y"]) is None  # of a variable that its block hides
    assert KNOWN.call(VARS["t"]) is not None
    assert KNOWN.call(VARS["twice"]) is None


def test_one_block_by_itself() -> None:
    """To the block around it, what a closure uses is used by the binding that makes it."""
    function = parse_function("""
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.exp(x)
            @R.function(pure=True)
            def add(v: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                s = R.add(v, y)
                return s
            return y
    """)
    (block,) = function.body.blocks
    y, add = (binding.var for binding in block.bindings)
    known = Uses.of_block(block)
    assert known.users_of(y) == (add,)
    assert known.count(y) == 1  # the result of the function is outside of the block
    assert set(known.bindings) == {y, add}
    assert names(Uses.of(function).users_of(y)) == ["s"]


def test_what_depends_on_nothing_but_some_variables() -> None:
    weights = frozenset([VARS["x"]])
    assert KNOWN.follows_from(VARS["c"], weights)
    assert not KNOWN.follows_from(VARS["b"], weights)
    assert not KNOWN.follows_from(VARS["c"], frozenset())
    assert KNOWN.follows_from(VARS["d"], frozenset([VARS["v"]]))
    assert KNOWN.follows_from(VARS["twice"], weights)


def test_a_closure_that_calls_itself_depends_on_more() -> None:
    function = parse_function("""
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            @R.function(pure=True)
            def again(v: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                s = again(v)
                return s
            return x
    """)
    (binding,) = function.body.bindings()
    assert not Uses.of(function).follows_from(binding.var, frozenset(function.params))


@pytest.mark.parametrize("expr", [F, F.body])
def test_uses_outside_of_sequences(expr: Function | SeqExpr) -> None:
    assert list(direct_uses(expr)) == []
    assert names(direct_uses(F.body.body))[0] == "y"


def test_values_of_bindings() -> None:
    bindings = list(F.body.bindings())
    assert [*values_of(bindings)] == [binding.var for binding in bindings]
    assert list(values_of_kind(bindings, Function)) == [VARS["twice"]]


def test_a_view_holds_further_bindings() -> None:
    known = Uses.of(F)
    block = F.body.blocks[0]
    new = replace(block.bindings[1], var=Var("z", block.bindings[1].var.ty))
    known.bind(new, block, direct_uses(new.value))
    assert known.count(VARS["h"]) == 4
    assert known.users_of(VARS["h"]) == (VARS["y"], new.var)
