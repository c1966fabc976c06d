"""Where values are: hints followed, operators placed, devices exchanged, groups by device."""

import pytest
from parsing import parse_functions
from partition_programs import ADJOINT, MLP, check_gradient, check_same_results

from relaxjax.ir import IRModule, assert_structural_equal, well_formed
from relaxjax.ir.global_info import VDevice
from relaxjax.passes import (
    Gradient,
    GroupByVDevice,
    Pass,
    RealizeVDevice,
    RewriteAnnotatedOps,
    UpdateVDevice,
)
from relaxjax.script import from_source

LISTED = 'I.module_global_infos({"vdevice": [I.vdevice("cuda"), I.vdevice("llvm")]})\n'


def program(body: str, devices: str = "None None None", ret: str = "") -> IRModule:
    """A function of x, y and z on devices, whose block gives `r`."""
    names = [f'"{name}"' if name != "None" else name for name in devices.split()]
    params = ", ".join(
        f'{var}: R.Tensor((2, 3), "float32", {name})'
        for var, name in zip("xyz", names, strict=True)
    )
    lines = "\n".join(f"        {line.strip()}" for line in body.strip().splitlines())
    return parse_functions(
        f"{LISTED}@R.function\ndef main({params}){ret}:\n    with R.dataflow():\n{lines}\n"
        "        R.output(r)\n    return r"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            program("""
                lv0 = R.hint_on_device(y, "cuda:0")
                lv1 = R.add(x, lv0)
                lv2 = R.multiply(lv1, z)
                lv3 = R.hint_on_device(lv2, R.device(1, 0))
                lv4 = R.add(lv3, lv3)
                r = R.multiply(lv4, R.const(2.0, "float32"))
                """),
            program(
                """
                lv0 = y
                lv1 = R.add(x, lv0)
                lv2 = R.multiply(lv1, z)
                lv3 = R.to_vdevice(lv2, "llvm")
                lv4 = R.add(lv3, lv3)
                r = R.multiply(lv4, R.const(2.0, "float32"))
                """,
                "cuda cuda cuda",
            ),
            id="forward and backward",
        ),
        pytest.param(
            program("""
                x1 = x
                lv0 = R.hint_on_device(x1, "llvm")
                lv1 = R.add(lv0, y)
                lv2 = R.hint_on_device(lv1, "cuda")
                lv3 = R.add(lv2, lv2)
                lv4 = R.hint_on_device(lv3, "cuda")
                r = R.multiply(lv4, z)
                """),
            program(
                """
                x1 = x
                lv0 = x1
                lv1 = R.add(lv0, y)
                lv2 = R.to_vdevice(lv1, "cuda")
                lv3 = R.add(lv2, lv2)
                lv4 = lv3
                r = R.multiply(lv4, z)
                """,
                "llvm llvm cuda",
            ),
            id="through other names",
        ),
        pytest.param(
            program('a = R.add(x, y)\nb = R.to_vdevice(a, "llvm")\nr = R.add(b, z)'),
            program(
                'a = R.add(x, y)\nb = R.to_vdevice(a, "llvm")\nr = R.add(b, z)', "None None llvm"
            ),
            id="a move says nothing of what it takes",
        ),
        pytest.param(
            program("a = R.concat((x, y), axis=0)\nb = R.split(a, 2)\nr = b[0]", "cuda None None"),
            program("a = R.concat((x, y), axis=0)\nb = R.split(a, 2)\nr = b[0]", "cuda cuda None"),
            id="tuples",
        ),
        pytest.param(
            program('h = R.hint_on_device(y, "cuda")\nt = (x, h)\nu = t[0]\nr = R.add(u, z)'),
            program("h = y\nt = (x, h)\nu = t[0]\nr = R.add(u, z)", "None cuda None"),
            id="a tuple of values on several devices",
        ),
        pytest.param(
            program(
                'a = R.hint_on_device(x, "cuda")\nb = R.hint_on_device(y, "llvm")\nr = R.add(a, b)'
            ),
            program('a = x\nb = R.to_vdevice(y, "cuda")\nr = R.add(a, b)', "cuda llvm None"),
            id="the first hint counts",
        ),
        pytest.param(
            program("r = R.add(x, y)", ret=' -> R.Tensor((2, 3), "float32", "cuda")'),
            program("r = R.add(x, y)", "cuda cuda None", ' -> R.Tensor((2, 3), "float32", "cuda")'),
            id="the declared result",
        ),
    ],
)
def test_hints_are_followed(before: IRModule, after: IRModule) -> None:
    realized = RealizeVDevice()(before)
    well_formed(realized)
    assert_structural_equal(realized, after)
    assert RealizeVDevice()(realized) is realized


def test_branches_and_casts() -> None:
    before = parse_functions(
        LISTED
        + """
@R.function
def main(x: R.Tensor((2,), "float32"), y: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
    m = T.int64()
    z = R.match_cast(y, R.Tensor((m,), "float32"))
    if c:
        a = R.exp(x)
        b = R.hint_on_device(a, "cuda")
    else:
        b = x
    d = R.sin(b)
    e = R.hint_on_device(z, "llvm")
    return (d, e)
"""
    )
    realized = RealizeVDevice()(before)
    well_formed(realized)
    types = {var.name: var.ty.vdevice for var in realized["main"].params}
    assert types == {"x": "cuda:0:global", "y": "llvm:0:global", "c": None}
    returned = [str(ty) for ty in realized["main"].ret_ty.fields]
    assert 'vdevice="cuda:0:global"' in returned[0]
    assert 'vdevice="llvm:0:global"' in returned[1]


def test_callers_know_the_new_types() -> None:
    before = parse_functions(
        LISTED
        + """
@R.function(private=True)
def inner(x: R.Tensor((2,), "float32")):
    a = R.hint_on_device(x, "cuda")
    return R.exp(a)

@R.function
def main(x: R.Tensor((2,), "float32")):
    return Module.inner(x)
"""
    )
    well_formed(RealizeVDevice()(before))


STAYS = parse_functions(
    LISTED
    + """
@R.function
def inner(x: R.Tensor((2,), "float32", "cuda")):
    return R.exp(x)

@R.function
def main(x: R.Tensor((2,), "float32")):
    a = R.hint_on_device(x, "cpu")
    b: R.Tensor((2,), "float32") = Module.inner(a)
    c = R.exp(b)
    return R.add(a, c)
"""
)


@pytest.mark.parametrize(
    "device_pass",
    [RealizeVDevice(), RewriteAnnotatedOps("llvm"), RewriteAnnotatedOps("cuda")],
    ids=["realized", "on llvm", "on cuda"],
)
def test_values_are_brought_to_functions_that_stay_where_they_were(device_pass: Pass) -> None:
    after = device_pass(STAYS)
    assert after["inner"] is STAYS["inner"]
    well_formed(after)
    assert_structural_equal(from_source(after.script()), after)


def test_values_that_cannot_be_in_two_places() -> None:
    mod = program('a = R.to_vdevice(x, "cuda")\nb = R.to_vdevice(y, "llvm")\nr = R.maximum(z, z)')
    assert RealizeVDevice()(mod) is mod
    mod = program("a = R.concat((x, y), axis=0)\nr = R.exp(a)", "cuda None None")
    two = mod["main"]
    assert two.params[0].ty.vdevice == "cuda:0:global"
    clash = program("""
        a = R.to_vdevice(x, "cuda")
        b = R.split(a, 2, axis=0)
        c = b[0]
        d = R.to_vdevice(y, "llvm")
        e = R.split(d, 2, axis=0)
        f = e[0]
        r = R.concat((c, f), axis=0)
        """)
    with pytest.raises(ValueError, match=r"must be on cuda:0:global and on llvm:0:global, because"):
        RealizeVDevice()(clash)


def test_nothing_to_follow() -> None:
    for mod in (MLP, ADJOINT):
        assert RealizeVDevice()(mod) is mod
        assert RewriteAnnotatedOps("cpu")(mod) is mod
        assert GroupByVDevice()(mod) is mod


HINTED = parse_functions(
    str(MLP["main"])
    .replace("h2: ", 'lv = R.hint_on_device(h1, "llvm:1")\n        h2: ')
    .replace("relu(h1)", "relu(lv)")
)


def test_every_operator_is_placed() -> None:
    placed = RewriteAnnotatedOps("cpu")(HINTED)
    well_formed(placed)
    lines = [line.strip() for line in str(placed["main"]).splitlines()]
    where = {
        name: line.partition('vdevice="')[2][:6]
        for line in lines
        for name in ("h0:", "h1:", "h2:", "lv:", "loss:")
        if line.startswith(name)
    }
    assert where == {
        "h0:": "cpu:0:",
        "h1:": "llvm:1",
        "h2:": "cpu:0:",
        "lv:": "llvm:1",
        "loss:": "cpu:0:",
    }
    assert sum("R.to_vdevice" in line for line in lines) == 3
    assert [info.name for info in placed.global_infos["vdevice"]] == [
        "cpu:0:global",
        "llvm:1:global",
    ]
    assert RewriteAnnotatedOps(VDevice("cpu"))(placed) is placed
    check_same_results(HINTED, placed)


def test_programs_on_devices_have_gradients() -> None:
    """On one device everything named runs there; results and gradients stay."""
    adjoint = Gradient("main")(HINTED)
    for made in (RealizeVDevice(), RewriteAnnotatedOps("cpu")):
        moved = made(adjoint)
        check_gradient(moved)
        check_gradient(GroupByVDevice()(moved))
        check_gradient(Gradient("main")(made(HINTED)))


def test_groups_of_one_device() -> None:
    grouped = GroupByVDevice()(RealizeVDevice()(HINTED))
    assert len(grouped) == 3
    assert GroupByVDevice()(grouped) is grouped
    check_same_results(HINTED, grouped)


def test_another_device_in_the_place_of_one() -> None:
    before = RealizeVDevice()(
        program('a = R.hint_on_device(x, "cuda")\nb = R.exp(a)\nr = R.to_vdevice(b, "llvm")')
    )
    updated = UpdateVDevice(VDevice("cuda", 3), 0)(before)
    well_formed(updated)
    assert_structural_equal(
        updated,
        parse_functions(
            'I.module_global_infos({"vdevice": [I.vdevice("cuda", 3), I.vdevice("llvm")]})\n'
            + str(before["main"]).replace("cuda:0:global", "cuda:3:global")
        ),
    )
    assert UpdateVDevice(VDevice("cuda", 0), 0)(before) is before
    again = UpdateVDevice(VDevice("llvm", 1), 1)(before)
    assert 'R.to_vdevice(b, dst_vdevice="llvm:1:global")' in str(again)
    with pytest.raises(IndexError, match="the module has no device at index 2: it lists 2 in its"):
        UpdateVDevice(VDevice("cuda", 3), 2)(before)
    with pytest.raises(IndexError, match="the module has no device at index 0: it lists 0"):
        UpdateVDevice(VDevice("cuda", 3), 0)(MLP)


def test_devices_inside_branches_and_tuples_are_exchanged_too() -> None:
    before = parse_functions(
        LISTED
        + """
@R.function
def main(
    p: R.Tuple(R.Tensor((2,), "float32", "cuda"), R.Tensor((2,), "float32")),
    y: R.Tensor(("n",), "float32", "cuda"),
    c: R.Tensor((), "bool"),
):
    m = T.int64()
    x = p[0]
    z = R.match_cast(y, R.Tensor((m,), "float32", "cuda"))
    if c:
        b = R.exp(x)
    else:
        b = x
    told = R.call_pure_packed("f", b, ty_args=R.Tensor((2,), "float32", "cuda"))
    return (told, z)
"""
    )
    updated = UpdateVDevice(VDevice("cuda", 2), 0)(before)
    well_formed(updated)
    assert "cuda:0" not in str(updated)
    assert str(updated).count("cuda:2") == str(before).count("cuda:0")
