"""Constraints on where tensors lie: written, read back, and refused where they say more."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from parsing import parse_module

from relaxjax import from_jax, to_jax
from relaxjax.ir.structural import structural_equal
from relaxjax.ops.lax import UnsupportedPrimitiveError
from relaxjax.ops.lax.shardings import read_sharding, written_sharding

X = np.linspace(0.0, 1.0, 6, dtype="float32").reshape(2, 3)
MESH = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("rows", "columns"))
FREE = PartitionSpec.UNCONSTRAINED


@pytest.mark.parametrize(
    "spec", [(), ("rows",), (None, "columns"), (("rows", "columns"), FREE)], ids=str
)
def test_a_sharding_comes_back(spec: tuple[Any, ...]) -> None:
    sharding = NamedSharding(MESH, PartitionSpec(*spec))
    found = read_sharding(written_sharding(sharding))
    assert isinstance(found, NamedSharding)
    assert (found.mesh, found.spec) == (sharding.mesh, sharding.spec)


def test_a_constraint_is_text() -> None:
    def doubled(x: jax.Array) -> Any:
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(MESH, PartitionSpec("rows")))

    module = from_jax(doubled, X)
    again = parse_module(module.script())
    assert 'sharding={"NamedSharding": {"axes": ["rows", "columns"]' in module.script()
    assert structural_equal(module, again)
    text = jax.jit(to_jax(again, "main")).lower(X).as_text()
    assert "sdy.sharding_constraint" in text


def test_without_devices_the_mesh_is_the_one_that_is_set() -> None:
    def doubled(x: jax.Array) -> Any:
        return jax.lax.with_sharding_constraint(x * 2, PartitionSpec("rows"))

    with jax.set_mesh(MESH):
        module = from_jax(doubled, X)
        assert '{"axes": ["rows", "columns"], "spec": ["rows"]}' in module.script()
        np.testing.assert_array_equal(jax.jit(to_jax(module, "main"))(X), X * 2)


def test_devices_that_are_not_there() -> None:
    attrs = {"axes": ("rows",), "spec": ("rows",), "devices": (0, 77), "platform": "cpu"}
    with pytest.raises(ValueError, match=r"on the devices \[77\] of the platform cpu, but those"):
        read_sharding(attrs)


@pytest.mark.parametrize(
    "sharding",
    [
        NamedSharding(MESH, PartitionSpec("rows"), memory_kind="pinned_host"),
        jax.sharding.SingleDeviceSharding(jax.devices()[0]),
    ],
    ids=["memory", "device"],
)
def test_what_says_more_or_less_is_refused(sharding: Any) -> None:
    with pytest.raises(UnsupportedPrimitiveError, match=r"Constrain by a .* no explicit axes"):
        from_jax(lambda x: jax.lax.with_sharding_constraint(x * 2, sharding), X)
