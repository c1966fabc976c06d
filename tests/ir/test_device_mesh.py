"""Meshes and placements: text, saved form, comparison, and what types with them relate to."""

import pytest
from parsing import parse_function, parse_functions

from relaxjax.ir.device_mesh import DeviceMesh, Placement, as_mesh, placement_parts
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.lattice import Fit, common_type, erase, fits
from relaxjax.ir.serialize import load_json, save_json
from relaxjax.ir.structural import assert_structural_equal, structural_equal, structural_hash
from relaxjax.ir.types import TensorType, TupleType, placements, same_type
from relaxjax.script import from_source

MESH = DeviceMesh((2, 4), range(8), ("data", "model"))
ROWS = Placement(MESH, (0, None))
COLUMNS = Placement(MESH, (None, 1))

LISTED = """
    I.module_global_infos({
        "mesh": [
            R.device_mesh((2, 2), I.Range(0, 4)),
            R.device_mesh((1,), I.Range(4, 5)),
            R.device_mesh((2, 4), [0, 2, 4, 6, 1, 3, 5, 7], axes=["data", "model"]),
        ]
    })

    @R.function
    def main(
        x: R.DTensor(("n", 8), "float32", "mesh[0]", "S[0], R"),
        y: R.DTensor(ndim=2, device_mesh="mesh[1]", placement="S[1]"),
        z: R.DTensor("float32", device_mesh="mesh[1]", placement="R"),
        w: R.DTensor((8, 8), "float32", "mesh[2]", "R, S[1]", vdevice="cuda"),
    ):
        a = R.dist.annotate_sharding(x, device_mesh="mesh[0]", placement=" S[0] ,S[1]")
        b = R.dist.annotate_sharding(a, R.device_mesh((2,), [3, 5]), "R")
        return b
"""


def test_the_text_names_the_meshes_of_the_module_and_reads_back() -> None:
    mod = parse_functions(LISTED)
    text = mod.script()
    for line in (
        "R.device_mesh((2, 2), I.Range(0, 4)), R.device_mesh((1,), I.Range(4, 5)), ",
        'R.device_mesh((2, 4), [0, 2, 4, 6, 1, 3, 5, 7], axes=["data", "model"])]})',
        'x: R.DTensor(("n", 8), "float32", "mesh[0]", "S[0], R")',
        'y: R.DTensor(device_mesh="mesh[1]", placement="S[1]", ndim=2)',
        'z: R.DTensor(dtype="float32", device_mesh="mesh[1]", placement="R")',
        'w: R.DTensor((8, 8), dtype="float32", device_mesh="mesh[2]", placement="R, S[1]", vdevice',
        'a: R.DTensor((n, 8), "float32", "mesh[0]", "S[0], S[1]") = R.dist.annotate_sharding(x, d',
        '(x, device_mesh="mesh[0]", placement="S[0], S[1]")',
        'R.dist.annotate_sharding(a, device_mesh=R.device_mesh((2,), [3, 5]), placement="R")',
    ):
        assert line in text
    assert_structural_equal(from_source(text), mod)
    assert_structural_equal(load_json(save_json(mod)), mod)


def test_a_function_alone_spells_its_meshes_out() -> None:
    function = parse_functions(LISTED)["main"]
    assert 'R.DTensor(("n", 8), "float32", R.device_mesh((2, 2), I.Range(0, 4)), "S[0], R")' in (
        function.script()
    )
    assert_structural_equal(from_source(function.script()), function)


def test_a_placement_counts_in_the_structure_but_in_no_comparison_of_types() -> None:
    placed, other, bare = (
        TensorType((4, 4), "float32", placement=p) for p in (ROWS, COLUMNS, None)
    )
    assert placed == other == bare
    assert not same_type(placed, other)
    assert not same_type(TupleType((placed,)), TupleType((bare,)))
    assert same_type(
        TupleType((placed,)), TupleType((TensorType((4, 4), "float32", placement=ROWS),))
    )
    assert placements(TupleType((placed, bare))) == ((ROWS,), (None,))
    texts = [
        f"""
@R.function
def f(x: R.DTensor((4, 4), "float32", R.device_mesh((2,), [0, 1]), "{part}")):
    return x
"""
        for part in ("S[0]", "S[1]")
    ]
    one, two = map(from_source, texts)
    assert not structural_equal(one, two)
    assert structural_hash(one) != structural_hash(two)
    assert structural_equal(one, from_source(texts[0]))


def test_a_value_of_any_placement_stands_where_another_is_expected() -> None:
    placed, other = (TensorType((4, 4), "float32", placement=p) for p in (ROWS, COLUMNS))
    assert fits(placed, other) is Fit.ALWAYS
    assert placements(common_type(placed, other)) == (None,)
    assert placements(common_type(placed, placed)) == (ROWS,)
    wider = common_type(placed, TensorType((8, 4), "float32", placement=ROWS))
    assert same_type(wider, TensorType(None, "float32", 2, placement=ROWS))
    n = SymbolicVar("n")
    assert placements(erase(TensorType((n, 4), "float32", placement=ROWS))) == (ROWS,)


def test_a_placement_follows_dimensions_that_move() -> None:
    assert ROWS.in_order((1, 0)) == Placement(MESH, (1, None))
    assert ROWS.behind(1).text == "S[1], R"
    assert COLUMNS.behind(-1).text == "R, S[0]"
    assert COLUMNS.moved([0, None]) is None
    assert (ROWS.axes, ROWS.axes_of(0), ROWS.axes_of(1)) == (("data",), ("data",), ())
    both = Placement(MESH, (1, 1))
    assert (both.split, both.parts_of(1), both.parts_of(0)) == (((), ("data", "model")), 8, 1)
    assert MESH.size("model") == 4


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, 4), "2 devices along the axis `data` of the mesh do not divide dimension 0 of size 3"),
        ((3, 4), "in equal parts: 1 or 3 would"),
        ((0, 4), None),
        ((), "parts dimension 0, but the tensor has 0 dimensions"),
    ],
)
def test_a_mesh_that_does_not_divide_a_dimension(
    shape: tuple[int, ...], message: str | None
) -> None:
    if message is None:
        assert TensorType(shape, "float32", placement=ROWS).placement == ROWS
        return
    with pytest.raises(ValueError, match=message):
        TensorType(shape, "float32", placement=ROWS)


@pytest.mark.parametrize("axes", [["a"], ["a", "a"], ["a", 'b"'], ["a", "données"], ["a", 1], "ab"])
def test_axes_without_a_name_each_that_xla_reads(axes: object) -> None:
    with pytest.raises(ValueError, match=r"names each of the 2 axes of a mesh once, by letters"):
        DeviceMesh((2, 2), range(4), axes)


def test_of_many_sizes_that_would_do_the_largest_are_named() -> None:
    match = r"equal parts: 315, 360, 420, 504, 630, 840, 1260 or 2520"
    with pytest.raises(ValueError, match=match):
        TensorType((2520, 13), "float32", placement=Placement(DeviceMesh(11, range(11)), (0,)))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("mesh", TypeError, r'must be a mesh, such as "mesh\[0\]"'),
        ("mesh[1]", ValueError, r'"mesh\[1\]" is none of the 0 meshes'),
    ],
)
def test_no_mesh(value: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_mesh(value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", [0]), "`shape` of a mesh must be integers"),
        (((), []), "`shape` of a mesh must be integers"),
        (((2,), [0, -1]), "`device_range` of a mesh must be integers from 0, found -1"),
        (((2,), [0, 1], ("a", "a")), "`axes` names each of the 1 axes"),
    ],
)
def test_meshes_that_cannot_be(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        DeviceMesh(*arguments)


def test_a_hostile_document_makes_no_mesh() -> None:
    function = parse_function(
        '@R.function\ndef f(x: R.DTensor((4,), "float32", R.device_mesh((2,), [0, 1]), "S[0]")):\n'
        "    return x"
    )
    text = save_json(function)
    for old, new, message in (
        ('"parts": [0]', '"parts": [true]', "its field `parts` must be"),
        ('"parts": [0]', '"parts": [3]', "parts dimension 3"),
        ('"devices": [0, 1]', '"devices": [0]', "has 2 devices, but 1 are named"),
    ):
        assert old in text
        with pytest.raises(ValueError, match=message):
            load_json(text.replace(old, new))


def test_parts_of_a_text() -> None:
    assert placement_parts("S[0], R,S[12]") == (0, None, 12)
