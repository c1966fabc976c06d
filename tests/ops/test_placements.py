"""Where results of operators lie, as far as it can be told."""

import pytest
from parsing import parse_functions

from relaxjax.ir.types import TensorType, TupleType

TEXT = """
    I.module_global_infos({"mesh": [R.device_mesh((2, 2), I.Range(0, 4))]})

    @R.function
    def main(
        x: R.DTensor((4, 8), "float32", "mesh[0]", "S[0], R"),
        w: R.DTensor((8, 6), "float32", "mesh[0]", "R, S[1]"),
        k: R.DTensor((8, 6), "float32", "mesh[0]", "S[0], R"),
        c: R.DTensor((8,), "float32", "mesh[0]", "R, R"),
        one: R.DTensor((1, 8), "float32", "mesh[0]", "R, R"),
        u: R.Tensor((4, 8), "float32"),
        open: R.DTensor(dtype="float32", ndim=2, device_mesh="mesh[0]", placement="S[1], R"),
    ):
        y = VALUE
        return y
"""


@pytest.mark.parametrize(
    ("value", "placement"),
    [
        ("R.exp(x)", "S[0], R"),
        ("R.add(x, u)", None),
        ("R.multiply(x, R.const(2.0, 'float32'))", "S[0], R"),
        ("R.multiply(R.sum(u), x)", "S[0], R"),
        ('R.add(x, R.dist.annotate_sharding(u, "mesh[0]", "R, R"))', "S[0], R"),
        ("R.add(u, u)", None),
        ('R.astype(x, "float16")', "S[0], R"),
        ("R.add(x, c)", "S[0], R"),
        ("R.add(one, x)", "S[0], R"),
        ('R.add(x, R.dist.annotate_sharding(u, "mesh[0]", "R, S[1]"))', None),
        ('R.add(x, R.dist.annotate_sharding(u, R.device_mesh((2,), [0, 1]), "S[0]"))', None),
        ("R.add(x, x)", "S[0], R"),
        ("R.add(u, c)", None),
        ("R.exp(open)", "S[1], R"),
        ("R.permute_dims(x)", "S[1], R"),
        ("R.permute_dims(w, [0, 1])", "R, S[1]"),
        ("R.matmul(x, w)", "S[0], S[1]"),
        ("R.matmul(u, w)", None),
        ("R.matmul(x, k)", None),
        ("R.sum(x, axis=1)", None),
        ("R.nn.softmax(x)", None),
        ("R.cumsum(x, axis=0)", None),
        ('R.dist.annotate_sharding(x, "mesh[0]", "R, S[1]")', "R, S[1]"),
        ('R.dist.redistribute(x, "mesh[0]", "S[0], S[0]")', "S[0], S[0]"),
        ('R.exp(R.dist.redistribute(x, "mesh[0]", "S[0], S[0]"))', "S[0], S[0]"),
        ('R.matmul(R.dist.redistribute(x, "mesh[0]", "S[0], S[0]"), k)', None),
    ],
)
def test_where_a_result_lies(value: str, placement: str | None) -> None:
    ty = parse_functions(TEXT.replace("VALUE", value))["main"].ret_ty
    assert isinstance(ty, TensorType)
    assert (None if ty.placement is None else ty.placement.text) == placement


def test_the_fields_of_a_result_are_of_unknown_placement() -> None:
    ty = parse_functions(TEXT.replace("VALUE", "R.split(x, 2, axis=1)"))["main"].ret_ty
    assert isinstance(ty, TupleType)
    assert all(field.placement is None for field in ty.fields if isinstance(field, TensorType))
