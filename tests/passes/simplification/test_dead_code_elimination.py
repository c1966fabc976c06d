"""Dead-code elimination, script in and script out."""

import pytest
from parsing import parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax.ir.expr import ExternFunc, GlobalVar
from relaxjax.passes import DeadCodeElimination

SWEPT = {
    "unused bindings go from both kinds of blocks": (
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    unused = R.add(x, x)
    also_unused = R.multiply(unused, x)
    with R.dataflow():
        a = R.add(x, x)
        b = R.multiply(a, x)
        c = R.subtract(a, x)
        R.output(b)
    y = R.add(b, b)
    z = R.add(b, x)
    return y
""",
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    with R.dataflow():
        a = R.add(x, x)
        b = R.multiply(a, x)
        R.output(b)
    y = R.add(b, b)
    return y
""",
    ),
    "blocks around a dataflow block that goes become one": (
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    a = R.add(x, x)
    with R.dataflow():
        b = R.multiply(a, x)
        R.output(b)
    c = R.subtract(a, x)
    return c
""",
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    a = R.add(x, x)
    c = R.subtract(a, x)
    return c
""",
    ),
    "a branch is swept inside; a choice that nothing uses goes whole": (
        """
@R.function
def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
    only_in_unused = R.add(x, x)
    if c:
        w = R.add(x, only_in_unused)
    else:
        w = R.subtract(x, x)
    in_a_branch = R.multiply(x, x)
    if c:
        unused = R.add(x, x)
        y = R.multiply(x, in_a_branch)
    else:
        y = R.subtract(x, x)
    return y
""",
        """
@R.function
def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
    in_a_branch = R.multiply(x, x)
    if c:
        y = R.multiply(x, in_a_branch)
    else:
        y = R.subtract(x, x)
    return y
""",
    ),
    "a closure is swept inside, keeps what it captures, and goes where nothing calls it": (
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    captured = R.add(x, x)
    captured_in_vain = R.multiply(x, x)

    @R.function
    def never(t: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        r = R.add(t, captured_in_vain)
        return r

    @R.function
    def called(t: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        unused = R.multiply(t, t)
        r = R.add(t, captured)
        return r

    y = called(x)
    return y
""",
        """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    captured = R.add(x, x)

    @R.function
    def called(t: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        r = R.add(t, captured)
        return r

    y = called(x)
    return y
""",
    ),
    "impure calls stay, with their arguments and the branch around them": (
        """
@R.function(pure=False)
def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
    y = R.add(x, x)
    z = R.call_packed("show", y, ty_args=R.Tuple)
    if c:
        unused = R.add(x, x)
        p = R.call_packed("show", x, ty_args=R.Tuple)
        k = R.add(x, x)
    else:
        k = R.multiply(x, x)
    w = R.call_packed("f", y, ty_args=R.Tensor((3,), "float32"))
    v = R.call_pure_packed("f", y, ty_args=R.Tensor((3,), "float32"))
    return x
""",
        """
@R.function(pure=False)
def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
    y = R.add(x, x)
    z = R.call_packed("show", y, ty_args=R.Tuple)
    if c:
        p = R.call_packed("show", x, ty_args=R.Tuple)
        k = R.add(x, x)
    else:
        k = R.multiply(x, x)
    w = R.call_packed("f", y, ty_args=R.Tensor((3,), "float32"))
    return x
""",
    ),
    "impure functions are called": (
        """
@R.function(pure=False)
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    a = Module.loud(x)
    b = Module.quiet(x)

    @R.function(pure=False)
    def never(t: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        p = R.call_packed("show", t, ty_args=R.Tuple)
        return t

    return x

@R.function(private=True, pure=False)
def loud(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    p = R.call_packed("show", x, ty_args=R.Tuple)
    return x

@R.function(private=True)
def quiet(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    return x
""",
        """
@R.function(pure=False)
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    a = Module.loud(x)
    return x

@R.function(private=True, pure=False)
def loud(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    p = R.call_packed("show", x, ty_args=R.Tuple)
    return x
""",
    ),
    "a match cast stays for the dimensions that it defines": (
        """
@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
    n, m, k = T.int64(), T.int64(), T.int64()
    defines_m = R.match_cast(x, R.Tensor((m,), "float32"))
    defines_k = R.match_cast(x, R.Tensor((k,), "float32"))
    checks_only = R.match_cast(x, R.Tensor((4,), "float32"))
    checks_again = R.match_cast(x, R.Tensor((m,), "float32"))
    z = R.zeros(R.shape([m]), "float32")
    u = R.zeros(R.shape([k]), "float32")
    return z
""",
        """
@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
    n, m = T.int64(), T.int64()
    defines_m = R.match_cast(x, R.Tensor((m,), "float32"))
    z = R.zeros(R.shape([m]), "float32")
    return z
""",
    ),
}

KEPT = {
    "dimensions in types and closures count": """
@R.function
def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
    m = T.int64()
    defines_m = R.match_cast(x, R.Tensor((m,), "float32"))

    @R.function
    def inner(t: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
        r = R.add(t, t)
        return r

    y = R.match_cast(x, R.Tensor((m,), "float32"))
    z = inner(y)
    return z
""",
    "what is all used": """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = R.add(x, x)
    return y
""",
}

FAMILY = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = Module.child(x)
    unused = Module.orphan(x)
    return y

@R.function
def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    return x

@R.function(private=True)
def child(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = Module.grandchild(x)
    return y

@R.function(private=True)
def grandchild(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    y = Module.child(x)
    return y

@R.function(private=True)
def orphan(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    return x
"""


@pytest.mark.parametrize("case", SWEPT)
def test_what_nothing_needs_goes(case: str) -> None:
    check_rewrite(DeadCodeElimination(), *SWEPT[case])


@pytest.mark.parametrize("case", KEPT)
def test_what_is_needed_stays(case: str) -> None:
    check_kept(DeadCodeElimination(), KEPT[case])


def test_functions_that_no_public_one_reaches_go() -> None:
    """Also one that only dead code calls; recursion keeps alive only what is reached."""
    assert sorted(DeadCodeElimination()(parse_functions(FAMILY))) == [
        "child", "grandchild", "main", "other",
    ]  # fmt: skip


def test_entry_functions() -> None:
    family = parse_functions(FAMILY)
    assert sorted(DeadCodeElimination(["main"])(family)) == ["child", "grandchild", "main"]
    assert sorted(DeadCodeElimination([GlobalVar("other")])(family)) == ["other"]
    assert sorted(DeadCodeElimination(["orphan", "other"])(family)) == ["orphan", "other"]
    assert sorted(DeadCodeElimination([])(family)) == []


def test_a_module_of_private_functions_has_no_entry() -> None:
    private = parse_functions(FAMILY).without_functions("main", "other")
    assert len(DeadCodeElimination()(private)) == 0


def test_external_functions_stay() -> None:
    mod = parse_functions(FAMILY).with_function("outside", ExternFunc("outside"))
    assert "outside" in DeadCodeElimination(["other"])(mod)


def test_wrong_entry_functions() -> None:
    match = r"the module has no function `mian`; .* did you mean `main`"
    with pytest.raises(ValueError, match=match):
        DeadCodeElimination(["mian"])(parse_functions(FAMILY))
    with pytest.raises(TypeError, match="`entry_functions` must be a list of str or GlobalVar"):
        DeadCodeElimination("main")(parse_functions(FAMILY))
