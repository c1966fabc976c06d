"""Adjoints of tuples in both of their texts: in parts, and written out as TVM does."""

from parsing import parse_flow

from relaxjax.passes import Gradient

MODULE = parse_flow("""
    a = t[0]
    b = R.exp(a)
    c = t[0]
    d = R.multiply(b, c)
    loss = R.sum(d)
    """, t='R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32"))')  # fmt: skip


def backward(lazy: bool) -> list[str]:
    """The lines of the backward program, from the adjoint of `c` on."""
    bindings = Gradient("main", lazy=lazy)(MODULE)["main_adjoint"].body.bindings()
    lines = [f"{binding.var.name} = {binding.value}" for binding in bindings]
    return lines[8:]


def test_each_part_of_a_tuple_is_added_to_the_whole() -> None:
    assert backward(lazy=False) == [
        "c_adjoint = R.multiply(d_adjoint, b)",
        'lv = R.zeros(R.shape([3]), dtype="float32")',
        "t_adjoint = (c_adjoint, lv)",
        "a_adjoint = R.multiply(b_adjoint, b)",
        "lv1 = t_adjoint[0]",
        "lv2 = R.add(lv1, a_adjoint)",
        "lv3 = t_adjoint[1]",
        "t_adjoint1 = (lv2, lv3)",
        "t_adjoint_out = t_adjoint1",
    ]


def test_the_parts_are_added_and_zeros_are_made_for_the_result_alone() -> None:
    assert backward(lazy=True) == [
        "c_adjoint = R.multiply(d_adjoint, b)",
        "a_adjoint = R.multiply(b_adjoint, b)",
        "t_adjoint = R.add(c_adjoint, a_adjoint)",
        'lv = R.zeros(R.shape([3]), dtype="float32")',
        "t_adjoint1 = (t_adjoint, lv)",
        "t_adjoint_out = t_adjoint1",
    ]
