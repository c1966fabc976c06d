"""Rules written as two functions: their helpers, and their symbolic dimensions."""

import pytest
from parsing import parse_function, parse_functions

from relaxjax.dpl import PatternMatchingRewriter
from relaxjax.ir import IRModule, assert_structural_equal, well_formed

RULE = """
    @R.function
    def pattern(a: R.Tensor(("m", "n"), "float32")):
        return R.multiply(a, a)

    @R.function
    def replacement(a: R.Tensor(("m", "n"), "float32")):
        b = Module.helper(a)
        return b

    @R.function(private=True)
    def helper(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        b = Module.inner(a)
        return b

    @R.function(private=True)
    def inner(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        return R.{}(a)

    @R.function(private=True)
    def unused(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        return a
    """

MAIN = """
    @R.function
    def main(x: R.Tensor(("p", 3), "float32")):
        y = R.multiply(x, x)
        return y
    """

OTHER = """
    @R.function
    def pattern(a: R.Tensor(("m", "n"), "float32")):
        return R.add(a, a)

    @R.function
    def replacement(a: R.Tensor(("m", "n"), "float32")):
        b = Module.helper(a)
        return b

    @R.function(private=True)
    def helper(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        return R.multiply(a, R.const(2.0))
    """


def rule(text: str) -> PatternMatchingRewriter:
    return PatternMatchingRewriter.from_module(parse_functions(text))


def after(text: str, program: str) -> IRModule:
    changed = rule(text)(parse_functions(program))
    well_formed(changed)
    return changed


def test_private_functions_come_along_with_the_replacement_that_calls_them() -> None:
    changed = after(RULE.format("square"), MAIN)
    assert_structural_equal(
        changed,
        parse_functions("""
            @R.function(private=True)
            def helper(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
                b = Module.inner(a)
                return b

            @R.function(private=True)
            def inner(a: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
                return R.square(a)

            @R.function
            def main(x: R.Tensor(("p", 3), "float32")):
                y = Module.helper(x)
                return y
            """),
    )


def test_where_nothing_fits_no_function_is_added() -> None:
    mod = parse_functions(MAIN.replace("multiply", "add"))
    assert rule(RULE.format("square"))(mod) is mod


def test_helpers_get_names_that_no_other_function_has() -> None:
    both = rule(RULE.format("square")) | rule(OTHER)
    mod = parse_functions(
        MAIN.replace("return y", "z = R.add(y, y)\n        return z")
        + """
    @R.function
    def inner(x: R.Tensor((3,), "float32")):
        return x
    """
    )
    changed = both(mod)
    well_formed(changed)
    names = {var.name for var in changed.functions}
    assert names == {"main", "inner", "inner1", "helper", "helper1"}
    assert "inner1(a)" in changed["helper"].script()
    assert [str(b.value) for b in changed["main"].body.bindings()] == [
        "cls.helper(x)",
        "cls.helper1(y)",
    ]


def test_a_helper_that_is_there_already_is_used_again() -> None:
    rewriter = rule(RULE.format("square"))
    once = rewriter(parse_functions(MAIN))
    twice = rewriter(
        once.with_function("more", parse_functions(MAIN.replace("def main", "def more"))["more"])
    )
    assert {var.name for var in twice.functions} == {"main", "more", "helper", "inner"}
    well_formed(twice)


def test_a_function_alone_cannot_take_helpers() -> None:
    main = parse_function(MAIN)
    with pytest.raises(ValueError, match="the replacement calls `helper`, which no function can"):
        rule(RULE.format("square"))(main)
    unchanged = parse_function(MAIN.replace("multiply", "add"))
    assert rule(RULE.format("square"))(unchanged) is unchanged


def test_a_public_helper_is_refused() -> None:
    with pytest.raises(ValueError, match="`helper` is public, but a rule has two public functions"):
        rule(OTHER.replace("(private=True)", ""))


def test_a_match_cast_in_a_replacement_is_refused() -> None:
    with pytest.raises(ValueError, match="a match_cast cannot be a part of a replacement"):
        rule("""
            @R.function
            def pattern(a: R.Tensor(("m",), "float32")):
                return R.exp(a)

            @R.function
            def replacement(a: R.Tensor(("m",), "float32")):
                b = R.match_cast(a, R.Tensor((4,), "float32"))
                return R.exp(b)
            """)


def test_a_pattern_whose_tuple_has_a_name_is_refused_too() -> None:
    with pytest.raises(ValueError, match="`pattern` must return one value"):
        rule("""
            @R.function
            def pattern(a: R.Tensor(("m",), "float32")):
                t = (R.exp(a), a)
                return t

            @R.function
            def replacement(a: R.Tensor(("m",), "float32")):
                return (R.exp(a), a)
            """)


SIZED = """
    @R.function
    def pattern(a: R.Tensor(("m", "n"), "float32"), b: R.Tensor(("n", "m"), "float32")):
        return R.matmul(a, b)

    @R.function
    def replacement(a: R.Tensor(("m", "n"), "float32"), b: R.Tensor(("n", "m"), "float32")):
        m, n = T.int64(), T.int64()
        s = R.reshape(a, R.shape([m * n]))
        z = R.full(R.shape([m]), R.const(0.0), dtype="float32")
        c = R.call_pure_packed("f", s, b, z, n + 1, ty_args=R.Tensor((m, m), "float32"))
        return c
    """


def test_dimensions_of_a_replacement_are_those_of_its_arguments() -> None:
    program = """
        @R.function
        def main(x: R.Tensor(("p", 3), "float32"), y: R.Tensor((3, "p"), "float32")):
            z = R.matmul(x, y)
            return z
        """
    expected = """
        @R.function
        def main(x: R.Tensor(("p", 3), "float32"), y: R.Tensor((3, "p"), "float32")):
            p = T.int64()
            s = R.reshape(x, R.shape([p * 3]))
            f = R.full(R.shape([p]), R.const(0.0), dtype="float32")
            z = R.call_pure_packed("f", s, y, f, 4, ty_args=R.Tensor((p, p), "float32"))
            return z
        """
    assert_structural_equal(after(SIZED, program), parse_functions(expected))


@pytest.mark.parametrize(
    "params",
    [
        'x: R.Tensor((2, 3), "float32"), y: R.Tensor((3, 4), "float32")',
        'x: R.Tensor(("p", 3), "float32"), y: R.Tensor((3, "q"), "float32")',
        'x: R.Tensor(ndim=2, dtype="float32"), y: R.Tensor(ndim=2, dtype="float32")',
    ],
)
def test_a_dimension_is_the_same_wherever_its_name_stands(params: str) -> None:
    """What is not known to be so stays as it is, and what no argument tells is not written."""
    mod = parse_functions(f"""
        @R.function
        def main({params}):
            z = R.matmul(x, y)
            return z
        """)
    assert rule(SIZED)(mod) is mod


def test_a_pattern_finds_shapes_written_in_its_dimensions() -> None:
    text = """
        @R.function
        def pattern(a: R.Tensor(("m", "n"), "float32")):
            m, n = T.int64(), T.int64()
            return R.reshape(a, R.shape([n, m]))

        @R.function
        def replacement(a: R.Tensor(("m", "n"), "float32")):
            return R.call_pure_packed("f", a, ty_args=R.Tensor(ndim=2, dtype="float32"))
        """
    program = """
        @R.function
        def main(x: R.Tensor(("p", 3), "float32")):
            p = T.int64()
            y = R.reshape(x, R.shape([{}]))
            return y
        """
    assert "call_pure_packed" in after(text, program.format("3, p")).script()
    mod = parse_functions(program.format("p, 3"))
    assert rule(text)(mod) is mod


TWO = """
    @R.function
    def pattern(a: R.Tensor(("m", "n"), "float32"), b: R.Tensor(("n", "k"), "float32")):
        return R.matmul(a, b)

    @R.function
    def replacement({}):
        return a
    """


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            'b: R.Tensor(("n", "k"), "float32"), a: R.Tensor(("m", "n"), "float32")',
            "`pattern` takes `a`, `b`, but `replacement` `b`, `a`: .* write them in one order$",
        ),
        (
            'a: R.Tensor(("m", "n"), "float16"), b: R.Tensor(("n", "k"), "float32")',
            r"takes `a` as R.Tensor.*float32.* takes `a` in its place as .*float16.*: give both th",
        ),
        (
            'a: R.Tensor(("m", "n"), "float32"), c: R.Tensor(("n",), "float32")',
            "takes `b` as .* but `replacement` takes `c` in its place as",
        ),
        ('a: R.Tensor(("m", "n"), "float32")', "same parameters, found 2 and 1$"),
    ],
)
def test_parameters_of_both_functions_are_the_same(params: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rule(TWO.format(params))
