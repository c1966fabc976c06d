"""Symbolic dimensions: canonical forms agree with the integers that they stand for."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import VARIABLES, Formula, computed, dim_of, formulas, number_of

from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.dims import (
    Dim,
    DimExpr,
    SymbolicVar,
    as_dim,
    can_prove_different,
    can_prove_equal,
    compare,
    dim_max,
    dim_min,
    dim_text,
    floordiv,
    mod,
    polynomial,
)

N, M = SymbolicVar("n"), SymbolicVar("m")
SYMBOLS = {name: SymbolicVar(name) for name in VARIABLES}
POINTS = list(itertools.product([1, 2, 3, 5, 7], repeat=3))


def at(point: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(VARIABLES, point, strict=True))


def value_of(dim: Dim, point: tuple[int, ...]) -> Dim:
    return substitute_dim(dim, {SYMBOLS[name]: value for name, value in at(point).items()})


@given(formulas(), st.sampled_from(POINTS))
def test_canonical_forms_keep_the_value(formula: Formula, point: tuple[int, ...]) -> None:
    expected = computed(number_of, formula, at(point))
    assert value_of(computed(dim_of, formula, SYMBOLS), point) == expected


@given(formulas("+ - *"), formulas("+ - *"))
def test_polynomials_are_equal_exactly_where_their_values_are(lhs: Formula, rhs: Formula) -> None:
    same_values = all(number_of(lhs, at(point)) == number_of(rhs, at(point)) for point in POINTS)
    # Eight leaves make no polynomial of more than degree 7 in each of 3 variables, but 5 points a
    # variable tell those of degree 4 apart: the formulas in between decide nothing.
    if dim_of(lhs, SYMBOLS) == dim_of(rhs, SYMBOLS):
        assert same_values
    elif same_values:
        difference = dim_of(("-", lhs, rhs), SYMBOLS)
        assert isinstance(difference, DimExpr)
        assert max(sum(power for _, power in monomial) for monomial, _ in difference.terms) > 4


@given(formulas(), formulas())
def test_equal_dimensions_have_equal_hashes_and_values(lhs: Formula, rhs: Formula) -> None:
    left, right = computed(dim_of, lhs, SYMBOLS), computed(dim_of, ("+", rhs, lhs), SYMBOLS)
    other = computed(dim_of, ("+", lhs, rhs), SYMBOLS)
    assert right == other
    assert hash(right) == hash(other)
    assert left == right - computed(dim_of, rhs, SYMBOLS)


@given(formulas())
@settings(max_examples=50)
def test_pickled_dimensions_stay_canonical(formula: Formula) -> None:
    """Variables read back are new ones, whose order among others may be another."""
    dim = computed(dim_of, formula, SYMBOLS)
    again, symbols = pickle.loads(pickle.dumps((dim, [SYMBOLS[name] for name in VARIABLES])))
    assert again == dim_of(formula, dict(zip(VARIABLES, symbols, strict=True)))
    assert copy.deepcopy(dim) is dim


def test_variables_are_identities() -> None:
    assert SymbolicVar("n") != N
    assert copy.copy(N) is N
    assert pickle.loads(pickle.dumps(N)) is not N
    assert pickle.loads(pickle.dumps(N)).serial != N.serial


def test_equal_polynomials_are_equal_objects() -> None:
    assert (N + 1) * 2 == 2 * N + 2
    assert hash((N + 1) * 2) == hash(2 * N + 2)
    assert N * M == M * N
    assert N - N == 0
    assert -N + N == 0
    assert 3 - N == -(N - 3)


def test_division_takes_out_exact_multiples() -> None:
    assert (4 * N + 6) // 2 == 2 * N + 3
    assert (4 * N + 7) // 4 == N + 1
    assert (N * M) // N == M
    assert (2 * N * M) // (2 * M) == N
    assert (4 * N * M + 6 * M) // (8 * M * M) == (2 * N + 3) // (4 * M)
    assert (N * N * M) // (N * 2) == (N * M) // 2
    assert (2 * N) // (4 * M) == N // (2 * M)
    assert (N + M) // (N + M) == 1
    assert N // 1 is N
    assert 0 // N == 0
    assert (N + 1) // N != 1


def test_remainder_drops_exact_multiples() -> None:
    assert (4 * N) % 2 == 0
    assert (4 * N + 7) % 4 == 3
    assert N % 1 == 0
    assert 0 % N == 0
    assert (5 * N) % 4 == N % 4
    assert 7 % N != 7


def test_extremes_that_differ_by_a_constant_are_decided() -> None:
    assert dim_max(N, N + 1) == N + 1
    assert dim_min(N, N + 1) == N
    assert dim_max(2, 3) == 3
    assert dim_max(N, M) == dim_max(M, N)
    assert dim_max(N, M) != dim_min(N, M)


def test_proofs() -> None:
    assert can_prove_equal(2 * N, N + N)
    assert can_prove_different(N, N + 2)
    assert not can_prove_different(N, M)
    assert not can_prove_different(N, N)


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (N * 2 + 1, "n * 2 + 1"),
        (1 - N, "-n + 1"),
        (N * N * M - 3 * N, "n * n * m - n * 3"),
        (N // 4, "n // 4"),
        ((N + 1) // 4, "(n + 1) // 4"),
        ((N // 4) * 2, "(n // 4) * 2"),
        (N % 3 + M, "m + (n % 3)"),
        (dim_max(N, M), "T.max(n, m)"),
        (dim_min(N, M) * 2, "T.min(n, m) * 2"),
    ],
)
def test_texts(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_texts_with_other_names() -> None:
    assert dim_text(N * 2 + M, lambda var: f"{var.name}_1") == "n_1 * 2 + m_1"


def test_a_polynomial_is_made_of_its_terms() -> None:
    dim = 2 * N * N + M - 3
    assert isinstance(dim, DimExpr)
    assert polynomial(dim.terms) == dim
    assert polynomial([([(N, 1)], 2), ([(N, 1)], -2)]) == 0
    assert polynomial([([(N, 1)], 1)]) is N


def test_numpy_integers_become_dimensions() -> None:
    assert type(as_dim(np.int64(3))) is int
    assert type(as_dim(True)) is int
    assert as_dim(N) is N


@pytest.mark.parametrize("value", [2.5, "n", None, (1,)])
def test_what_is_no_integer_is_no_dimension(value: object) -> None:
    with pytest.raises(TypeError, match="is no dimension: write an integer or a symbolic variable"):
        as_dim(value)


def test_a_name_is_no_dimension_yet() -> None:
    with pytest.raises(TypeError, match=r'a symbolic variable, SymbolicVar\("n"\) of relaxjax'):
        as_dim("n")


def test_arithmetic_with_what_is_no_dimension_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"`1\.5` is no dimension"):
        N + 1.5  # type: ignore[operator]  # what is tested


@pytest.mark.parametrize("rule", [mod, floordiv, dim_max, dim_min])
@pytest.mark.parametrize("other", [1.5, "m", None])
def test_atoms_of_what_is_no_dimension_are_errors(rule: Any, other: Any) -> None:
    for operands in ((N, other), (other, N)):
        with pytest.raises(TypeError, match="is no dimension"):
            rule(*operands)


def test_numbers_of_numpy_stand_in_arithmetic() -> None:
    two: Any = np.int64(2)
    assert N + two == N + 2
    assert mod(N, two) == mod(N, 2)
    assert floordiv(N * 4, two) == N * 2
    assert dim_max(N, two) == dim_max(N, 2)
    assert compare("<", N, two) == compare("<", N, 2)


def test_division_by_zero_names_the_dimension() -> None:
    with pytest.raises(ZeroDivisionError, match="the dimension `n` is divided by zero"):
        floordiv(N, 0)
    with pytest.raises(ZeroDivisionError, match="the dimension `n` is taken modulo zero"):
        mod(N, 0)


def test_a_symbolic_dimension_has_no_number() -> None:
    with pytest.raises(TypeError, match=r"`n \+ 1` is symbolic: it has no value before a call"):
        int(N + 1)
    with pytest.raises(TypeError, match="`n` is symbolic"):
        range(N)
