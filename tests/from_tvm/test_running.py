"""Building, targets, packed functions and arrays with the calls that TVM has for them."""

import re
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import relaxjax.tvm
from relaxjax.ops.packed import PACKED
from relaxjax.tvm.relax.vm import measured

tvm: Any = relaxjax.tvm  # whose names are those of the table
relax: Any = tvm.relax
MODULE = tvm.script.from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        y = R.call_pure_packed("tests.own", x, w, ty_args=R.Tensor((2,), "float32"))
        z = R.call_dps_packed("tests.fill", (y, w), out_ty=R.Tensor((2,), "float32"))
        return z
""")


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    def own(x: Any, w: Any) -> Any:
        return tvm.runtime.tensor(2 * x.numpy() + w.numpy())

    def fill(y: Any, w: Any, out: Any) -> None:
        out.copyfrom(y.numpy() * w.numpy())

    tvm.register_global_func("tests.own")(own)
    tvm.register_global_func("tests.fill", fill)
    assert tvm.get_global_func("tests.fill") is fill
    yield
    PACKED.pop("tests.own")
    PACKED.pop("tests.fill")


def test_packed_functions_get_and_give_arrays_of_tvm() -> None:
    vm = relax.VirtualMachine(relax.build(MODULE, "llvm"), tvm.cpu())
    one, two = np.ones(2, "float32"), np.full(2, 2, "float32")
    np.testing.assert_array_equal(vm["main"](one, two).numpy(), [8, 8])


def test_packed_functions_by_their_own_names() -> None:
    def tests_named(x: Any) -> Any:
        return x

    tvm.register_global_func(tests_named)
    assert tvm.get_global_func("tests_named") is tests_named
    with pytest.raises(ValueError, match="`tests_named` is registered already: pass override=True"):
        tvm.register_global_func("tests_named", tests_named)
    tvm.register_global_func("tests_named", print, override=True)
    PACKED.pop("tests_named")
    assert tvm.get_global_func("tests_named", allow_missing=True) is None
    with pytest.raises(ValueError, match="no packed function `tests_named` is registered"):
        tvm.get_global_func("tests_named")


def test_options_of_building() -> None:
    bound = relax.transform.BindParams("main", {"w": np.zeros(2, "float32")})
    for build in (relax.build, tvm.compile):
        built = build(MODULE, "llvm", relax_pipeline=bound, exec_mode="compiled")
        vm = relax.VirtualMachine(built, tvm.cpu())
        np.testing.assert_array_equal(vm["main"](np.ones(2, "float32")).numpy(), [0, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"params": {"w": 1}}, r"`params` are not linked .* by `relax.transform.BindParams\("),
        ({"exec_mode": "fast"}, "`exec_mode` is one of bytecode, compiled, found 'fast'"),
    ],
)
def test_options_of_building_that_are_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        relax.build(MODULE, "llvm", **options)


def test_calls_are_counted_as_they_are_measured() -> None:
    calls: list[Any] = []

    def noted(x: Any) -> Any:
        calls.append(x)
        return x

    tvm.register_global_func("tests.noted", noted, override=True)
    mod = tvm.script.from_source("""
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        y = R.call_packed("tests.noted", x, ty_args=R.Tensor((2,), "float32"))
        return y
""")
    vm = relax.VirtualMachine(tvm.compile(mod), tvm.cpu())
    one = np.ones(2, "float32")
    found = vm.time_evaluator("main", tvm.cpu(), number=3, repeat=2)(one)
    assert (len(calls), len(found.results)) == (1 + 3 * 2, 2)
    assert found.min <= found.mean == found.median <= found.max
    assert re.fullmatch(r"(\w+ [\d.]+ ms(, )?){5}", str(found))
    assert found.std >= 0
    vm.set_input("main", one)
    vm.time_evaluator("invoke_stateful", tvm.cpu(), number=1, min_repeat_ms=1e-9)("main")
    assert len(calls) == 9
    with pytest.raises(ValueError, match="`number` must be at least 1, found 0"):
        vm.time_evaluator("main", tvm.cpu(), number=0)(one)
    PACKED.pop("tests.noted")


def test_repetitions_take_as_long_as_they_are_to() -> None:
    found = measured(lambda: time.sleep(0.001), number=1, repeat=1, min_repeat_ms=3)
    assert len(found.results) == 1


def test_there_are_no_libraries_of_machine_code() -> None:
    with pytest.raises(AttributeError, match=r'`relaxjax.lowering.export\(mod, "x.so"\)` writes'):
        relax.build(MODULE).export_library("x.so")


def test_targets_have_hosts_and_kinds() -> None:
    target = tvm.target.Target("llvm -mcpu=generic", host="llvm")
    assert target.kind.name == "llvm"
    assert tvm.device_from_target(target) == jax.devices("cpu")[0]


def test_arrays_are_filled_and_copied() -> None:
    host = tvm.runtime.empty((2, 3), "int32")
    assert (host.numpy().sum(), host.dtype, host.device) == (0, "int32", None)
    host.copyfrom(np.arange(6).reshape(2, 3))
    there = host.copyto(tvm.cpu())
    assert there.device == jax.devices("cpu")[0]
    there.copyfrom(np.ones((2, 3), "int32"))
    assert (int(host.numpy().sum()), int(there.numpy().sum())) == (15, 6)
    there.copyto(host)
    assert isinstance(there.data, jnp.ndarray)
    assert int(host.numpy().sum()) == 6


def test_closeness() -> None:
    tvm.testing.assert_allclose(tvm.runtime.tensor([1.0]), np.array([1.0 + 1e-9]), rtol=1e-6)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        tvm.testing.assert_allclose(np.ones(2), np.zeros(2))
    with pytest.raises(AssertionError, match=r"the shapes are \(2,\) and \(1,\)"):
        tvm.testing.assert_allclose(np.ones(2), np.ones(1))


def test_what_there_is_to_run_on() -> None:
    env, testing = tvm.testing.env, tvm.testing
    assert env.has_llvm()
    assert testing.device_enabled("llvm -mcpu=generic")
    assert ("llvm", jax.devices("cpu")[0]) in testing.enabled_targets()
    assert not env.has_vulkan()
    assert not env.has_cpu_feature("avx512f")
    assert env.has_gpu() == (env.has_cuda() or env.has_rocm())
    assert testing.device_enabled("cuda") == env.has_cuda()
    assert not env.has_multi_gpu(1000)
    with pytest.raises(AttributeError, match=r"relaxjax has no `tvm.testing.env.cuda_arch`"):
        env.cuda_arch  # noqa: B018
    assert testing.strtobool("Yes")
    assert not testing.strtobool("off")
    with pytest.raises(ValueError, match="`perhaps` means neither yes nor no"):
        testing.strtobool("perhaps")


size = tvm.testing.parameter(1, 2)
name = tvm.testing.parameter(by_dict={"long": "x" * 9, "short": "x"})
low, high = tvm.testing.parameters((1, 2), (3, 4))


def of_size(size: int) -> list[int]:
    return [size]


made = tvm.testing.fixture(cache_return_value=True)(of_size)


def test_parameters_by_name(size: int, name: str, made: list[int], request: Any) -> None:
    assert size in (1, 2)
    assert made == [size]
    assert ("long" in request.node.name) == (len(name) == 9)


def test_tests_are_skipped_where_there_is_no_gpu() -> None:
    def needs_a_gpu() -> None:
        pass

    assert tvm.testing.requires_llvm(needs_a_gpu) is tvm.testing.requires_llvm()(needs_a_gpu)
    marked = tvm.testing.requires_gpu(needs_a_gpu)
    assert tvm.testing.requires_gpu()(needs_a_gpu) is marked
    (mark, _) = marked.pytestmark
    assert (mark.name, mark.args) == ("skipif", (not tvm.testing.env.has_gpu(),))


def test_a_parameter_is_given_in_one_way() -> None:
    with pytest.raises(RuntimeError, match="`by_dict` gives the values and the ids"):
        tvm.testing.parameter(1, by_dict={"a": 1})
