"""Symbolic dimensions in JAX's notation and back, by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import export

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import Dim, SymbolicVar, dim_max, dim_min
from relaxjax.ops.lax import JaxSymbols, evaluate_attrs, evaluate_dim

N, M = SymbolicVar("n"), SymbolicVar("m")


def dims() -> st.SearchStrategy[Dim]:
    """Dimensions of `n` and `m` with every operation that both sides know."""
    leaves: st.SearchStrategy[Dim] = st.sampled_from([N, M, 1, 2, 3])

    def compound(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        binary = st.sampled_from(
            [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, dim_max, dim_min]
        )
        by_number = st.sampled_from([lambda a, b: a // b, lambda a, b: a % b])
        return st.one_of(
            st.builds(lambda op, a, b: op(a, b), binary, inner, inner),
            st.builds(lambda op, a, b: op(a, b), by_number, inner, st.integers(2, 5)),
        )

    return st.recursive(leaves, compound, max_leaves=5)


@given(dims(), st.integers(1, 20), st.integers(1, 20))
def test_a_dimension_keeps_its_value_there_and_back(dim: Dim, n: int, m: int) -> None:
    symbols = JaxSymbols()
    back = symbols.from_jax(symbols.to_jax(dim))
    values = {N: n, M: m}
    assert evaluate_dim(back, values.__getitem__) == evaluate_dim(dim, values.__getitem__)


@pytest.mark.parametrize(
    "dim", [3, N, N + 1, N * M - 2 * N, (N + 1) // 2, N % 3, dim_max(N, M), N * N + dim_min(N, 4)]
)
def test_a_dimension_comes_back_the_same(dim: Dim) -> None:
    symbols = JaxSymbols()
    assert symbols.from_jax(symbols.to_jax(dim)) == dim


def test_names_are_told_apart() -> None:
    """Two variables of one name, names that JAX reserves, and names that it cannot read."""
    symbols = JaxSymbols()
    variables = [N, *(SymbolicVar(name) for name in ("n", "max", "_", "n'", "größe"))]
    theirs = [symbols.to_jax(var) for var in variables]
    assert len(set(map(str, theirs))) == len(variables)
    assert [symbols.from_jax(dim) for dim in theirs] == variables


def test_unknown_names_become_variables_once() -> None:
    symbols = JaxSymbols()
    a, twice = export.symbolic_shape("a, 2*a")
    ours = symbols.from_jax(a)
    assert isinstance(ours, SymbolicVar)
    assert ours.name == "a"
    assert symbols.from_jax(twice) == ours * 2


def test_attributes_are_evaluated_all_through() -> None:
    attrs = Attrs(shape=(N, 2), nested={"sizes": (N + M,)}, name="n", flag=True)
    values = {N: 4, M: 5}
    evaluated = evaluate_attrs(attrs, lambda dim: evaluate_dim(dim, values.__getitem__))
    assert evaluated == {"shape": (4, 2), "nested": Attrs(sizes=(9,)), "name": "n", "flag": True}


def test_something_else_is_no_dimension() -> None:
    with pytest.raises(TypeError, match="`'n'` is no dimension"):
        evaluate_dim("n", {}.__getitem__)  # type: ignore[arg-type]  # the mistake under test


def test_an_unknown_operation_is_an_error() -> None:
    """What a later release of JAX may come up with."""

    class Strange:
        def __str__(self) -> str:
            return "power(a, b)"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "is_symbolic_dim", lambda dim: True)
        with pytest.raises(ValueError, match=r"dimension `power\(a, b\)` has no counterpart here"):
            JaxSymbols().from_jax(Strange())
