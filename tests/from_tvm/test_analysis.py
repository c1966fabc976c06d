"""What can be asked of functions, types and sizes, answered as TVM answers it."""

from typing import Any

import pytest

import relaxjax.tvm
from relaxjax.ir.dims import SymbolicVar, dim_max
from relaxjax.tvm.script import ir as I
from relaxjax.tvm.script import relax as R

tvm: Any = relaxjax.tvm  # whose names are those of the table
relax: Any = tvm.relax
ANALYSIS = relax.analysis
N, M = SymbolicVar("n"), SymbolicVar("m")
SIZED = relax.TensorType((N, M + 1, 4), "float32")
S = relax.Var("s", relax.ShapeType((N, M)))
BY_SHAPE = relax.TensorType(S, "float32")


@I.ir_module
class Calls:
    @R.function
    def even(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return Calls.odd(x)

    @R.function
    def odd(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return Calls.even(x)

    @R.function
    def itself(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return Calls.itself(x)

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return Calls.even(x)


def test_functions_that_call_one_another() -> None:
    found = [[var.name for var in group] for group in ANALYSIS.detect_recursion(Calls)]
    assert found == [["even", "odd"], ["itself"]]


KNOWN = """
@R.function(pure=False)
def main(
    x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")
) -> R.Tensor((2,), "float32"):
    R.func_attr({"num_input": 1})
    w1 = R.add(w, w)
    told = R.call_packed("f", w, ty_args=R.Tensor((2,), "float32"))
    w2 = R.match_cast(w1, R.Tensor((2,), "float32"))
    x1 = R.add(x, w2)
    c = R.zeros((2,), "float32")
    pair = (w2, c, told)
    return x1
"""


def test_what_is_known_before_a_run() -> None:
    function = tvm.script.from_source(KNOWN)
    known = ANALYSIS.computable_at_compile_time(function)
    assert [var.name for var in known] == ["w", "w1", "w2", "c"]
    assert ANALYSIS.computable_at_compile_time(function.without_attr("num_input")) == []


@pytest.mark.parametrize(
    ("base", "derived", "expected"),
    [
        (SIZED, SIZED, "PASS"),
        (relax.TensorType(None, "float32", 3), SIZED, "PASS"),
        (relax.ObjectType(), SIZED, "PASS"),
        (SIZED, relax.TensorType(None, "float32", 3), "FAIL_L2"),
        (relax.TensorType((N,)), relax.TensorType((M,)), "FAIL_L2"),
        (SIZED, relax.ObjectType(), "FAIL_L1"),
        (SIZED, relax.TensorType(None, None, 3), "FAIL_L1"),
        (SIZED, relax.TensorType((N, M + 1, 4), "int32"), "FAIL_L0"),
        (relax.TensorType((3,)), relax.TensorType((4,)), "FAIL_L0"),
        (relax.ShapeType((N,)), SIZED, "FAIL_L0"),
        (relax.TupleType([SIZED]), relax.TupleType([SIZED, SIZED]), "FAIL_L0"),
    ],
)
def test_how_types_fit(base: Any, derived: Any, expected: str) -> None:
    assert ANALYSIS.type_base_check(base, derived).name == expected


def test_what_two_types_have_in_common() -> None:
    other = relax.TensorType((N, M + 1, 5), "float32")
    assert str(ANALYSIS.type_lca(SIZED, other)) == 'R.Tensor(dtype="float32", ndim=3)'


@pytest.mark.parametrize(
    ("ty", "expected"),
    [
        (SIZED, 'R.Tensor(dtype="float32", ndim=3)'),
        (BY_SHAPE, 'R.Tensor(dtype="float32", ndim=2)'),
        (relax.ShapeType((N,)), "R.Shape(ndim=1)"),
        (relax.TupleType([relax.PrimType("int64")]), 'R.Tuple(R.Prim("int64"))'),
        (
            relax.FuncType([relax.TensorType((N,), "int8")], relax.ShapeType((N,))),
            'R.Callable((R.Tensor(dtype="int8", ndim=1),), R.Shape(ndim=1), True)',
        ),
    ],
)
def test_types_without_their_sizes(ty: Any, expected: str) -> None:
    assert str(ANALYSIS.get_static_type(ty)) == expected


@pytest.mark.parametrize(
    ("ty", "sizes", "variables", "expected"),
    [
        (SIZED, None, None, 'R.Tensor(dtype="float32", ndim=3)'),
        (SIZED, {N: M}, None, 'R.Tensor(dtype="float32", ndim=3)'),
        (SIZED, {N: M, M: N}, None, 'R.Tensor((m, n + 1, 4), dtype="float32")'),
        (BY_SHAPE, None, None, 'R.Tensor(dtype="float32", ndim=2)'),
        (BY_SHAPE, {N: 2, M: 3}, None, 'R.Tensor((2, 3), dtype="float32")'),
        (BY_SHAPE, None, {S: S}, 'R.Tensor(s, dtype="float32")'),
        (
            relax.FuncType([relax.TensorType((N,))], relax.TensorType((N, M))),
            None,
            None,
            "R.Callable((R.Tensor((n,)),), R.Tensor(ndim=2), True)",
        ),
    ],
)
def test_types_as_far_as_they_can_be_said(
    ty: Any, sizes: Any, variables: Any, expected: str
) -> None:
    assert str(ANALYSIS.erase_to_well_defined(ty, sizes, variables)) == expected


def test_sizes_in_types() -> None:
    shape = relax.ShapeType((N * 2, N, 4, dim_max(N - 2, 0)))
    both = relax.TupleType([SIZED, shape])
    assert ANALYSIS.tir_vars_in_type(both) == [N, M]
    assert ANALYSIS.definable_tir_vars_in_type(both) == [N]
    found = ANALYSIS.collect_non_negative_expressions(both)
    assert found == [N, M + 1, N * 2, dim_max(N - 2, 0)]


CAST = """
@R.function
def main(x: R.Tensor(("a", 2), "float32"), y: R.Tensor("float32", ndim=1)):
    b = T.int64()
    z = R.match_cast(y, R.Tensor((b,), "float32"))
    return z
"""


def test_sizes_of_functions() -> None:
    function = tvm.script.from_source(CAST)
    assert [var.name for var in ANALYSIS.defined_symbolic_vars(function)] == ["a", "b"]
    assert ANALYSIS.free_symbolic_vars(function) == []
    x = relax.Var("x", SIZED)
    open_function = relax.Function([x], x, SIZED)
    assert ANALYSIS.free_symbolic_vars(open_function) == [M]


def test_the_result_of_a_call_by_the_type_of_the_function() -> None:
    ty = relax.FuncType([relax.TensorType((N,))], relax.TensorType((N * 2,)))
    call = relax.Call(relax.ExternFunc("f"), [relax.Var("x", relax.TensorType((3,)))])
    assert str(ANALYSIS.derive_call_ret_type(ty, call, relax.BlockBuilder())) == "R.Tensor((6,))"


def test_programs_are_checked_with_the_option_of_tvm() -> None:
    assert ANALYSIS.check_well_formed(tvm.IRModule(), check_ty=False)
    assert ANALYSIS.well_formed(tvm.IRModule(), check_ty=True)


def test_shapes_of_values() -> None:
    known = relax.Var("x", SIZED)
    assert str(relax.get_shape_of(known)) == "R.shape([n, m + 1, 4])"
    assert str(relax.get_shape_of(relax.Var("y", relax.TensorType(None, None, 2)))) == (
        "R.shape_of(y)"
    )
    with pytest.raises(TypeError, match=r"`get_shape_of` takes a tensor, but `s` is of type R.Sha"):
        relax.get_shape_of(S)
    assert str(relax.expr.make_shape([1, N])) == "R.shape([1, n])"
    assert list(known.ty.shape.values) == [N, M + 1, 4]


def test_scalars_of_the_host() -> None:
    values = (N, N + 1, relax.prim_value(1), S)
    assert [tvm.ir.is_prim_expr(value) for value in values] == [True, True, True, False]
    assert [tvm.ir.is_prim_var(value) for value in values] == [True, False, False, False]
    assert str(relax.utils.convert_to_expr([1, "a", (S,)])) == '(R.prim_value(1), R.str("a"), (s,))'


def test_hashes_with_the_option_of_tvm() -> None:
    assert tvm.ir.structural_hash(SIZED, True) == tvm.ir.structural_hash(SIZED)
