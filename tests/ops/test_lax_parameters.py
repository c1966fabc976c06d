"""Parameters of primitives as attributes, there and back."""

import enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from relaxjax.ir import Attrs, SymbolicVar
from relaxjax.ops.lax import JaxSymbols
from relaxjax.ops.lax.parameters import (
    UnsupportedParameterError,
    decode_attrs,
    encode_params,
    key_implementation,
)
from relaxjax.ops.lax.prototypes import find_primitive

GATHER = lax.GatherDimensionNumbers((1,), (0,), (0,))
CONVOLUTION = lax.conv_dimension_numbers((1, 2, 3, 3), (4, 2, 3, 3), ("NCHW", "OIHW", "NCHW"))
RAGGED = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, 3),
        (0.5, 0.5),
        (True, True),
        (None, None),
        ("text", "text"),
        (np.int64(3), 3),
        ((1, (2, None)), (1, (2, None))),
        ([1, 2], (1, 2)),
        (lax.GatherScatterMode.CLIP, Attrs(GatherScatterMode="CLIP")),
        (lax.Precision.HIGHEST, Attrs(Precision="HIGHEST")),
        (lax.RandomAlgorithm.RNG_PHILOX, Attrs(RandomAlgorithm="RNG_PHILOX")),
        (
            CONVOLUTION,
            Attrs(
                ConvDimensionNumbers={
                    "lhs_spec": (0, 1, 2, 3),
                    "rhs_spec": (0, 1, 2, 3),
                    "out_spec": (0, 1, 2, 3),
                }
            ),
        ),
        (range(2), (0, 1)),
        (lax.sub_p, Attrs(Primitive="sub")),
        (np.dtype("float16"), Attrs(dtype="float16")),
        (jnp.bfloat16, Attrs(dtype="bfloat16")),
    ],
    ids=str,
)
def test_values_as_attributes(value: Any, written: Any) -> None:
    assert encode_params({"p": value}, JaxSymbols())["p"] == written


@pytest.mark.parametrize(
    "value",
    [
        GATHER,
        CONVOLUTION,
        RAGGED,
        lax.GatherScatterMode.PROMISE_IN_BOUNDS,
        (lax.Precision.DEFAULT, lax.Precision.HIGH),
        lax.DotAlgorithmPreset.F32_F32_F32,
        lax.DotAlgorithm(np.dtype("bfloat16"), np.dtype("bfloat16"), np.dtype("float32"), 1, 1, 1),
        lax.linalg.SvdAlgorithm.QR,
        lax.ge_p,
        np.dtype("int8"),
        (((1,), (0,)), ((), ())),
        float("inf"),
    ],
    ids=str,
)
def test_values_come_back(value: Any) -> None:
    attrs = encode_params({"p": value}, JaxSymbols())
    assert hash(attrs) == hash(Attrs(dict(attrs)))
    decoded = decode_attrs(attrs, find_primitive)["p"]
    assert repr(decoded).replace("[", "(").replace("]", ")").replace(",)", ")") == repr(
        value
    ).replace("[", "(").replace("]", ")").replace(",)", ")")


@pytest.mark.parametrize("name", ["new_dtype", "dtype", "index_dtype", "preferred_element_type"])
def test_dtypes_are_names_where_the_parameter_says_so(name: str) -> None:
    for dtype in (np.dtype("float32"), jnp.bfloat16, jax.random.key(0).dtype):
        attrs = encode_params({name: dtype}, JaxSymbols())
        assert isinstance(attrs[name], str)
        assert decode_attrs(attrs, find_primitive)[name] == dtype


def test_dtypes_are_those_that_jax_has_switched_on() -> None:
    attrs = Attrs(new_dtype="int64")
    assert decode_attrs(attrs, find_primitive)["new_dtype"] == np.dtype("int32")
    with jax.enable_x64(True):
        assert decode_attrs(attrs, find_primitive)["new_dtype"] == np.dtype("int64")


def test_random_generators_go_by_name() -> None:
    for name in ("threefry2x32", "rbg"):
        impl = key_implementation(name)
        attrs = encode_params({"impl": impl}, JaxSymbols())
        assert attrs == Attrs(impl={"PRNGImpl": name})
        assert decode_attrs(attrs, find_primitive)["impl"] is impl


def test_symbolic_dimensions_are_ours() -> None:
    symbols = JaxSymbols()
    n = SymbolicVar("n")
    (m,) = export.symbolic_shape("m")
    attrs = encode_params({"shape": (symbols.to_jax(n), m, 3)}, symbols)
    assert attrs["shape"][0] is n
    assert attrs["shape"][1].name == "m"


class _Private(enum.Enum):
    A = 1


@pytest.mark.parametrize(
    ("value", "kind"),
    [(len, "builtin_function_or_method"), (_Private.A, "_Private"), (frozenset(), "frozenset")],
    ids=["function", "enum", "frozenset"],
)
def test_anything_else_has_no_written_form(value: Any, kind: str) -> None:
    message = f"its parameter `p` is of type {kind}, which has no written form"
    with pytest.raises(UnsupportedParameterError, match=message):
        encode_params({"p": value}, JaxSymbols())


def test_a_structure_has_one_key() -> None:
    with pytest.raises(ValueError, match="a structured parameter has one key, the name of its"):
        decode_attrs(Attrs(mode={"GatherScatterMode": "CLIP", "more": 1}), find_primitive)


def test_a_structure_names_a_type_of_jax() -> None:
    with pytest.raises(ValueError, match="JAX has no type `Gather` for a structured parameter"):
        decode_attrs(Attrs(mode={"Gather": "CLIP"}), find_primitive)
