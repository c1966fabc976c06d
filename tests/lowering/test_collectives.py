"""What devices exchange, read from texts as XLA writes them."""

import pytest

from relaxjax.lowering.collectives import axes_of_groups, collectives_of, groups_along

TEXT = """HloModule jit_f, is_scheduled=true

%add (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}

%wrapped (p: bf16[8,4]) -> bf16[2,4] {
  %p = bf16[8,4]{1,0} parameter(0)
  ROOT %scatter = bf16[2,4]{1,0} reduce-scatter(%p), replica_groups={{0,1,2,3}}, to_apply=%add
}

%body (state: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %w = f32[1,8]{1,0} get-tuple-element(%state), index=1
  ROOT %gathered = f32[4,8]{1,0} all-gather(%w), replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}, metadata={op_name="jit(f)/g.lv/dot_general"}
}

ENTRY %main (a: f32[3,2], b: f64[5]) -> f32[3,2] {
  %a = f32[3,2]{1,0} parameter(0), metadata={op_name="g.a"}
  %b = f64[5]{0} parameter(1), metadata={op_name="g.b"}
  %both = (f32[3,2]{1,0:T(8,128)}, f64[5]{0}) all-reduce(%a, %b), replica_groups={}, to_apply=%add
  %loop = (s32[], f32[4,8]) while(%init), condition=%add, body=%body, backend_config={"known_trip_count":{"n":"6"}}
  %endless = (s32[], f32[4,8]) while(%init), condition=%add, body=%body
  %start = (f32[3,2], f32[3,2]) collective-permute-start(%a), source_target_pairs={{0,1},{1,0}}
  %work = f32[3,2] fusion(%a), kind=kLoop, calls=%add
  %done = f32[3,2] collective-permute-done(%start)
  %s = ((bf16[8,4]), bf16[2,4]) async-start(%h), calls=%wrapped
  %d = bf16[2,4] async-done(%s), calls=%add
  %pieces = (f32[2], f32[2]) all-to-all(%u, %v), replica_groups=[4,2]<=[2,4]T(1,0)
}
"""  # noqa: E501  # as XLA has it


def test_each_exchange_has_its_bytes_and_how_often_it_is_made() -> None:
    found = collectives_of(TEXT)
    assert [(one.kind, one.bytes, one.times, one.place, one.is_overlapped) for one in found] == [
        ("all-reduce", 24, 1, "g.a", None),
        ("all-reduce", 40, 1, "g.b", None),
        ("all-gather", 128, 6, "jit(f)/g.lv/dot_general", None),
        ("all-gather", 128, None, "jit(f)/g.lv/dot_general", None),
        ("collective-permute", 24, 1, "g.a", True),
        ("reduce-scatter", 64, 1, "", False),
        ("all-to-all", 16, 1, "", None),
    ]
    assert found[-1].groups == frozenset(map(frozenset, ({0, 4}, {1, 5}, {2, 6}, {3, 7})))
    assert found[4].groups == frozenset([frozenset([0, 1])])


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", [{0, 1}, {2, 3}]),
        ("[2,2]<=[4]", [{0, 1}, {2, 3}]),
        ("[2,2]<=[2,2]T(1,0)", [{0, 2}, {1, 3}]),
        ("mesh['a'=2,'b'=2] {'b'}", [{0, 1}, {2, 3}]),
        ("mesh['a'=2,'b'=2] {'a'}", [{0, 2}, {1, 3}]),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", [{0, 2}, {1, 3}]),
        ("mesh['a'=2,'b'=2] {'c'}", None),
        ("something else", None),
    ],
)
def test_groups_of_devices_in_every_form(text: str, groups: list[set[int]] | None) -> None:
    program = f"ENTRY %main () -> f32[] {{\n  %x = f32[] all-reduce(%y), replica_groups={text}\n}}"
    (one,) = collectives_of(program)
    assert one.groups == (None if groups is None else frozenset(map(frozenset, groups)))


def test_axes_of_a_mesh() -> None:
    mesh = {"data": 4, "model": 2}
    for axes in (("data",), ("model",), ("data", "model")):
        assert axes_of_groups(mesh, groups_along(mesh, axes)) == axes
    assert axes_of_groups(mesh, frozenset()) == ("data", "model")
    assert axes_of_groups(mesh, None) is None
    assert axes_of_groups(mesh, frozenset([frozenset([0, 3])])) is None
