"""What each kind of pattern fits, and what it does not."""

import re
from collections.abc import Callable

import pytest
from parsing import parse_function, parse_functions

from relaxjax.dpl import (
    DFPattern,
    FunctionPattern,
    get_var2val,
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_packed,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    reject,
    wildcard,
)
from relaxjax.ir import Expr, Function, GlobalVar, ShapeExpr, TensorType, Var, const
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.script import relax as R

PROGRAMS = parse_functions("""
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 3), "float32")):
        with R.dataflow():
            hidden = R.matmul(x, w)
            shifted = R.add(R.const(1.0, "float32"), hidden)
            kept = R.nn.relu(shifted)
            parts = R.split(kept, 3, axis=1)
            part = parts[1]
            shaped = R.reshape(kept, R.shape([3, 2]))
            pair = (part, shaped)
            told = R.call_pure_packed("measure", kept, ty_args=R.Tensor((), "float32"))
            filled = R.call_dps_packed("fill", (kept,), out_ty=R.Tensor((), "float32"))
            gone = R.subtract(kept, kept)
            R.output(pair, told, gone)
        return pair, told, gone
    """)


MAIN: Function = PROGRAMS["main"]
VALUES = get_var2val(MAIN)
NAMED = {var.name: value for var, value in VALUES.items()}


def fits(pattern: DFPattern, name: str) -> bool:
    """Whether a pattern fits the value called `name`, seeing what is behind variables."""
    return pattern.match(NAMED[name], VALUES)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (wildcard(), "kept", True),
        (is_op("relax.nn.relu")(wildcard()), "kept", True),
        (is_op("relax.exp")(wildcard()), "kept", False),
        (is_op("relax.matmul")(is_var("x"), is_var("w")), "hidden", True),
        (is_op("relax.matmul")(is_var("w"), is_var("x")), "hidden", False),
        (is_op("relax.matmul")(is_var(), is_var("v")), "hidden", False),
        (is_op("relax.matmul")(varg_default_wildcard=True), "hidden", True),
        (is_op("relax.matmul")(is_var("x"), varg_default_wildcard=True), "hidden", True),
        (is_op("relax.nn.relu")(is_dfv("shifted")), "kept", True),
        (is_op("relax.matmul")(is_dfv(), wildcard()), "hidden", False),
        (is_op("relax.add")(is_const(), wildcard()), "shifted", True),
        (is_op("relax.add")(is_expr(const(1.0, "float32")), wildcard()), "shifted", True),
        (is_op("relax.add")(is_expr(const(2.0, "float32")), wildcard()), "shifted", False),
        (is_tuple_get_item(wildcard(), 1), "part", True),
        (is_tuple_get_item(wildcard(), 0), "part", False),
        (is_tuple_get_item(is_op("relax.split")(wildcard())), "part", True),
        (is_op("relax.reshape")(wildcard(), is_shape([3, 2])), "shaped", True),
        (is_op("relax.reshape")(wildcard(), is_shape([2, 3])), "shaped", False),
        (is_tuple([wildcard(), is_op("relax.reshape")(wildcard(), wildcard())]), "pair", True),
        (is_tuple([is_op("relax.reshape")(wildcard(), wildcard()), wildcard()]), "pair", False),
        (
            is_tuple([is_op("relax.reshape")(wildcard(), wildcard()), wildcard()], unordered=True),
            "pair",
            True,
        ),
        (is_tuple([wildcard()]), "pair", False),
        (is_call_packed("measure"), "told", True),
        (is_call_packed("measure", [wildcard()]), "told", True),
        (is_call_packed("measure", []), "told", False),
        (is_call_packed("weigh"), "told", False),
        (is_call_dps_packed("fill", [wildcard()]), "filled", True),
        (is_call_dps_packed("fill"), "filled", True),
        (is_call_dps_packed("measure"), "told", False),
        (is_call_packed("fill"), "filled", True),
        (~is_op("relax.exp")(wildcard()), "kept", True),
        (reject(is_op("relax.nn.relu")(wildcard())), "kept", False),
        (is_op("relax.exp")(wildcard()) | is_op("relax.nn.relu")(wildcard()), "kept", True),
        (is_op("relax.nn.relu")(wildcard()) & has_dtype("float32"), "kept", True),
        (is_op("relax.nn.relu")(wildcard()) & has_dtype("float16"), "kept", False),
        (is_op("relax.split")(wildcard()).has_attr({"axis": 1}), "parts", True),
        (is_op("relax.split")(wildcard()).has_attr({"axis": 0}), "parts", False),
        ((is_op("relax.exp") | is_op("relax.add"))(wildcard(), wildcard()), "shifted", True),
        (has_attr({"axis": 1}), "kept", False),
        (is_op("relax.add").has_attr({"commutative": True})(wildcard(), wildcard()), "shifted", 1),
        (wildcard().has_shape([2, 3]), "kept", True),
        (wildcard().has_shape([3, 2]), "kept", False),
        (wildcard().has_ty(TensorType(None, "float32")), "kept", True),
        (wildcard().has_struct_info(TensorType((2, 4), "float32")), "kept", False),
    ],
)
def test_what_a_pattern_fits(pattern: DFPattern, name: str, expected: bool) -> None:
    assert fits(pattern, name) == bool(expected)


def test_a_chain_is_followed_only_where_the_values_of_variables_are_known() -> None:
    chain = is_op("relax.nn.relu")(
        is_op("relax.add")(is_op("relax.matmul")(*2 * [wildcard()]), wildcard())
    )
    distinct = is_op("relax.nn.relu")(
        is_op("relax.add")(is_op("relax.matmul")(wildcard(), wildcard()), wildcard())
    )
    assert fits(distinct, "kept")
    assert not distinct.match(NAMED["kept"])
    assert not fits(chain, "kept"), "x and w are not one value"


def test_the_arguments_of_a_commutative_operator_may_be_swapped() -> None:
    assert fits(is_op("relax.add")(wildcard(), is_const()), "shifted")
    assert not fits(is_op("relax.subtract")(is_const(), wildcard()), "gone")


def test_a_choice_made_too_early_is_taken_back() -> None:
    """The left pattern of `|` fits first, but only the right one lets the whole pattern fit."""
    x = wildcard()
    either = x | is_op("relax.add")(wildcard(), x)
    pattern = is_op("relax.subtract")(either, is_op("relax.nn.relu")(x))
    assert not fits(pattern, "gone")
    whole = is_op("relax.subtract")(is_op("relax.nn.relu")(either), is_op("relax.nn.relu")(x))
    assert fits(whole, "gone")


def test_a_pattern_that_stands_twice_stands_for_one_value() -> None:
    x = wildcard()
    assert fits(is_op("relax.subtract")(x, x), "gone")
    assert not fits(is_op("relax.matmul")(x, x), "hidden")
    assert fits(is_op("relax.matmul")(x, x.dup()), "hidden")


def test_what_the_patterns_stand_for() -> None:
    x, w = wildcard(), wildcard()
    product = is_op("relax.matmul")(x, w)
    shifted = is_op("relax.add")(product, wildcard())
    found = shifted.extract_matched_expr(NAMED["shifted"], VALUES)
    assert found is not None
    assert found[product] is NAMED["hidden"]
    assert [found[pattern] for pattern in (x, w)] == list(MAIN.params)
    assert product.extract_matched_expr(NAMED["kept"], VALUES) is None


def test_fields_of_a_tuple_pattern() -> None:
    pattern = is_tuple([wildcard(), is_var()])
    assert len(pattern) == 2
    assert pattern[-1].index == 1
    assert pattern[None].index is None
    with pytest.raises(IndexError, match="a tuple of 2 patterns has no field 2"):
        pattern[2]
    assert is_shape([2, 3]).shape == (2, 3)


def test_functions_and_global_variables() -> None:
    body = is_tuple([wildcard(), is_call_packed("measure"), wildcard()])
    assert FunctionPattern((wildcard(), wildcard()), body).match(MAIN)
    assert not FunctionPattern((wildcard(),), body).match(MAIN)
    assert wildcard().has_attr({"global_symbol": "main"}).match(MAIN)
    assert is_gv("main").match(PROGRAMS.get_global_var("main"))
    assert not is_gv("main").match(GlobalVar("other"))
    assert is_shape([2]).match(ShapeExpr((2,)))


@pytest.mark.parametrize(
    ("bias", "activation", "reshaped", "expected"),
    [
        (False, None, False, "hidden"),
        (True, None, False, "shifted"),
        (True, "relax.nn.relu", False, "kept"),
    ],
)
def test_an_operator_with_bias_and_activation(
    bias: bool, activation: str | None, reshaped: bool, expected: str
) -> None:
    pattern = make_fused_bias_activation_pattern("relax.matmul", bias, activation, reshaped)
    assert [name for name in NAMED if fits(pattern, name)] == [expected]


def test_a_bias_that_is_reshaped_first() -> None:
    f = parse_function("""
        @R.function
        def f(
            x: R.Tensor((2, 3), "float32"),
            w: R.Tensor((3, 3), "float32"),
            b: R.Tensor((3,), "float32"),
        ):
            product = R.matmul(x, w)
            row = R.reshape(b, R.shape([1, 3]))
            return R.add(product, row)
        """)

    values = get_var2val(f)
    value: Expr = list(values.values())[-1]
    with_reshape = make_fused_bias_activation_pattern("relax.matmul", True, allow_reshape=True)
    assert with_reshape.match(value, values)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: is_op("relax.exp")(wildcard(), wildcard()),
            "no call fits the pattern: it has 2 arguments, and a call of relax.exp 1",
        ),
        (
            lambda: is_op("relax.matmul")(is_var("x")),
            "a call of relax.matmul 2; `varg_default_wildcard=True` stands for those left out",
        ),
        (
            lambda: is_op("relax.exp")(wildcard(), wildcard(), varg_default_wildcard=True),
            "it has 2 arguments, and a call of relax.exp 1",
        ),
        (
            lambda: (is_op("relax.exp") | is_op("relax.log"))(wildcard(), wildcard()),
            "it has 2 arguments, and a call of relax.exp 1",
        ),
        (
            lambda: is_op("relax.nn.layer_norm")(wildcard(), wildcard()),
            "it has 2 arguments, and a call of relax.nn.layer_norm 3",
        ),
    ],
)
def test_a_pattern_with_a_number_of_arguments_that_no_call_has(
    make: Callable[[], DFPattern], message: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        make()


def test_an_attribute_that_an_operator_does_not_have() -> None:
    pattern = is_op("relax.sum")(wildcard())
    message = "relax.sum has no attribute `axs`; did you mean `axis`"
    with pytest.raises(ValueError, match=message):
        pattern.has_attr({"axs": 1})
    with pytest.raises(ValueError, match=message):
        pattern.has_dtype("float32").has_attr({"keepdims": True, "axs": 1})
    with pytest.raises(ValueError, match="`zzz`; it has `axis`, `keepdims`"):
        pattern.has_attr({"zzz": 1})
    with pytest.raises(ValueError, match=r"relax\.exp has no attribute `axis`; it has none"):
        is_op("relax.exp")(wildcard()).has_attr({"axis": 1})
    (is_op("relax.exp") | is_op("relax.sum"))(wildcard()).has_attr({"axis": 1})


def test_an_attribute_is_written_as_in_a_call() -> None:
    call = R.sum(Var("x", TensorType((2, 3), "float32")), axis=1)
    pattern = is_op("relax.sum")(wildcard())
    assert pattern.has_attr({"axis": 1}).match(call)
    assert pattern.has_attr({"axis": [1]}).match(call)
    assert not pattern.has_attr({"axis": 0}).match(call)
    assert not pattern.has_attr({"axis": "x"}).match(call)


def test_errors_of_patterns() -> None:
    with pytest.raises(TypeError, match=r"arguments are patterns, found `x`: write is_expr"):
        is_op("relax.exp")(MAIN.params[0])  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(ValueError, match="is_shape takes a list or tuple of dimensions, found `3`"):
        is_shape(3)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(ValueError, match="has_shape takes a list or tuple of dimensions"):
        wildcard().has_shape("nm")
    with pytest.raises(ValueError, match="is_tuple takes a list or tuple of patterns"):
        is_tuple(wildcard())  # type: ignore[arg-type]  # what the test is about


SIZED: Function = parse_function("""
    @R.function
    def sized(x: R.Tensor(("p", "q"), "float32"), y: R.Tensor(("q", 4), "float32")):
        left = R.exp(x)
        right = R.exp(y)
        product = R.matmul(left, right)
        return product
    """)
SIZES = get_var2val(SIZED)
P, Q = (dim for dim in SIZED.params[0].ty.dims)  # type: ignore[union-attr]  # it is a tensor
M, N = SymbolicVar("m"), SymbolicVar("n")


def matrix(*dims: Dim) -> TensorType:
    return TensorType(dims, "float32")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (matrix(M, N), matrix(N, 4), True),
        (matrix(M, N), matrix(M, 4), False),
        (matrix(M, N), matrix(N, M), False),  # 4 is not known to be p
        (matrix(P, N), matrix(N, 4), True),
        (matrix(Q, N), matrix(N, 4), False),
        (matrix(P, Q), matrix(Q, 4), True),
        (matrix(Q, P), matrix(P, 4), False),
        (matrix(M, M), matrix(N, 4), False),
        (matrix(M, M * 2), matrix(N, 4), False),
    ],
)
@pytest.mark.parametrize("by_shape", [False, True])
def test_a_new_dimension_of_a_pattern_stands_for_any_but_for_one_only(
    left: TensorType, right: TensorType, expected: bool, by_shape: bool
) -> None:
    def sized(ty: TensorType) -> DFPattern:
        return wildcard().has_shape(ty.dims or ()) if by_shape else wildcard().has_ty(ty)

    pattern = is_op("relax.matmul")(sized(left), sized(right))
    (*_, product) = SIZES.values()
    assert pattern.match(product, SIZES) is expected


def test_the_operators_whose_calls_a_pattern_fits() -> None:
    """A rewrite is looked up by them; None where other values may fit too."""
    x, add = wildcard(), is_op("relax.add")
    product = is_op("relax.matmul")(x, wildcard())
    assert product.heads() == frozenset({"relax.matmul"})
    assert product.has_dtype("float32").heads() == frozenset({"relax.matmul"})
    assert (product | add(x, x)).heads() == frozenset({"relax.matmul", "relax.add"})
    assert (is_op("relax.sin") | is_op("relax.cos"))(x).heads() == frozenset(
        {"relax.sin", "relax.cos"}
    )
    assert (wildcard() & product).heads() == frozenset({"relax.matmul"})
    assert (product & wildcard()).heads() == frozenset({"relax.matmul"})
    for anything in (x, ~product, product | x, is_tuple([product]), is_gv("f")(x), x(x)):
        assert anything.heads() is None
