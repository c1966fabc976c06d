"""Graphs of patterns: several values of a block at once."""

import pytest
from parsing import parse_function

from relaxjax.dpl import DFPattern, PatternContext, PatternSeq, is_op, wildcard
from relaxjax.ir import BindingBlock, Expr, Function, Var

diamond = parse_function("""
    @R.function
    def diamond(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            top = R.add(x, y)
            left = R.nn.relu(top)
            right = R.exp(top)
            end = R.multiply(left, right)
            twice = R.add(end, end)
            wide = R.concat((end, twice), axis=0)
            R.output(twice, wide)
        return twice, wide
    """)


def block(function: Function) -> BindingBlock:
    return function.body.blocks[0]


def names(found: dict[DFPattern, Expr] | None, *patterns: DFPattern) -> list[str]:
    assert found is not None
    variables = [found[pattern] for pattern in patterns]
    return [var.name for var in variables if isinstance(var, Var)]


def test_a_diamond() -> None:
    with PatternContext() as context:
        top = is_op("relax.add")(wildcard(), wildcard())
        left, right = is_op("relax.nn.relu")(top), is_op("relax.exp")(top)
        end = is_op("relax.multiply")(left, right)
    found = context.match_dfb(block(diamond))
    assert names(found, top, left, right, end) == ["top", "left", "right", "end"]


def test_patterns_that_share_nothing_but_an_argument() -> None:
    with PatternContext() as context:
        shared = wildcard()
        one, other = is_op("relax.exp")(shared), is_op("relax.nn.relu")(shared)
    assert names(context.match_dfb(block(diamond)), shared, one, other) == ["top", "right", "left"]


def test_two_patterns_never_stand_for_one_binding() -> None:
    with PatternContext() as context:
        shared = wildcard()
        for _ in range(2):
            is_op("relax.exp")(shared)
    assert context.match_dfb(block(diamond)) is None


def test_every_way_is_found() -> None:
    with PatternContext() as context:
        total = is_op("relax.add")(wildcard(), wildcard())
    ways = [names(found, total) for found in context.matches(block(diamond))]
    assert {name for (name,) in ways} == {"top", "twice"}


def call(name: str) -> DFPattern:
    return is_op(name)(varg_default_wildcard=True)


def test_used_by_and_only_used_by() -> None:
    with PatternContext() as context:
        top, left = call("relax.add"), call("relax.nn.relu")
        assert len(top ^ left) == 2
    assert names(context.match_dfb(block(diamond)), top, left) == ["top", "left"]
    with PatternContext() as context:
        assert len(call("relax.add") >> call("relax.nn.relu")) == 2
    assert context.match_dfb(block(diamond)) is None, "right uses top, too"
    with PatternContext() as context:
        left, end = call("relax.nn.relu"), call("relax.multiply")
        assert len(left >> end) == 2
    assert names(context.match_dfb(block(diamond)), left, end) == ["left", "end"]


def test_what_leaves_the_block_is_used_elsewhere() -> None:
    with PatternContext() as context:
        assert len(call("relax.add") >> call("relax.concat")) == 2
    assert context.match_dfb(block(diamond)) is None


def test_a_fork_uses_a_value_alone() -> None:
    with PatternContext() as context:
        top, left, right = call("relax.add"), call("relax.nn.relu"), call("relax.exp")
        top.fork_to(left, right)
        top.only_used_by(left)
    assert names(context.match_dfb(block(diamond)), top, left, right) == ["top", "left", "right"]


def test_the_place_of_an_argument() -> None:
    for index, expected in ((0, True), (1, False)):
        with PatternContext() as context:
            call("relax.nn.relu").used_by(call("relax.multiply"), index)
        assert (context.match_dfb(block(diamond)) is not None) == expected


def test_a_row_of_patterns_and_its_twin() -> None:
    with PatternContext() as context:
        row = call("relax.add") ^ call("relax.exp") >> call("relax.multiply")
        longer = row.used_by(call("relax.add"))
    assert len(longer) == 4
    assert names(context.match_dfb(block(diamond)), *longer.patterns) == [
        "top",
        "right",
        "end",
        "twice",
    ]
    with PatternContext() as context:
        twin = row.dup()
    assert twin[0] is not row[0]
    assert names(context.match_dfb(block(diamond)), *twin.patterns) == ["top", "right", "end"]
    with PatternContext() as context:
        joined = PatternSeq([call("relax.add"), call("relax.nn.relu")]) >> call("relax.multiply")
    assert names(context.match_dfb(block(diamond)), *joined.patterns) == ["top", "left", "end"]
    with PatternContext() as context:
        PatternSeq([call("relax.add"), call("relax.nn.relu")], only_use=True)
    assert context.match_dfb(block(diamond)) is None


def test_values_of_one_shape() -> None:
    for name, expected in (("relax.exp", True), ("relax.concat", False)):
        with PatternContext() as context:
            call("relax.nn.relu").same_shape_as(call(name))
        assert (context.match_dfb(block(diamond)) is not None) == expected


def test_a_refined_pattern_counts_with_its_refinement() -> None:
    with PatternContext() as context:
        is_op("relax.exp")(wildcard()).has_dtype("float16")
    assert context.match_dfb(block(diamond)) is None


def test_an_incremental_context_begins_with_the_one_around_it() -> None:
    with PatternContext() as outer:
        top = is_op("relax.add")(wildcard(), wildcard())
        assert PatternContext.current() is outer
        with PatternContext(incremental=True) as inner:
            left = is_op("relax.nn.relu")(top)
        with PatternContext() as separate:
            right = is_op("relax.exp")(wildcard())
    assert names(inner.match_dfb(block(diamond)), top, left) == ["top", "left"]
    assert names(separate.match_dfb(block(diamond)), right) == ["right"]
    assert left not in outer.patterns


def test_there_must_be_a_context() -> None:
    with pytest.raises(ValueError, match=r"no context is open: write `with PatternContext\(\)"):
        PatternContext.current()
