"""The variables of dimensions, and what is put in their places."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import VARIABLES, Formula, computed, dim_of, formulas

from relaxjax.ir.dim_variables import dim_vars, is_never_negative, substitute_dim
from relaxjax.ir.dims import Dim, SymbolicVar, compare, dim_max, dim_min

N, M = SymbolicVar("n"), SymbolicVar("m")
SYMBOLS = {name: SymbolicVar(name) for name in VARIABLES}


def test_variables_come_in_order_of_appearance() -> None:
    assert dim_vars(M * N + N // 2) == (N, M)
    assert dim_vars(3) == ()


@given(formulas(), st.sampled_from([*itertools.product([SYMBOLS["b"], N, 1, 3], repeat=3)]))
def test_substitution_commutes_with_arithmetic(formula: Formula, values: tuple[Dim, ...]) -> None:
    """Variables may become other variables, the same one twice, or integers."""
    mapping = dict(zip(VARIABLES, values, strict=True))
    substituted = computed(
        substitute_dim,
        computed(dim_of, formula, SYMBOLS),
        {SYMBOLS[name]: value for name, value in mapping.items()},
    )
    direct = computed(dim_of, formula, mapping)
    assert substituted == direct


@given(formulas())
def test_renaming_keeps_the_canonical_form(formula: Formula) -> None:
    """Order depends on when variables were made, and must not matter."""
    later = {name: SymbolicVar(name) for name in reversed(VARIABLES)}
    renaming = {SYMBOLS[name]: later[name] for name in VARIABLES}
    renamed = substitute_dim(computed(dim_of, formula, SYMBOLS), renaming)
    assert renamed == dim_of(formula, later)


@given(formulas())
@settings(max_examples=50)
def test_substitution_of_other_variables_gives_the_very_same_object(formula: Formula) -> None:
    dim = computed(dim_of, formula, SYMBOLS)
    assert substitute_dim(dim, {N: 3}) is dim
    assert substitute_dim(dim, {var: var for var in dim_vars(dim)}) is dim


def test_what_is_no_dimension_has_no_variables() -> None:
    with pytest.raises(TypeError, match="`'m'` is no dimension"):
        substitute_dim("m", {N: 1})  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize(
    ("dim", "wanted"),
    [
        (0, True),
        (-1, False),
        (N * 2 + M * N + 3, True),
        (N - 1, False),
        ((N + 1) // 2, True),
        ((N - 1) // 2, False),
        ((N - 5) % 3, True),
        (N % -3, False),
        (dim_max(N - M, 0), True),
        (dim_max(N - M, -M), False),
        (dim_min(N, 20), True),
        (dim_min(N, M - 1), False),
        (dim_min(N, 20) * 2 + M // 3, True),
        (-dim_min(N, 20), False),
        (compare("<", N, M), False),
    ],
)
def test_whether_a_dimension_of_sizes_is_never_negative(dim: Dim, wanted: bool) -> None:
    assert is_never_negative(dim) is wanted


@given(formulas(), st.lists(st.integers(0, 7), min_size=3, max_size=3))
def test_what_is_never_negative_is_so_for_all_sizes(formula: Formula, sizes: list[int]) -> None:
    if is_never_negative(computed(dim_of, formula, SYMBOLS)):
        with suppress(ZeroDivisionError):
            assert dim_of(formula, dict(zip(VARIABLES, sizes, strict=True))) >= 0
