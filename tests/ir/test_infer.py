"""Types of calls by their callee, and of choices by their branches."""

from typing import Any

import pytest

import relaxjax.ops  # noqa: F401  # the operators behind the signs
from relaxjax.ir.dims import Dim, SymbolicVar, floordiv
from relaxjax.ir.expr import Call, Expr, ExternFunc, GlobalVar, ShapeExpr, Tuple, Var
from relaxjax.ir.function import BindingBlock, If, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.infer import call_type, infer, is_pure_call, unify, unify_dims
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type

N, M, K, OWN = (SymbolicVar(name) for name in ("n", "m", "k", "own"))


def tensor(*dims: Dim) -> TensorType:
    return TensorType(dims, "float32")


def var(ty: Type | None) -> Var:
    return Var("v", ty)


def function(*params: Type, ret: Type, pure: bool = True) -> GlobalVar:
    return GlobalVar("f", ty=FuncType(params, ret, pure))


ROWS = function(tensor(N, 2), ret=tensor(N + 1))


def test_a_call_has_the_type_of_the_function_in_terms_of_the_arguments() -> None:
    assert call_type(ROWS(var(tensor(7, 2)))) == tensor(8)
    assert call_type(ROWS(var(tensor(M * 2, 2)))) == tensor(M * 2 + 1)
    two = function(tensor(N, M), tensor(M), ret=TupleType((tensor(N), ShapeType((M,)))))
    assert call_type(two(var(tensor(3, K)), var(tensor(K)))) == TupleType(
        (tensor(3), ShapeType((K,)))
    )


def test_dimensions_are_read_off_shapes_and_tuples() -> None:
    take = function(ShapeType((N,)), TupleType((tensor(M),)), ret=tensor(N, M))
    call = take(ShapeExpr((4,)), Tuple((var(tensor(5)),)))
    assert call_type(call) == tensor(4, 5)


def test_what_the_arguments_do_not_tell_is_not_in_the_result() -> None:
    unknown = var(TensorType(None, "float32", 2))
    assert call_type(ROWS(unknown)) == TensorType(None, "float32", 1)


def test_a_closure_keeps_the_dimensions_of_the_function_around_it() -> None:
    assert call_type(function(tensor(3), ret=tensor(K))(var(tensor(3)))) == tensor(K)


def test_the_very_same_dimension_tells_a_variable_that_only_one_value_gives() -> None:
    double = function(tensor(N * 2), ret=tensor(N * 2, N))
    assert call_type(double(var(tensor(N * 2)))) == tensor(N * 2, N)
    assert call_type(double(var(tensor(6)))) == TensorType(None, "float32", 2)
    half = function(tensor(floordiv(N, 2)), ret=tensor(N))
    assert call_type(half(var(tensor(floordiv(N, 2))))) == TensorType(None, "float32", 1)
    product = function(tensor(N * M), ret=tensor(N))
    assert call_type(product(var(tensor(N * M)))) == TensorType(None, "float32", 1)


def test_the_first_dimension_found_is_kept_and_must_fit_the_others() -> None:
    square = function(tensor(N, N), ret=tensor(N))
    assert call_type(square(var(tensor(3, M)))) == tensor(3)
    with pytest.raises(TypeError, match=r"argument 1 of `f` must be of type .*\(3, 3\)"):
        call_type(square(var(tensor(3, 4))))


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(TypeError, match="`f` takes 1 argument, but 2 were given"):
        call_type(ROWS(var(tensor(1)), var(tensor(1))))
    with pytest.raises(TypeError, match=r"argument 1 of `f` must .* but `v` is of type"):
        call_type(ROWS(var(tensor(7, 3))))
    with pytest.raises(TypeError, match="`v` is called, but it is no function: its type is"):
        call_type(Call(var(tensor(1)), ()))


def test_what_states_no_signature_takes_the_type_that_the_call_states() -> None:
    opaque = GlobalVar("f", ty=FuncType(None, tensor(2)))
    assert call_type(opaque(var(tensor(1)))) == tensor(2)
    one, two = (tensor(3),), (tensor(3), tensor(4))
    for callee in (ExternFunc("g"), var(None), var(ObjectType()), opaque):
        assert call_type(Call(callee, (), ty_args=one)) == tensor(3)
        assert call_type(Call(callee, (), ty_args=two)) == TupleType(two)
    assert call_type(Call(ExternFunc("g"))) == ObjectType()
    assert call_type(Call(var(None))) == ObjectType()


def test_a_function_from_outside_may_state_its_signature() -> None:
    extern = ExternFunc("g", ty=FuncType((tensor(N),), tensor(N + 1)))
    assert call_type(Call(extern, (var(tensor(3)),))) == tensor(4)
    assert call_type(Call(extern, (var(tensor(3)),), ty_args=(tensor(9),))) == tensor(9)


def test_a_derivation_rule_has_the_last_word() -> None:
    callee = GlobalVar("f", ty=FuncType(derive=lambda call: tensor(len(call.args))))
    assert call_type(callee(var(None), var(None))) == tensor(2)


def test_purity_of_calls() -> None:
    assert is_pure_call(ROWS(var(None)))
    assert not is_pure_call(function(ret=tensor(1), pure=False)())
    assert not is_pure_call(Call(ExternFunc("f")))
    assert not is_pure_call(Call(var(None)))
    assert is_pure_call(Call(get_op("relax.add"), (var(tensor(1)),) * 2))


def test_inferring_types_calls_without_one_and_leaves_the_rest() -> None:
    x = var(tensor(2))
    call = x + x
    assert infer(call) is call
    assert infer(replace(call, ty=None)).ty == tensor(2)
    assert infer(ROWS(var(tensor(1, 2)))).ty == tensor(2)
    assert infer(x) is x
    untyped = Var("untyped")
    assert infer(untyped) is untyped


FLAG = Var("flag", TensorType((), "bool"))


def choice(true: Expr, false: Expr, *inside: MatchCast) -> If:
    blocks = (BindingBlock(inside),) if inside else ()
    return If(FLAG, SeqExpr(blocks, true), SeqExpr((), false))


def test_a_choice_has_what_its_branches_have_in_common() -> None:
    assert infer(choice(var(tensor(N)), var(tensor(N)))).ty == tensor(N)
    assert infer(choice(var(tensor(N)), var(tensor(3)))).ty == TensorType(None, "float32", 1)
    assert infer(choice(var(tensor(N)), var(PrimType("int64")))).ty == ObjectType()
    assert infer(choice(var(tensor(N)), var(None))).ty == ObjectType()


def test_dimensions_of_a_branch_do_not_leave_it() -> None:
    outside = var(TensorType(None, "float32", 2))
    casts = [MatchCast(Var("c", tensor(K, 2)), outside, tensor(K, 2)) for _ in range(2)]
    branches = [SeqExpr((BindingBlock((cast,)),), cast.var) for cast in casts]
    assert infer(If(FLAG, *branches)).ty == TensorType(None, "float32", 2)


def test_dimensions_from_outside_that_a_branch_checks_stay() -> None:
    outside = var(tensor(N, 2))
    cast = MatchCast(Var("c", tensor(N, 2)), outside, tensor(N, 2))
    assert infer(choice(cast.var, outside, cast)).ty == tensor(N, 2)


def test_shapes_that_variables_of_a_branch_hold_do_not_leave_it() -> None:
    shape = Var("s", ShapeType(None, 2))
    held = var(TensorType(shape, "float32"))
    inside = SeqExpr((BindingBlock((VarBinding(shape, var(shape.ty)),)),), held)
    other = SeqExpr((), held)
    assert infer(If(FLAG, inside, other)).ty == TensorType(None, "float32", 2)
    assert infer(If(FLAG, other, other)).ty == held.ty


def test_unification_reads_what_the_other_side_tells() -> None:
    found: dict[Any, Any] = {}
    unify_dims((N, 2, M + 1), (3, 2, 8), found)
    assert found == {N: 3}
    unify(tensor(N, K), tensor(4, 5), found)
    assert found == {N: 3, K: 5}
    unify(tensor(OWN), tensor(4, 5), found)
    unify(tensor(OWN), None, found)
    unify(TupleType((tensor(OWN),)), TupleType(()), found)
    assert OWN not in found
