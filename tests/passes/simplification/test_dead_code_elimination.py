"""Dead-code elimination, script in and script out."""

import pytest

from relaxjax.ir.expr import ExternFunc, GlobalVar
from relaxjax.ir.module import IRModule
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.passes.simplification.dead_code_elimination import DeadCodeElimination
from relaxjax.script import from_source


def module(source: str) -> IRModule:
    read = from_source(source)
    assert isinstance(read, IRModule)
    return read


def check(before: str, after: str) -> None:
    """The pass turns one script into the other, and has nothing left to do then."""
    swept = DeadCodeElimination()(module(before))
    assert_structural_equal(swept, module(after))
    assert DeadCodeElimination()(swept) is swept
    assert_structural_equal(module(str(swept)), swept)


def test_unused_bindings_go_from_both_kinds_of_blocks() -> None:
    check(
        """
@I.ir_module
class Module:
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
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.multiply(a, x)
            R.output(b)
        y = R.add(b, b)
        return y
""",
    )


def test_blocks_around_a_dataflow_block_that_goes_become_one() -> None:
    check(
        """
@I.ir_module
class Module:
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
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        a = R.add(x, x)
        c = R.subtract(a, x)
        return c
""",
    )


def test_branches() -> None:
    """A branch is swept inside; a choice that nothing uses goes whole."""
    check(
        """
@I.ir_module
class Module:
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
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
        in_a_branch = R.multiply(x, x)
        if c:
            y = R.multiply(x, in_a_branch)
        else:
            y = R.subtract(x, x)
        return y
""",
    )


def test_closures() -> None:
    """A closure is swept inside, keeps what it captures, and goes where nothing calls it."""
    check(
        """
@I.ir_module
class Module:
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
@I.ir_module
class Module:
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
    )


def test_impure_calls_stay_wherever_they_are() -> None:
    """Their arguments stay too, and so does a branch for their sake."""
    check(
        """
@I.ir_module
class Module:
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
@I.ir_module
class Module:
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
    )


def test_impure_functions_are_called() -> None:
    check(
        """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        a = cls.loud(x)
        b = cls.quiet(x)

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
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        a = cls.loud(x)
        return x

    @R.function(private=True, pure=False)
    def loud(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        p = R.call_packed("show", x, ty_args=R.Tuple)
        return x
""",
    )


def test_a_match_cast_stays_for_the_dimensions_that_it_defines() -> None:
    check(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
        n = T.int64()
        m = T.int64()
        k = T.int64()
        defines_m = R.match_cast(x, R.Tensor((m,), "float32"))
        defines_k = R.match_cast(x, R.Tensor((k,), "float32"))
        checks_only = R.match_cast(x, R.Tensor((4,), "float32"))
        checks_again = R.match_cast(x, R.Tensor((m,), "float32"))
        z = R.zeros(R.shape([m]), "float32")
        u = R.zeros(R.shape([k]), "float32")
        return z
""",
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
        n = T.int64()
        m = T.int64()
        defines_m = R.match_cast(x, R.Tensor((m,), "float32"))
        z = R.zeros(R.shape([m]), "float32")
        return z
""",
    )


def test_dimensions_in_types_and_closures_count() -> None:
    check(
        """
@I.ir_module
class Module:
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
        """
@I.ir_module
class Module:
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
    )


FAMILY = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        y = cls.child(x)
        unused = cls.orphan(x)
        return y

    @R.function
    def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x

    @R.function(private=True)
    def child(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        y = cls.grandchild(x)
        return y

    @R.function(private=True)
    def grandchild(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        y = cls.child(x)
        return y

    @R.function(private=True)
    def orphan(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x
"""


def test_functions_that_no_public_one_reaches_go() -> None:
    """Also one that only dead code calls; recursion keeps alive only what is reached."""
    assert sorted(DeadCodeElimination()(module(FAMILY))) == [
        "child", "grandchild", "main", "other",
    ]  # fmt: skip


def test_entry_functions() -> None:
    family = module(FAMILY)
    assert sorted(DeadCodeElimination(["main"])(family)) == ["child", "grandchild", "main"]
    assert sorted(DeadCodeElimination([GlobalVar("other")])(family)) == ["other"]
    assert sorted(DeadCodeElimination(["orphan", "other"])(family)) == ["orphan", "other"]
    assert sorted(DeadCodeElimination([])(family)) == []


def test_a_module_of_private_functions_has_no_entry() -> None:
    private = module(FAMILY).without_functions("main", "other")
    assert len(DeadCodeElimination()(private)) == 0


def test_external_functions_stay() -> None:
    mod = module(FAMILY).with_function("outside", ExternFunc("outside"))
    assert "outside" in DeadCodeElimination(["other"])(mod)


def test_wrong_entry_functions() -> None:
    with pytest.raises(
        ValueError, match=r"the module has no function `mian`; .* did you mean `main`"
    ):
        DeadCodeElimination(["mian"])(module(FAMILY))
    with pytest.raises(TypeError, match="`entry_functions` must be a list of str or GlobalVar"):
        DeadCodeElimination("main")(module(FAMILY))


def test_nothing_to_do_gives_the_very_module() -> None:
    mod = module(
        """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.add(x, x)
        return y
"""
    )
    assert DeadCodeElimination()(mod) is mod
