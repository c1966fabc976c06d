"""Scripts as decorated Python: their source is found, and what they can name around them."""

import linecache
import traceback
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from script_programs import MATRIX, names, round_trip, values

from relaxjax.ir import Call, Constant, Expr, Function, IRModule, TensorType, TupleType, Var
from relaxjax.script import ScriptError, ir_module
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.script import tirx as T

batch_size = 2
weights = np.arange(3, dtype="float32")
scale = R.const(2.0)
n = T.int64()


def twice(x: Expr) -> Any:
    return R.add(x, x)


@R.macro
def scaled(a: Any, by: float = 2.0) -> Any:
    product = R.multiply(a, R.const(by * batch_size, "float32"))
    return R.add(product, product)


@R.function
def at_the_top(x: R.Tensor((batch_size, 3), "float32")) -> R.Tensor((batch_size, 3), "float32"):
    """Documentation."""
    y = R.add(x, R.const(weights))
    return twice(y)


def test_a_function_sees_the_names_of_its_file() -> None:
    assert isinstance(at_the_top, Function)
    assert at_the_top.ret_ty == MATRIX
    assert at_the_top.global_symbol == "at_the_top"
    assert names(at_the_top) == ["y", "gv"]
    assert at_the_top.span is not None
    assert at_the_top.span.file == __file__
    assert at_the_top.span.source_line().startswith("def at_the_top")
    round_trip(at_the_top)


@I.ir_module
class Model:
    """Documentation."""

    I.module_attrs({"param_num": 1})

    @R.function
    def main(x: R.Tensor((batch_size, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return Model.helper(x)

    @R.function(private=True)
    def helper(x: R.Tensor((batch_size, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return scaled(x)

    other = at_the_top


def test_a_module_sees_the_names_of_its_file() -> None:
    model: Any = Model
    assert isinstance(model, IRModule)
    assert list(model) == ["main", "helper", "other"]
    assert model.attrs["param_num"] == 1
    assert model["main"].ret_ty == MATRIX
    assert model["other"].global_symbol == "other"
    round_trip(model)


def test_a_function_sees_the_variables_around_it() -> None:
    """Those that only its annotations name, too, which Python keeps in no closure."""
    rows, columns, layers = 2, 3, [R.const(1.0, "float32"), R.const(weights)]

    @R.function(pure=True, private=True)
    def local(x: R.Tensor((rows, columns), "float32")):  # type: ignore[no-untyped-def]  # inferred
        y = sum([R.add(x, layer) for layer in layers], x)
        return R.zeros((rows, columns + len(f"{columns}")), "float32"), y

    assert local.global_symbol is None
    assert local.params[0].ty == MATRIX
    assert local.ret_ty == TupleType((TensorType((2, 4), "float32"), MATRIX))


def test_a_module_sees_the_variables_around_it() -> None:
    rows = 2
    steps = [lambda a, b: R.add(a, R.multiply(a, b))]

    def build(columns: int) -> Any:
        @ir_module(check_well_formed=True)
        class Local:
            @R.function
            def main(x: R.Tensor((rows, columns), "float32")):  # type: ignore[no-untyped-def]  # inferred
                return steps[0](x, x)

        return Local

    assert build(3)["main"].ret_ty == MATRIX
    assert build(4)["main"].ret_ty == TensorType((2, 4), "float32")


def test_python_is_called_while_a_script_is_read() -> None:
    seen: list[Any] = []

    @R.function
    def f(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
        y = R.add(x, x)
        seen.append(y)
        return y

    assert seen == [f.body.blocks[0].bindings[0].var]


def test_a_variable_that_is_assigned_later_is_not_there() -> None:
    with pytest.raises(ScriptError, match="`later` is not defined"):

        @R.function
        def f(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return R.add(x, later)

    with pytest.raises(ScriptError, match="`scale` is not defined"):

        @R.function
        def g(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return R.multiply(x, scale)

    later = scale = R.const(1.0)


def test_a_script_sees_the_names_where_it_stands_whoever_calls_the_decorator() -> None:
    elsewhere: dict[str, Any] = {"R": R, "I": I, "batch_size": 7, "size": 8}
    exec(
        "def function(f):\n    size = 9\n    return R.function(f)\n"
        "def module(cls):\n    size = 9\n    return I.ir_module(cls)\n",
        elsewhere,
    )
    size = 4

    @elsewhere["function"]  # type: ignore[untyped-decorator]  # it is made of text
    def f(x: R.Tensor((batch_size, size), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return x

    @elsewhere["module"]
    class Module:
        @R.function
        def main(x: R.Tensor((batch_size, size), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return x

    found: Any = (f, Module)
    for function in (found[0], found[1]["main"]):
        assert function.params[0].ty == TensorType((2, 4), "float32")


def test_classes_of_one_name_are_told_apart() -> None:
    @I.ir_module
    class Before:  # pyright: ignore[reportRedeclaration]  # that is the point
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return R.add(x, x)

    first: Any = Before

    @I.ir_module
    class Before:  # type: ignore[no-redef]  # that is the point
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return R.multiply(x, x)

    second: Any = Before
    ops = [str(values(module["main"])[0]) for module in (first, second)]
    assert ops == ["R.add(x, x)", "R.multiply(x, x)"]


def test_classes_without_functions() -> None:
    @I.ir_module
    class Empty:
        pass

    @I.ir_module(check_well_formed=False)
    class Alias:
        main = at_the_top

    empty: Any = Empty
    alias: Any = Alias
    assert list(empty) == []
    assert list(alias) == ["main"]


def test_a_method_is_left_to_its_class() -> None:
    class Plain:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return x

    method: Any = Plain.main
    assert isinstance(method, FunctionType)
    module = I.ir_module(Plain)
    assert module["main"].ret_ty == MATRIX


def test_a_symbolic_dimension_of_the_file_belongs_to_each_function() -> None:
    @R.function
    def f(x: R.Tensor((n, n * 2), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return R.zeros((n,), "float32")

    @R.function
    def g(x: R.Tensor((n,), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return x

    assert str(f.params[0].ty) == 'R.Tensor((n, n * 2), dtype="float32")'
    assert str(f.ret_ty) == 'R.Tensor((n,), dtype="float32")'
    assert isinstance(f.ret_ty, TensorType)
    assert f.ret_ty != g.ret_ty


def test_a_named_dimension_keeps_its_identity() -> None:
    m = T.Var("m")

    @R.function
    def f(x: R.Tensor((m, m + 1), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return x

    assert f.params[0].ty == TensorType((m, m + 1), "float32")


def test_constants_around_a_script_are_shared() -> None:
    big = R.const(np.arange(100, dtype="float32"))

    @R.function
    def f(x: R.Tensor((100,), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return R.add(R.add(x, big), big)

    for call in values(f):
        assert isinstance(call, Call)
        assert isinstance(call.args[1], Constant)
        assert call.args[1].data is big.data


def test_a_macro_keeps_its_own_names() -> None:
    batch_size = 50  # not the one that `scaled` means

    @R.function
    def f(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
        product = scaled(x, by=3.0)
        return R.add(product, R.const(batch_size, "float32"))

    assert str(values(f)[0]) == 'R.multiply(x, R.const(6.0, "float32"))'
    assert names(f) == ["product", "product", "gv"]


def test_a_macro_may_see_the_names_of_its_use() -> None:
    @R.macro(hygienic=False)
    def uses_k() -> Any:
        return R.add(k, k)  # type: ignore[name-defined]  # noqa: F821  # where it is used, it is there

    @R.function
    def f(k: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
        return uses_k()

    assert str(values(f)[0]) == "R.add(k, k)"


def test_an_error_points_into_the_file() -> None:
    with pytest.raises(ScriptError, match=r"did you mean `R\.matmul`") as caught:

        @R.function
        def f(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return R.add(x, R.matmull(x, x))

    error = caught.value
    assert error.filename == __file__
    assert error.text is not None
    assert error.text.strip() == "return R.add(x, R.matmull(x, x))"
    assert error.text[(error.offset or 0) - 1 :].startswith("R.matmull")
    frames = traceback.extract_tb(error.__traceback__)
    assert len(frames) == 3, "how it was read is of no interest to the user"


def test_an_error_in_a_macro_points_into_the_macro() -> None:
    @R.macro
    def wrong(a: Any) -> Any:
        return R.nothing(a)

    with pytest.raises(ScriptError, match=r"there is no `R\.nothing`") as caught:

        @R.function
        def f(x: R.Tensor((2, 3), "float32")):  # type: ignore[no-untyped-def]  # inferred
            return wrong(x)

    assert caught.value.text is not None
    assert caught.value.text.strip() == "return R.nothing(a)"


def test_a_definition_without_source() -> None:
    program = """
        from relaxjax.script import ir as I, relax as R
        @{decorator}
        {definition}
        """
    for decorator, definition in (
        ("R.function", "def f(x: R.Tensor): return x"),
        ("I.ir_module", "class M: pass"),
        ("R.macro", "def m(): return 1"),
    ):
        text = dedent(program.format(decorator=decorator, definition=definition))
        with pytest.raises(ScriptError, match="cannot be found, so it cannot be read") as caught:
            exec(text, {"__name__": "nowhere"})
        assert "from_source" in (caught.value.mend or "")


def test_a_notebook_cell_has_source() -> None:
    """Cells are no files: their lines stand in the cache that tracebacks use."""
    cell = (
        "from relaxjax.script import relax as R\n@R.function\ndef f(x: R.Tensor):\n    return x\n"
    )
    lines = [str(line) for line in cell.splitlines(keepends=True)]
    linecache.cache["<cell 1>"] = (len(cell), None, lines, "<cell 1>")
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell, "<cell 1>", "exec"), names)
    assert isinstance(names["f"], Function)
    assert str(names["f"].span) == "<cell 1>:3:1"


async def eventual(x: Any) -> Any:
    return x


@pytest.mark.parametrize("function", [lambda x: x, eventual])
def test_a_function_that_is_no_plain_one_has_no_script(function: Any) -> None:
    with pytest.raises(ScriptError, match=r"is no plain function") as caught:
        R.function(function)
    assert caught.value.lineno == function.__code__.co_firstlineno
    assert caught.value.mend == "Write `def`, under @R.function."


@pytest.mark.parametrize(
    ("decorator", "thing", "message"),
    [
        (R.function, 5, "@R.function stands above a Python function, not above `5`"),
        (R.macro, 5, "@R.macro stands above a Python function, not above `5`"),
        (I.ir_module, 5, "@I.ir_module stands above a class, not above `5`"),
    ],
)
def test_what_decorators_stand_above(decorator: Any, thing: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        decorator(thing)


def test_functions_of_python_may_build_scripts() -> None:
    """`R.Tensor` and its like give types also outside of scripts, unless they need a scope."""
    x = Var("x", R.Tensor((2, 3), "float32"))
    assert x.ty == MATRIX
    assert R.add(x, x).ty == MATRIX
    with pytest.raises(TypeError, match='the dimension "n" is written as text'):
        R.call_packed("g", x, ty_args=R.Tensor(("n",)))
