"""Python functions from outside: given as arguments, or called by name."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_functions

from relaxjax import build, to_jax, to_python
from relaxjax.lowering import ArgumentError, LoweringError, VirtualMachine
from relaxjax.ops.packed import PACKED, TRACEABLE, register_packed
from relaxjax.tvm.nd import NDArray
from relaxjax.tvm.relax.vm import VirtualMachine as TvmMachine

MODULE = parse_functions("""
@R.function(pure=False)
def twice(cb: R.Callable([], R.Tensor([3], "int32"))):
    y = cb()
    return y + y

@R.function(pure=False)
def applied(x: R.Tensor(("n",), "int32"), cb: R.Callable([R.Tensor], R.Tensor(("n",), "int32"))):
    y = cb(x)
    return y

@R.function(pure=False)
def from_a_tuple(t: R.Tuple(R.Callable([], R.Tensor((), "int32")), R.Tensor((), "int32"))):
    cb = t[0]
    y = cb()
    z = t[1]
    return y + z

@R.function(pure=False)
def looped(x: R.Tensor((), "int32"), cb: R.Callable([R.Tensor], R.Tensor((), "int32"))):
    @R.function
    def body(carry: R.Tensor((), "int32"), i: R.Tensor((), "int32")):
        z = cb(i)
        return (carry + z, z)

    y = R.scan(body, x, R.const([10, 20, 30], "int32"))
    return y

@R.function(pure=False)
def looped_directly(
    cb: R.Callable(
        [R.Tensor((), "int32"), R.Tensor((), "int32")],
        R.Tuple(R.Tensor((), "int32"), R.Tensor((), "int32")),
    )
):
    y = R.scan(cb, R.const(0, "int32"), R.const([1, 2], "int32"))
    return y

@R.function(pure=False)
def chosen(x: R.Tensor((2,), "int32"), cb: R.Callable([R.Tensor], R.Tensor((2,), "int32"))):
    @R.function
    def body(carry: R.Tensor((2,), "int32"), i: R.Tensor((), "int32")):
        if R.equal(i, R.const(1, "int32")):
            z = cb(carry)
        else:
            z = carry
        return (z, R.tuple())

    y = R.scan(body, x, R.const([0, 1, 0, 1], "int32"))
    y0 = y[0]
    return y0

@R.function(pure=False)
def unknown(x: R.Tensor((), "int32"), cb: R.Callable([R.Tensor], R.Tensor)):
    @R.function
    def body(carry: R.Tensor((), "int32"), i: R.Tensor((), "int32")):
        z = cb(i)
        return (carry, z)

    y = R.scan(body, x, R.const([10, 20], "int32"))
    return y

@R.function(pure=False)
def by_name(x: R.Tensor((), "int32")):
    y = R.call_packed("tests.host", x, ty_args=R.Tensor((), "float32"))
    return y

@R.function(pure=False)
def by_name_in_a_loop(x: R.Tensor((), "int32")):
    @R.function(pure=False)
    def body(carry: R.Tensor((), "int32"), i: R.Tensor((), "int32")):
        z = R.call_packed("tests.host", i, ty_args=R.Tensor((), "int32"))
        return (carry + z, z)

    y = R.scan(body, x, R.const([1, 2, 3], "int32"))
    return y

@R.function
def adder(
    x: R.Tensor((2,), "float32")
) -> R.Callable([R.Tensor((2,), "float32")], R.Tensor((2,), "float32")):
    @R.function
    def add(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, y)
    return add

@R.function
def taking(
    f: R.Callable([R.Tensor((2,), "float32")], R.Tensor((2,), "float32")),
    x: R.Tensor((2,), "float32"),
):
    y = f(x)
    return y * y
""")


class Counting:
    """Adds to each argument how often it was called, and remembers what it was called with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, *args: Any) -> Any:
        self.seen.append(args)
        count = len(self.seen)
        return args[0] + count if args else np.full((3,), count, "int32")

    @property
    def numbers(self) -> list[int]:
        return [int(args[0]) for args in self.seen]


@contextmanager
def registered(function: Callable[..., Any], **options: Any) -> Iterator[None]:
    register_packed("tests.host", **options)(function)
    try:
        yield
    finally:
        PACKED.pop("tests.host")
        TRACEABLE.discard("tests.host")


def machine() -> VirtualMachine:
    return VirtualMachine(build(MODULE))


@pytest.fixture(params=["vm", "to_jax"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    vm = machine()
    if request.param == "vm":
        return lambda name, *args: vm[name](*args)
    return lambda name, *args: to_jax(MODULE, name)(*args)


def test_a_function_that_is_given_is_called_at_each_run(run: Callable[..., Any]) -> None:
    count = Counting()
    assert [run("twice", count).tolist() for _ in range(3)] == [[2] * 3, [4] * 3, [6] * 3]
    assert len(count.seen) == 3


def test_it_is_given_values(run: Callable[..., Any]) -> None:
    count = Counting()
    for size in (2, 3):
        np.testing.assert_array_equal(run("applied", np.ones(size, "int32"), count)[0], size)
    assert all(isinstance(np.asarray(x), np.ndarray) for (x,) in count.seen)
    assert run("from_a_tuple", (lambda: 4, 3)) == 7


def test_in_a_loop_it_is_called_at_each_step(run: Callable[..., Any]) -> None:
    count = Counting()
    for start in (0, 3):
        total, each = run("looped", 0, count)
        expected = [10 + start + 1, 20 + start + 2, 30 + start + 3]
        assert (each.tolist(), int(total)) == (expected, sum(expected))
    assert count.numbers == [10, 20, 30, 10, 20, 30]


def test_it_may_be_the_body_of_a_loop(run: Callable[..., Any]) -> None:
    seen = []

    def body(carry: Any, x: Any) -> Any:
        seen.append(int(x))
        return np.asarray(carry + x), np.int32(len(seen))

    assert jax.tree.map(lambda leaf: leaf.tolist(), run("looped_directly", body)) == (3, [1, 2])
    assert seen == [1, 2]


def test_in_a_branch_it_is_called_where_that_is_taken(run: Callable[..., Any]) -> None:
    count = Counting()
    assert run("chosen", np.zeros(2, "int32"), count).tolist() == [3, 3]
    assert len(count.seen) == 2


def test_in_a_loop_the_type_of_its_result_must_be_known(run: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match="`cb`, a Python function, is called in a loop or a"):
        run("unknown", 0, Counting())


def test_its_result_is_of_the_declared_type(run: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match="the result of `cb` must be of dtype int32, found fl"):
        run("twice", lambda: np.zeros(3, "float32"))
    with pytest.raises(ArgumentError, match="dimension 0 of the result of `cb` must be 3, found 2"):
        run("twice", lambda: np.zeros(2, "int32"))
    with pytest.raises(ArgumentError, match="the result of `cb` must be a tensor, found 'a'"):
        run("twice", lambda: "a")
    wrong = pytest.raises(ArgumentError, match=r"result of `tests\.host` must be of dtype float32")
    with registered(lambda x: np.zeros((), "int32")), wrong:
        run("by_name", 1)


def test_its_numbers_become_tensors(run: Callable[..., Any]) -> None:
    with registered(lambda x: 3):
        result = run("by_name", 1)
    assert (result.dtype, float(result)) == ("float32", 3.0)


def test_one_with_effects_that_is_called_by_name_is_called_at_each_step(
    run: Callable[..., Any],
) -> None:
    count = Counting()
    with registered(count):
        assert run("by_name_in_a_loop", 0)[1].tolist() == [2, 4, 6]
    assert count.numbers == [1, 2, 3]


def test_one_that_jax_can_trace_is_a_part_of_the_program() -> None:
    count = Counting()
    with registered(count, traceable=True):
        vm = machine()
        for _ in range(2):
            assert vm["by_name_in_a_loop"](0)[1].tolist() == [2, 3, 4]
    assert len(count.seen) == 1


def test_a_function_of_the_program_is_traced_wherever_it_comes_from() -> None:
    x = np.ones(2, "float32")
    vm = machine()
    assert vm["taking"](vm["adder"](x), x).tolist() == [4.0, 4.0]
    assert jax.grad(lambda x: to_jax(MODULE, "taking")(jnp.sin, x).sum())(x).tolist() == (
        pytest.approx([2 * np.sin(1) * np.cos(1)] * 2)
    )


def test_a_program_that_calls_one_has_no_profile() -> None:
    with pytest.raises(LoweringError, match="`twice` runs operator by operator"):
        machine().profile("twice", Counting())


def test_plain_jax_calls_it_at_each_run() -> None:
    plain: dict[str, Any] = {}
    exec(to_python(MODULE, "twice"), plain)
    count = Counting()
    assert [plain["twice"](count).tolist() for _ in range(2)] == [[2] * 3, [4] * 3]


def test_tvm_s_functions_take_and_give_tvm_s_arrays() -> None:
    def cb(x: NDArray) -> NDArray:
        return NDArray(x.numpy() + 1)

    vm = TvmMachine(build(MODULE))
    assert vm["applied"](np.ones(2, "int32"), cb).numpy().tolist() == [2, 2]
    assert vm["looped"](0, cb)[1].numpy().tolist() == [11, 21, 31]
    assert vm["taking"](vm["adder"](np.ones(2, "float32")), np.ones(2, "float32")).numpy()[0] == 4


FILLING = parse_functions("""
@R.function
def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
    n = T.int64()
    y = R.call_dps_packed("tests.host", (x,), out_ty=R.Tensor((n + 1,), "float32"))
    if c:
        z = R.call_dps_packed("tests.host", (y,), out_ty=R.Tensor((n + 2,), "float32"))
        w = R.sum(z)
    else:
        w = R.sum(y)
    return (y, w)

@R.function
def several(x: R.Tensor((2,), "float32")):
    y = R.call_dps_packed(
        "tests.host", x, out_ty=[R.Tensor((2,), "float32"), R.Tensor((3,), "int32")]
    )
    return y

@R.function
def unknown(x: R.Tensor((2,), "float32")):
    y = R.call_dps_packed("tests.host", (x,), out_ty=R.Tensor("float32", ndim=1))
    return y
""")


def counted(x: Any, *filled: Any) -> None:
    for array in filled:
        array[:] = np.arange(len(array)) + np.asarray(x).sum()


def test_a_function_fills_the_arrays_that_it_gets() -> None:
    x = np.ones(2, "float32")
    with registered(counted):
        vm = VirtualMachine(build(FILLING))
        for c, total in ((True, 4 * 9 + 6), (False, 9)):
            for run in (vm["main"], to_jax(FILLING, "main"), jax.jit(to_jax(FILLING, "main"))):
                y, w = run(x, c)
                np.testing.assert_array_equal(y, [2, 3, 4])
                assert float(w) == total
        first, second = vm["several"](x)
    np.testing.assert_array_equal(first, [2, 3])
    np.testing.assert_array_equal(second, [2, 3, 4])


def test_the_size_of_what_is_filled_must_be_known() -> None:
    with (
        registered(counted),
        pytest.raises(
            ArgumentError,
            match=r"`tests.host` writes its result into an array, .*, ndim=1\): declare its shape",
        ),
    ):
        VirtualMachine(build(FILLING))["unknown"](np.ones(2, "float32"))


def test_a_function_that_only_acts_returns_nothing() -> None:
    mod = parse_functions("""
@R.function(pure=False)
def telling(x: R.Tensor((), "int32"), cb: R.Callable([R.Tensor], R.Tuple(), False)):
    cb(x)
    return x
""")
    told: list[int] = []
    VirtualMachine(build(mod))["telling"](np.int32(3), lambda x: told.append(int(x)))
    assert told == [3]
