"""Built modules: compiled when called, once for each set of shapes, on the device asked for."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions, parse_main

from relaxjax.ir.expr import ExternFunc
from relaxjax.lowering import (
    ArgumentError,
    Executable,
    LoweringError,
    VirtualMachine,
    build,
    exported_function,
    legalize,
    to_jax,
    to_mlir,
    to_python,
)
from relaxjax.lowering import compile as compile_module
from relaxjax.ops.packed import PACKED, register_packed

X = np.arange(6, dtype="float32").reshape(2, 3) + 1

MODULE = parse_functions("""
@R.function
def scale(x: R.Tensor(("n", 3), "float32"), by: R.Tensor((), "float32")):
    y = R.multiply(x, by)
    return y

@R.function
def update(p: R.Tensor((2, 3), "float32"), g: R.Tuple(R.Tensor((2, 3), "float32"))):
    d = g[0]
    q = R.subtract(p, d)
    return (q, R.sum(q))

@R.function
def filled(s: R.Shape(["n", 2])):
    n = T.int64()
    y = R.ones(s, "float32")
    z = R.multiply(y, y)
    return z

@R.function
def beside(
    t: R.Tuple(R.Tensor((2, 3), "float32"), R.Tuple(R.Shape(["n"]), R.Tensor((), "float32")))
):
    n = T.int64()
    inner = t[1]
    y = R.add(R.sum(t[0]), inner[1])
    z = R.broadcast_to(y, R.shape([n]))
    return z

@R.function
def count(i: R.Tensor((3,), "int64")):
    j = R.add(i, R.const(1099511627776, "int64"))
    return j

@R.function
def shape(x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    return R.shape([n, 3])

@R.function
def power(n: R.Tensor((), "int32"), x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
    c = R.greater(n, R.const(0, "int32"))
    if c:
        less = R.subtract(n, R.const(1, "int32"))
        p = Module.power(less, x)
        r = R.multiply(p, x)
    else:
        r = R.const(1.0, "float32")
    return r

@R.function
def outside(x: R.Tensor((2, 3), "float32")):
    y = R.call_pure_packed("tests.on_the_host", x, ty_args=R.Tensor((2, 3), "float32"))
    return y
""")


def test_functions_are_called_by_name() -> None:
    executable = build(MODULE)
    chex.assert_trees_all_close(executable["scale"](X, 2.0), X * 2)
    assert isinstance(executable["scale"](X, 2.0), jax.Array)
    assert "scale" in executable
    assert "scales" not in executable
    assert set(executable) == set(MODULE)
    assert repr(executable).startswith("Executable(")


def test_an_unknown_function_suggests_a_near_miss() -> None:
    with pytest.raises(ValueError, match=r"has no function `scael`; .*did you mean `scale`"):
        build(MODULE)["scael"]


def test_a_function_from_outside_cannot_be_run() -> None:
    module = MODULE.with_function("host", ExternFunc("host"))
    with pytest.raises(LoweringError, match="`host` is a function from outside"):
        build(module)["host"]


def test_programs_are_compiled_once_for_each_shape() -> None:
    scale = build(MODULE)["scale"]
    for size in (2, 4, 2, 4):
        scale(np.ones((size, 3), "float32"), jnp.float32(2.0))
    assert len(scale.programs) == 2


def test_python_numbers_do_not_make_programs() -> None:
    scale = build(MODULE)["scale"]
    for by in (1.0, 2.0, 3):
        chex.assert_trees_all_close(scale(X, by), X * np.float32(by))
    assert len(scale.programs) == 1


def test_the_cache_is_bounded() -> None:
    """The programs used last stay."""
    scale = build(MODULE, cache_size=2)["scale"]
    by = jnp.float32(2.0)
    for size in (1, 2, 1, 3):
        scale(np.ones((size, 3), "float32"), by)
    sizes = {key[0][0][0] for key in scale.programs}  # type: ignore[index]  # of tuples
    assert sizes == {1, 3}


def test_shapes_are_part_of_the_program() -> None:
    filled = build(MODULE)["filled"]
    for n in (3, 4):
        chex.assert_trees_all_equal(filled((n, 2)), np.ones((n, 2), "float32"))
    assert len(filled.programs) == 2


def test_shapes_beside_arrays_in_a_tuple_are_part_of_the_program() -> None:
    beside = build(MODULE)["beside"]
    for n, one in ((2, 1.0), (3, 1.0), (3, 2.0)):
        found = beside((X, ((n,), np.float32(one))))
        chex.assert_trees_all_close(found, np.full(n, X.sum() + one, "float32"))
    assert len(beside.programs) == 2
    assert beside.lowered([(X, ((2,), np.float32(1)))]).compile() is not None


def test_arguments_are_checked_before_jax_converts_them() -> None:
    scale = build(MODULE)["scale"]
    with pytest.raises(ArgumentError, match="`x` must be of dtype float32, found float64"):
        scale(X.astype("float64"), 1.0)
    scale(X, 1.0)
    with pytest.raises(ArgumentError, match="`scale` takes 2 arguments"):
        scale(X)


def test_64_bit_dtypes_are_on_where_a_module_needs_them() -> None:
    executable = build(MODULE)
    numbers = np.array([1, 2, 3])
    for argument in (numbers, jnp.asarray(numbers)):
        result = executable["count"](argument)
        assert result.dtype == "int64"
        assert np.asarray(result).tolist() == [2**40 + 1, 2**40 + 2, 2**40 + 3]
    assert executable.jit("count")(numbers).dtype == "int64"
    assert not jax.config.read("jax_enable_x64")


def test_plain_jit() -> None:
    update = build(MODULE).jit("update")
    chex.assert_trees_all_close(update(jnp.asarray(X), (X,)), (X * 0, np.float32(0)))


@pytest.mark.parametrize("donated", ["p", 0])
def test_donated_arguments_are_used_up(donated: Any) -> None:
    executable = build(MODULE)
    compiled = executable.compiled("update", donate=[donated])
    for update in (executable.jit("update", donate=[donated]), compiled):
        param = jnp.array(X)
        update(param, (X,))
        assert param.is_deleted()


def test_an_argument_that_was_given_away_is_named() -> None:
    update = build(MODULE).compiled("update", donate=["p"])
    param = jnp.array(X)
    update(param, (X,))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="`update`: the memory of `p` is gone: it was dona"):
            update(param, (X,))


@pytest.mark.parametrize("donated", ["p", "g"])
def test_an_argument_that_is_given_away_twice_is_named(donated: str) -> None:
    update = build(MODULE).compiled("update", donate=[donated])
    twice = jnp.array(X)
    other = "g" if donated == "p" else "p"
    match = f"`update`: the memory of `{donated}` is donated, but `{other}` is the same array: give"
    for same in (twice, jax.device_put(twice)):
        for _ in range(2):
            with pytest.raises(ArgumentError, match=match):
                update(twice, (same,))
    both = parse_functions("""
@R.function
def main(t: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
    return (R.exp(t[0]), R.sin(t[1]))
""")
    half = jnp.ones(2)
    with pytest.raises(ArgumentError, match="`t` is donated, but `t` holds it twice"):
        build(both).compiled("main", donate=["t"])((half, half))


def test_other_errors_of_a_program_stay_as_they_are() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("out of cheese")

    register_packed("test.fails", override=True)(fails)
    module = parse_functions("""
@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")):
    y = R.call_packed("test.fails", x, ty_args=R.Tensor((2,), "float32"))
    return y
""")
    with pytest.raises(ValueError, match="out of cheese"):
        build(module)["main"](np.zeros(2, "float32"))


def test_only_parameters_can_be_donated() -> None:
    message = "`update` has no parameter `q` to donate; it has `p`, `g`"
    with pytest.raises(ValueError, match=message):
        build(MODULE).jit("update", donate=["q"])
    with pytest.raises(ValueError, match="`update` has no parameter `2` to donate"):
        build(MODULE).compiled("update", donate=[2])


def test_shapes_that_depend_on_values() -> None:
    module = parse_main("i = R.nonzero(x)\nu = R.unique(i)\nreturn u", x=(2, 3))
    x = np.array([[1, 0, 0], [0, 0, 1]], "float32")
    assert np.asarray(build(module)["main"](x)).tolist() == [0, 1, 2]


def test_functions_that_cannot_be_one_program_run_operator_by_operator() -> None:
    executable = build(MODULE)
    assert executable["shape"](X) == (2, 3)
    assert float(executable["power"](5, 2.0)) == 32.0
    assert not executable["power"].compiles
    assert executable["scale"].compiles


def test_functions_from_outside_see_values() -> None:
    register_packed("tests.on_the_host")(lambda x: jnp.asarray(np.asarray(x) * 2))
    try:
        chex.assert_trees_all_close(build(MODULE)["outside"](X), X * 2)
    finally:
        PACKED.pop("tests.on_the_host")


def test_what_runs_is_legalised() -> None:
    assert "L.mul(" in build(MODULE).mod["scale"].script()
    assert build(MODULE, legalized=False).mod is MODULE
    chex.assert_trees_all_close(build(MODULE, legalized=False)["scale"](X, 2.0), X * 2)


def test_the_name_it_has_in_tvm() -> None:
    assert compile_module is build


def test_something_else_than_a_module() -> None:
    with pytest.raises(TypeError, match="`build` takes an IRModule, found int"):
        build(3)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    ("taker", "take"),
    [
        ("`build`", build),
        ("`to_jax`", lambda given: to_jax(given, "scale")),
        ("`legalize`", legalize),
        ("writing functions out", to_python),
        ("writing functions out", to_mlir),
        ("writing functions out", lambda given: exported_function(given, "scale")),
    ],
)
def test_a_function_for_a_module(taker: str, take: Any) -> None:
    message = (
        rf"^{taker} takes an IRModule, found Function: write `IRModule\.from_expr\(function\)`$"
    )
    with pytest.raises(TypeError, match=message):
        take(MODULE["scale"])
    message = f"^{taker} takes an IRModule, found the class `Model`: decorate it by @I.ir_module$"
    with pytest.raises(TypeError, match=message):
        take(type("Model", (), {}))


def test_a_cache_of_no_size() -> None:
    with pytest.raises(ValueError, match="`cache_size` must be at least 1, found 0"):
        build(MODULE, cache_size=0)


def test_a_virtual_machine_runs_functions() -> None:
    executable = build(MODULE)
    for device in (None, "cpu", "llvm", jax.devices("cpu")[0], [jax.devices("cpu")[0]]):
        machine = VirtualMachine(executable, device)
        chex.assert_trees_all_close(machine["scale"](X, 2.0), X * 2)
        assert machine["scale"] is machine["scale"]


def test_a_virtual_machine_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match=r"has no function `scael`; .*did you mean `scale`"):
        VirtualMachine(build(MODULE))["scael"]
    match = "a virtual machine runs what `build` gives, found IRModule"
    with pytest.raises(TypeError, match=match):
        VirtualMachine(MODULE)  # type: ignore[arg-type]  # the mistake under test


def test_arrays_come_to_the_device() -> None:
    """Through a sharding, as the default device needs no transfer."""
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    result = build(MODULE, sharding)["scale"](X, 2.0)
    assert result.sharding == sharding
    chex.assert_trees_all_close(VirtualMachine(build(MODULE), sharding)["power"](2, 3.0), 9.0)


def test_a_profile() -> None:
    """By XLA's own account: one multiplication for each element."""
    machine = VirtualMachine(build(MODULE), profile=True)
    report = machine.profile("scale", X, 2.0)
    assert report.flops == 6
    assert report.argument_bytes >= 28
    assert report.output_bytes == 24
    assert report.seconds > 0
    assert str(report).startswith("scale: ")
    with pytest.raises(LoweringError, match="`power` runs operator by operator"):
        machine.profile("power", 5, 2.0)


def test_an_executable_is_what_build_gives() -> None:
    assert isinstance(build(MODULE), Executable)


@pytest.mark.parametrize("name", ["direct", "through_another"])
def test_the_sizes_of_a_call_decide_on_the_forms_of_operators(name: str) -> None:
    """A kernel larger than the image is multiplied on a CPU, where their sizes are known."""
    mod = parse_functions("""
    @R.function
    def direct(
        x: R.Tensor(("n", 2, "h", 5), "float32"), w: R.Tensor((3, 2, 7, 7), "float32")
    ):
        return R.nn.conv2d(x, w, padding=3)

    @R.function
    def through_another(
        x: R.Tensor(("n", 2, "h", 5), "float32"), w: R.Tensor((3, 2, 7, 7), "float32")
    ):
        return R.nn.relu(Module.direct(x, w))
    """)
    executable = build(mod)
    assert "L.conv_general_dilated" in executable.mod.script()
    w = np.ones((3, 2, 7, 7), "float32")
    for height in (3, 4):
        x = np.ones((1, 2, height, 5), "float32")
        text = executable[name].lowered([x, w]).as_text()
        assert "stablehlo.dot_general" in text
        assert "stablehlo.convolution" not in text
        inside = 2 * height * np.asarray([4, 5, 5, 5, 4], "float32")  # of the image, along a row
        expected = np.broadcast_to(inside, (1, 3, height, 5))
        chex.assert_trees_all_equal(executable[name](x, w), expected)


def test_an_executable_and_its_machine_show_what_they_run() -> None:
    executable = build(MODULE)
    machine = VirtualMachine(executable)
    assert repr(machine).startswith("VirtualMachine(")
    assert "scale" in repr(machine)
    page = executable._repr_html_()
    assert "<th>function</th><th>takes</th><th>gives</th>" in page
    assert "<td>scale</td>" in page
    assert "dtype=&quot;float32&quot;" in page
    assert machine._repr_html_() == page
