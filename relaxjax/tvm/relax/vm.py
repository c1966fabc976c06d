"""The virtual machine, which takes and gives arrays as TVM has them, and times its calls."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from relaxjax.ir.expr import Var
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.lowering import ProfileReport
from relaxjax.lowering import VirtualMachine as RelaxjaxVirtualMachine
from relaxjax.lowering import build as build
from relaxjax.training.inputs import with_dtype
from relaxjax.tvm.nd import unwrapped, wrapped


@dataclass(frozen=True)
class BenchmarkResult:
    """The seconds that one call took, on the average of each repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        figures = {name: getattr(self, name) for name in ("mean", "median", "max", "min", "std")}
        return ", ".join(f"{name} {value * 1e3:.4f} ms" for name, value in figures.items())


def measured(
    call: Callable[[], Any], number: int, repeat: int, min_repeat_ms: float
) -> BenchmarkResult:
    """Call `number` times, `repeat` times over, after one call that may compile.

    The calls of a repetition become more until it takes `min_repeat_ms`.
    """
    for name, value in (("number", number), ("repeat", repeat)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1, found {value}")
    _seconds(call, 1)
    results: list[float] = []
    while len(results) < repeat:
        seconds = _seconds(call, number)
        if seconds * 1e3 < min_repeat_ms:
            number *= 2
        else:
            results.append(seconds / number)
    return BenchmarkResult(tuple(results))


def _seconds(call: Callable[[], Any], number: int) -> float:
    """How long some calls take, until their results are there."""
    start = time.perf_counter()
    result = None
    for _ in range(number):
        result = call()
    jax.block_until_ready(unwrapped(result))
    return time.perf_counter() - start


class VirtualMachine(RelaxjaxVirtualMachine):
    """Runs the functions of an executable: `vm["f"](*args)` gives arrays with `.numpy()`.

    An array of another dtype than the function takes is converted if that loses nothing, as labels
    often come in float32 from a data loader.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    def set_input(self, name: str, *args: Any) -> None:
        """Keep the arguments of a function for `invoke_stateful`."""
        self.compiled(name)  # an error where there is no such function
        self._inputs[name] = args

    def invoke_stateful(self, name: str) -> None:
        """Call a function with the arguments that `set_input` keeps, and keep its result."""
        if name not in self._inputs:
            raise ValueError(
                f'`{name}` has no arguments yet: call `set_input("{name}", ...)` first'
            )
        self._outputs[name] = self[name](*self._inputs[name])

    def get_outputs(self, name: str) -> Any:
        """What `invoke_stateful` computed last."""
        if name not in self._outputs:
            raise ValueError(f'`{name}` was not run: call `invoke_stateful("{name}")` first')
        return self._outputs[name]

    def time_evaluator(
        self,
        func_name: str,
        dev: Any,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **of_the_device: Any,
    ) -> Callable[..., BenchmarkResult]:
        """What measures a function: it takes its arguments, and gives the seconds of a call.

        For "invoke_stateful" it takes the name of the function whose arguments `set_input` keeps.

        Args:
            func_name: the function.
            dev: the device; the function runs where its arguments and the executable are.
            number: the calls of a repetition.
            repeat: the repetitions.
            min_repeat_ms: how long a repetition takes at least.
            of_the_device: pauses and caches, which are as they are here.
        """

        def evaluate(*args: Any) -> BenchmarkResult:
            if func_name != "invoke_stateful":
                run = self[func_name]
                return measured(lambda: run(*args), number, repeat, min_repeat_ms)
            (name,) = args

            def kept() -> Any:
                self.invoke_stateful(name)
                return self.get_outputs(name)

            return measured(kept, number, repeat, min_repeat_ms)

        return evaluate

    def profile(self, name: str, *args: Any) -> ProfileReport:
        """Compile and run a function once, and say what it costs."""
        compiled = self.compiled(name)
        with compiled.context():
            return super().profile(name, *_given(compiled.function.params, args))

    def __getitem__(self, name: str) -> Any:
        compiled = self.compiled(name)

        def run(*args: Any) -> Any:
            with compiled.context():
                return wrapped(compiled(*_given(compiled.function.params, args)))

        return run


def _given(params: Sequence[Var], args: Sequence[Any]) -> list[Any]:
    """The arguments without the wrapping of TVM's arrays, in the dtypes of their parameters."""
    given = list(map(unwrapped, args))
    return [*map(_fitting, params, given), *given[len(params) :]]


def _fitting(param: Var, value: Any) -> Any:
    known = known_dtype(param) is not None
    return with_dtype("argument", param, value) if known else value
