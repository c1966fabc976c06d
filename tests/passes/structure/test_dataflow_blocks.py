"""ConvertToDataflow, ToNonDataflow and TopologicalSort: the blocks and the order in them."""

import pytest
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.passes import ConvertToDataflow, ToNonDataflow, TopologicalSort

SIGNATURE = (
    '@R.function(pure=False)\ndef main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):'
)


def main(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return f"{SIGNATURE}\n{lines}\n"


PLAIN = """
a = R.add(x, x)
_ = R.print(a, format="{}")
b = R.multiply(a, x)
d = R.multiply(b, x)
with R.dataflow():
    e = R.exp(d)
    f = R.exp(e)
    R.output(f)
g = R.exp(f)
return g
"""


def test_pure_bindings_beside_a_block_join_it() -> None:
    check_rewrite(
        ConvertToDataflow(),
        main(PLAIN),
        main("""
a = R.add(x, x)
_ = R.print(a, format="{}")
with R.dataflow():
    b = R.multiply(a, x)
    d = R.multiply(b, x)
    e = R.exp(d)
    f = R.exp(e)
    g = R.exp(f)
    R.output(g)
return g
"""),
    )


def test_the_smallest_size_of_a_block_can_be_chosen() -> None:
    changed = check_rewrite(
        ConvertToDataflow(min_size=1),
        main(PLAIN),
        main("""
with R.dataflow():
    a = R.add(x, x)
    R.output(a)
_ = R.print(a, format="{}")
with R.dataflow():
    b = R.multiply(a, x)
    d = R.multiply(b, x)
    e = R.exp(d)
    f = R.exp(e)
    g = R.exp(f)
    R.output(g)
return g
"""),
    )
    assert ConvertToDataflow(min_size=6)(changed) is changed
    check_kept(ConvertToDataflow(min_size=5), main("a = R.exp(x)\nb = R.exp(a)\nreturn b"))


def test_branches_and_closures_are_converted_inside() -> None:
    check_rewrite(
        ConvertToDataflow(),
        main("""
if c:
    y = R.exp(x)
    z = R.exp(y)
else:
    z = R.exp(x)
@R.function
def inner(q: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    w = R.exp(q)
    e = R.exp(w)
    return e
r = inner(z)
return r
"""),
        main("""
if c:
    with R.dataflow():
        y = R.exp(x)
        z1 = R.exp(y)
        R.output(z1)
    z = z1
else:
    z = R.exp(x)
with R.dataflow():
    @R.function
    def inner(q: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            w = R.exp(q)
            e = R.exp(w)
            R.output(e)
        return e
    r = inner(z)
    R.output(r)
return r
"""),
    )


def test_a_block_must_hold_something() -> None:
    with pytest.raises(ValueError, match="`min_size` must be at least 1, found 0"):
        ConvertToDataflow(min_size=0)(parse_functions(main("return x")))


def test_blocks_become_ordinary_and_join() -> None:
    check_rewrite(
        ToNonDataflow(),
        main("""
a = R.add(x, x)
with R.dataflow():
    b = R.exp(a)
    d = R.exp(b)
    R.output(d)
e = R.exp(d)
if c:
    with R.dataflow():
        y = R.exp(e)
        z1 = R.exp(y)
        R.output(z1)
    z = z1
else:
    z = e
return z
"""),
        main("""
a = R.add(x, x)
b = R.exp(a)
d = R.exp(b)
e = R.exp(d)
if c:
    y = R.exp(e)
    z1 = R.exp(y)
    z = z1
else:
    z = e
return z
"""),
    )


SORTED = {
    ("depth-first", "from-inputs"): "b1 c1 d1 b2 c2 d2 e f",
    ("depth-first", "from-outputs"): "b1 c1 d1 b2 c2 d2 e f",
    ("breadth-first", "from-inputs"): "b1 b2 c1 c2 d1 d2 e f",
    ("breadth-first", "from-outputs"): "b2 b1 c2 c1 d2 d1 f e",
}
VALUES = {
    "b1": "R.exp(x)",
    "b2": "R.sin(x)",
    "c1": "R.add(x, b1)",
    "c2": "R.add(x, b2)",
    "d1": "R.add(x, c1)",
    "d2": "R.add(x, c2)",
    "e": "R.add(d1, d2)",
    "f": "R.add(c1, d2)",
}


def block(names: str) -> str:
    lines = [f"    {name} = {VALUES[name]}" for name in names.split()]
    return main("\n".join(["with R.dataflow():", *lines, "    R.output(e, f)", "return (e, f)"]))


@pytest.mark.parametrize(("order", "direction"), SORTED)
def test_bindings_come_in_the_order_of_the_walk(order: str, direction: str) -> None:
    """As TVM sorts the same block."""
    given = TopologicalSort(order, direction)  # type: ignore[arg-type]  # the four that there are
    check_rewrite(given, block("b1 b2 c1 c2 d1 d2 e f"), block(SORTED[order, direction]))


def test_a_dimension_is_used_behind_its_definition() -> None:
    """Though nothing else says that `z` comes after the cast."""
    text = main("""
n = T.int64()
with R.dataflow():
    y = R.match_cast(x, R.Tensor((n,), "float32"))
    z = R.zeros(R.shape([n]), "float32")
    w = R.exp(z)
    R.output(w)
return w
""")
    for order in ("depth-first", "breadth-first"):
        check_kept(TopologicalSort(order, "from-outputs"), text)


def test_the_order_and_the_direction_are_two_words_each() -> None:
    module = parse_functions(main("return x"))
    message = "`order` must be 'depth-first' or 'breadth-first', found 'sideways'"
    with pytest.raises(ValueError, match=message):
        TopologicalSort("sideways")(module)  # type: ignore[arg-type]  # on purpose
    message = "`direction` must be 'from-inputs' or 'from-outputs', found 'up'"
    with pytest.raises(ValueError, match=message):
        TopologicalSort(direction="up")(module)  # type: ignore[arg-type]  # on purpose


def test_a_block_and_back() -> None:
    module = parse_functions(main("a = R.exp(x)\nb = R.exp(a)\nreturn b"))
    assert_structural_equal(ToNonDataflow()(ConvertToDataflow()(module)), module)
