"""Registering backends and finding them, and their patterns."""

from typing import Any

import pytest

from relaxjax.backends import (
    backends,
    get_backend,
    get_patterns_with_prefix,
    register_backend,
    registry,
)
from relaxjax.dpl import is_op, wildcard
from relaxjax.ir.function import Function

EXP = ("mine.exp", is_op("relax.exp")(wildcard()))


@pytest.fixture(autouse=True)
def _registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))


def compile(region: Function) -> Any:
    raise NotImplementedError


def test_a_backend_is_found_by_its_name() -> None:
    mine = register_backend("mine", compile, patterns=[EXP])
    assert get_backend("mine") is mine
    assert set(backends()) == {"numpy", "pallas", "mine"}
    assert [pattern.name for pattern in get_patterns_with_prefix("mine")] == ["mine.exp"]
    assert get_patterns_with_prefix("yours") == []
    assert register_backend("mine", compile, override=True).patterns == ()


def test_bigger_patterns_of_pallas_come_first() -> None:
    names = [pattern.name for pattern in get_patterns_with_prefix("pallas")]
    assert names[0] == "pallas.matmul_bias_relu"
    assert names[-1] == "pallas.matmul"
    assert [p.name for p in get_patterns_with_prefix("pallas.matmul_bias_tanh")] == [
        "pallas.matmul_bias_tanh"
    ]


def test_errors_of_the_registry() -> None:
    register_backend("mine", compile)
    with pytest.raises(ValueError, match="a backend `mine` is registered already: pass override"):
        register_backend("mine", compile)
    with pytest.raises(TypeError, match="`compile` of the backend `yours` must be a function of a"):
        register_backend("yours", None)  # type: ignore[arg-type]
    match = r"of the backend `yours` is named `yours\.…`, found `mine"
    with pytest.raises(ValueError, match=match):
        register_backend("yours", compile, patterns=[EXP])
    match = r"no backend `min` is registered: there are .*; did you mean `mine`"
    with pytest.raises(KeyError, match=match):
        get_backend("min")
