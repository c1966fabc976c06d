"""Evaluating the expressions of a script."""

import pytest
from script_programs import MATRIX, function, names, statements

from relaxjax.ir import Function, TupleType
from relaxjax.script import ScriptError, from_source, ir, lax, relax, tirx


def test_operators() -> None:
    found = function(
        """
        a = x + y
        b = x - y
        c = x * y
        d = x / y
        e = x // y
        f = x % y
        g = x ** y
        h = -x
        i = x < y
        j = x <= y
        k = x > y
        l = x >= y
        m = x.astype("int32")
        n = x + 1
        o = 2.0 * x
        return (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
        """,
        'x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")',
    )
    assert [line.split(" = ")[1] for line in statements(found)[:-1]] == [
        "R.add(x, y)",
        "R.subtract(x, y)",
        "R.multiply(x, y)",
        "R.divide(x, y)",
        "R.floor_divide(x, y)",
        "R.mod(x, y)",
        "R.power(x, y)",
        "R.negative(x)",
        "R.less(x, y)",
        "R.less_equal(x, y)",
        "R.greater(x, y)",
        "R.greater_equal(x, y)",
        'R.astype(x, dtype="int32")',
        'R.add(x, R.const(1.0, "float32"))',
        'R.multiply(R.const(2.0, "float32"), x)',
    ]


def test_nested_expressions_are_bound_one_by_one() -> None:
    """Outside a dataflow block they are called gv, inside lv; types are inferred throughout."""
    found = function("""
        y = R.add(R.multiply(x, x), x)
        with R.dataflow():
            z = R.add(y, R.add(x, x))
            R.output(z)
        return R.add(z, z)
        """)
    assert statements(found) == [
        "gv = R.multiply(x, x)",
        "y = R.add(gv, x)",
        "with R.dataflow():",
        "    lv = R.add(x, x)",
        "    z = R.add(y, lv)",
        "    R.output(z)",
        "gv1 = R.add(z, z)",
        "return gv1",
    ]
    assert all(binding.var.ty == MATRIX for binding in found.body.bindings())


def test_tuples() -> None:
    found = function("""
        t = (x, (x, R.const(1)))
        a, b = t
        c, d = b
        e = t[1][0]
        f = t[-1]
        g, h = x, a
        return R.tuple(e, R.TupleGetItem(t, 0))
        """)
    assert names(found) == [*("t", "a", "b", "c", "d", "gv", "e", "f", "g", "h", "gv1")]
    assert statements(found)[1:6] == ["a = t[0]", "b = t[1]", "c = b[0]", "d = b[1]", "gv = t[1]"]
    assert statements(found)[-1] == "return (e, gv1)"
    assert found.ret_ty == TupleType((MATRIX, MATRIX))


def test_unpacking_a_call_makes_it_once() -> None:
    found = function(
        'a, b = R.call_pure_packed("pair", x, ty_args=R.Tuple(R.Tensor, R.Tensor))\nreturn a'
    )
    assert statements(found)[:-1] == [
        'gv = R.call_pure_packed("pair", x, ty_args=(R.Tuple(R.Tensor, R.Tensor),))',
        "a = gv[0]",
        "b = gv[1]",
    ]


def test_the_dimensions_of_a_shape_are_its_items() -> None:
    found = function(
        "return R.zeros((s[1], R.shape([4, 5])[0]), 'float32')", "s: R.Shape([2, 'n'])"
    )
    assert str(found.ret_ty) == 'R.Tensor((n, 4), dtype="float32")'


def test_python_is_evaluated_while_the_script_is_read() -> None:
    found = function("""
        twice = lambda v: R.add(v, v)
        layers = [twice(x) for _ in range(2) if True]
        y = sum(layers[1:], layers[0]) if len(layers) == 2 else x
        z = R.add(*[y, x])
        w = R.add(**{"x1": z, "x2": z})
        table = {k: v for k, v in zip(["a", *["b"]], (1, 2))}
        numbers = [
            *(table["b"], max(1, 2), ~0),
            int((not 1 > 2 > undefined or undefined) and 1 in {1, 2} and 3 not in (1,)),
        ]
        return R.add(w, R.const(sum(numbers), "float32"))
        """)
    assert statements(found) == [
        "gv = R.add(x, x)",
        "gv1 = R.add(x, x)",
        "y = R.add(gv, gv1)",
        "z = R.add(y, x)",
        "w = R.add(z, z)",
        'gv2 = R.add(w, R.const(4.0, "float32"))',
        "return gv2",
    ]


def test_a_lambda_sees_the_names_where_it_is_written() -> None:
    found = function("""
        a = R.const(1.0)
        adding = lambda a: lambda b: R.add(a, b)
        steps = [lambda b: R.multiply(b, R.const(float(k))) for k in range(3)]
        k = x
        return adding(x)(steps[0](k))
        """)
    assert statements(found)[1:] == [
        "k = x",
        'gv = R.multiply(k, R.const(2.0, "float32"))',
        "gv1 = R.add(x, gv)",
        "return gv1",
    ]


# What a text may reach


class Settings:
    """Something of the caller's, with data and a method."""

    width = 3

    def dtype(self) -> str:
        return "float32"


def test_a_text_may_use_what_it_is_given() -> None:
    text = "@R.function\ndef f():\n    return R.zeros((2, settings.width), settings.dtype())"
    found = from_source(text, {"settings": Settings()})
    assert isinstance(found, Function)
    assert found.ret_ty == MATRIX


def test_a_text_may_read_the_types_of_expressions() -> None:
    found = function("return R.zeros(x.ty.shape, x.ty.dtype)")
    assert found.ret_ty == MATRIX


@pytest.mark.parametrize(
    "expression",
    [
        "().__class__",
        "R.add.lower",
        "R.add._make",
        "R.__dict__",
        "R.add.__init__",
        "(n for n in [1]).gi_frame",
        "(lambda: 1).__globals__",
        "'{0.__class__}'.format(1)",
        "f'{R.__name__}'",
        "[].append",
        "settings.__class__",
        "settings.dtype.__func__",
        "settings.dtype().encode",
        "[settings][0].width",
        "x.show",
        "x.script",
        "R.nn.__class__",
        "tvm.__class__",
        "tvm.script._members",
        "TypeVar.mro",
        "int.from_bytes",
        "M.find",
    ],
)
def test_a_text_may_not_reach_further(expression: str) -> None:
    """By no attribute does a text get at anything that could run code."""
    text = f"@R.function\ndef f(x: R.Tensor):\n    y = {expression}\n    return x"
    with pytest.raises(
        ScriptError, match=r"may not be used in a text|there is no|not defined|`_"
    ) as caught:
        from_source(text, {"settings": Settings()})
    assert caught.value.lineno == 3


@pytest.mark.parametrize(
    "name", ["open", "eval", "exec", "__import__", "getattr", "globals", "vars", "type", "print"]
)
def test_a_text_has_few_builtins(name: str) -> None:
    with pytest.raises(ScriptError, match=f"`{name}` is not defined"):
        from_source(f"@R.function\ndef f(x: R.Tensor):\n    y = {name}\n    return x")


def test_the_vocabulary_of_a_text_is_the_public_one() -> None:
    """Whatever `R`, `I`, `T` and `L` show is meant to be seen: no module shines through."""
    for vocabulary in (ir, relax, tirx, lax):
        public = {name for name in vars(vocabulary) if not name.startswith("_")}
        assert public == set(getattr(vocabulary, "__all__", []))
