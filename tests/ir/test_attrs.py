"""Attributes: frozen, hashable, and strict about the kinds of numbers."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from full import how_many
from hypothesis import given, settings
from strategies import attribute_values

from relaxjax.ir.attrs import Attrs, as_attrs, freeze
from relaxjax.ir.expr import const


def test_lists_become_tuples_and_mappings_attributes() -> None:
    attrs = Attrs({"axes": [0, [1, 2]], "options": {"deep": [True]}})
    assert attrs["axes"] == (0, (1, 2))
    assert attrs["options"] == Attrs(deep=(True,))
    assert freeze(np.float32(0.5)) == 0.5
    assert type(freeze(np.int64(3))) is int
    assert freeze(np.array([[1, 2]])) == ((1, 2),)
    assert freeze(np.array(2.5)) == 2.5


@pytest.mark.parametrize(
    ("left", "right"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ((1,), (1.0,)), ("1", 1)]
)
def test_values_that_print_differently_are_different(left: Any, right: Any) -> None:
    assert Attrs(value=left) != Attrs(value=right)
    assert Attrs(value={"deep": left}) != Attrs(value={"deep": right})


def test_equal_attributes() -> None:
    assert Attrs(a=1, b=2) == Attrs(b=2, a=1)
    assert Attrs(value=math.nan) == Attrs(value=float("nan"))
    assert Attrs(value=const(1.0)) == Attrs(value=const(1.0))
    assert Attrs(value=(1, 2)) != Attrs(value=(1, 2, 3))
    assert Attrs(a=1) != {"a": 1}


@given(attribute_values())
@settings(max_examples=how_many(40, 1000))
def test_equal_attributes_have_equal_hashes(value: Any) -> None:
    attrs, again = Attrs(value=value), pickle.loads(pickle.dumps(Attrs(value=value)))
    assert attrs == again
    assert hash(attrs) == hash(again)
    assert attrs["value"] == again["value"] or repr(attrs) == repr(again)


def test_updates_give_new_attributes_or_the_very_same() -> None:
    attrs = Attrs(a=1)
    assert attrs.updated(b=2) == Attrs(a=1, b=2)
    assert attrs == Attrs(a=1)
    assert attrs.updated(a=1) is attrs
    assert attrs.updated(a=1.0) is not attrs
    assert attrs.updated(self=1)["self"] == 1
    assert attrs.without("a") == Attrs()
    assert attrs.without("b") is attrs
    assert as_attrs(attrs) is attrs
    assert as_attrs(None) == Attrs()


def test_attributes_are_a_mapping_that_cannot_be_assigned_to() -> None:
    attrs = Attrs({"a": 1}, b=2)
    assert list(attrs) == ["a", "b"]
    assert len(attrs) == 2
    assert repr(attrs) == "Attrs({'a': 1, 'b': 2})"
    with pytest.raises(TypeError, match="does not support item assignment"):
        attrs["a"] = 2  # pyright: ignore[reportIndexIssue]  # which is tested


def test_attributes_by_their_names() -> None:
    attrs = Attrs({"axis": [1], "keepdims": False})
    assert attrs.axis == (1,)
    assert copy.deepcopy(attrs) == pickle.loads(pickle.dumps(attrs)) == attrs
    with pytest.raises(AttributeError, match="no attribute `axes`; there are: axis, keepdims"):
        _ = attrs.axes
    with pytest.raises(AttributeError, match="no attribute `axis`; there are: none"):
        _ = Attrs().axis
