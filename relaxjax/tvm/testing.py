"""What tests written for TVM use: comparisons, parameters, and what there is to run on."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from relaxjax.ir.dims import Dim, can_prove_equal
from relaxjax.lowering import device

from . import testing_env as env
from .nd import unwrapped
from .testing_numbers import check_numerical_grads as check_numerical_grads
from .testing_numbers import generate_random_array as generate_random_array
from .testing_numbers import np_dtype_from_str as np_dtype_from_str

__all__ = [
    "assert_allclose",
    "assert_prim_expr_equal",
    "check_numerical_grads",
    "device_enabled",
    "enabled_targets",
    "env",
    "fixture",
    "generate_random_array",
    "identity_after",
    "is_ampere_or_newer",
    "main",
    "np_dtype_from_str",
    "parameter",
    "parameters",
    "requires_gpu",
    "requires_llvm",
    "skip_if_32bit",
    "strtobool",
    "terminate_self",
]


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raise an AssertionError unless two arrays are of one shape and close."""
    actual, desired = np.asanyarray(unwrapped(actual)), np.asanyarray(unwrapped(desired))
    assert actual.shape == desired.shape, f"the shapes are {actual.shape} and {desired.shape}"
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: Dim, rhs: Dim) -> None:
    """Raise a ValueError unless two sizes are known to be equal."""
    if not can_prove_equal(lhs, rhs):
        raise ValueError(f"{lhs} and {rhs} are not known to be equal")


def main() -> None:
    """Run the tests of the file that is run."""
    pytest = _pytest("main")
    sys.exit(pytest.main([sys.modules["__main__"].__file__, *sys.argv[1:]]))


def parameter(*values: Any, ids: Any = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A parameter of all tests of a file that take it, by the name that it is given."""
    if by_dict is not None:
        if values or ids:
            raise RuntimeError("`by_dict` gives the values and the ids: leave the others out")
        ids, values = list(by_dict), tuple(by_dict.values())

    def given(*_: Any, request: Any) -> Any:
        return request.param

    return _pytest("parameter").fixture(params=values, ids=ids, scope="session")(given)


def parameters(*rows: Sequence[Any], ids: Any = None) -> list[Any]:
    """Several parameters, of which each row gives the values that belong together."""
    return [parameter(*column, ids=ids) for column in zip(*rows, strict=True)]


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """A fixture of pytest; where its value is kept, it is made once a run."""
    scope = "session" if cache_return_value else "function"
    declare = _pytest("fixture").fixture(scope=scope)
    return declare if func is None else declare(func)


def device_enabled(target: Any) -> bool:
    """Whether programs for a target run here."""
    kind = str(target).split()[0]
    return any(kind == name and has() for name, has in _TARGETS.items())


def enabled_targets() -> list[tuple[str, jax.Device]]:
    """The targets that programs run on here, each with a device."""
    return [(name, device(name)) for name, has in _TARGETS.items() if has()]


def requires_llvm(*tests: Any) -> Any:
    """A test that runs on the CPU, which is always here."""
    return tests[0] if tests else requires_llvm


def requires_gpu(*tests: Any) -> Any:
    """A test that is skipped where there is no GPU."""
    mark = _pytest("requires_gpu").mark.skipif(not env.has_gpu(), reason="there is no GPU")
    return mark(tests[0]) if tests else mark


def skip_if_32bit(reason: str) -> Any:
    """A test that is skipped where Python is one of 32 bits."""
    narrow = sys.maxsize < 2**32
    return _pytest("skip_if_32bit").mark.skipif(narrow, reason=reason)


def is_ampere_or_newer() -> bool:
    """Whether there is a GPU of NVIDIA's of compute capability 8 or more, but for 8.9."""
    if not env.has_cuda():
        return False
    major, minor = map(int, jax.devices("cuda")[0].compute_capability.split("."))
    return major >= 8 and minor != 9


def identity_after(x: Any, sleep: float) -> Any:
    """`x`, some seconds later."""
    time.sleep(sleep)
    return x


def terminate_self() -> NoReturn:
    """End the process, with an exit code that says it failed."""
    sys.exit(-1)


def strtobool(text: str) -> bool:
    """Whether a text means yes."""
    word = text.lower()
    if word in ("y", "yes", "t", "true", "on", "1"):
        return True
    if word in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"`{text}` means neither yes nor no")


_TARGETS: dict[str, Callable[[], bool]] = {
    "llvm": env.has_llvm,
    "cuda": env.has_cuda,
    "rocm": env.has_rocm,
}


def _pytest(asking: str) -> Any:
    try:
        import pytest
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"`tvm.testing.{asking}` needs pytest: pip install pytest", name="pytest"
        ) from None
    return pytest
