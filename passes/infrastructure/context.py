"""The context in which passes run: which of them run at all, and who watches."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, TypeAlias

from relaxjax.ir.module import IRModule

from .config import OPTIONS, checked_config
from .hooks import allows, call_hook, checked_instruments, enter_all, exit_all
from .info import PassInfo, check_known, pass_names
from .pause_gc import collector_paused

# Called with the module, the pass, and whether this is before the pass.
Trace: TypeAlias = Callable[[IRModule, PassInfo, bool], object]


class PassContext:
    """Says which passes of a `Sequential` run, and what is called around every pass.

        with PassContext(opt_level=3, disabled_pass=["EliminateCommonSubexpr"]):
            mod = sequence(mod)

    A pass of a `Sequential` runs if it is not disabled, and is required or has an opt level of at
    most `opt_level`. A pass that is called directly always runs, unless an instrument vetoes it.

    Args:
        opt_level: the highest opt level of the passes that run.
        required_pass: names of passes that run whatever their opt level; no instrument vetoes them.
        disabled_pass: names of passes that do not run, not even required ones.
        instruments: objects whose hooks are called around every pass, see `pass_instrument`.
        config: settings for passes, by names that `PassContext.list_configs()` lists.
        trace: called as `trace(module, info, is_before)` before and after every pass.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Collection[str] | None = None,
        disabled_pass: Collection[str] | None = None,
        instruments: Iterable[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: Trace | None = None,
    ) -> None:
        if isinstance(opt_level, bool) or not isinstance(opt_level, int):
            raise TypeError(f"`opt_level` must be an int, found {opt_level!r}")
        if trace is not None and not callable(trace):
            raise TypeError(
                f"`trace` must be a function of (module, info, is_before), found {trace!r}"
            )
        self.opt_level = opt_level
        self.required_pass = pass_names("required_pass", required_pass)
        self.disabled_pass = pass_names("disabled_pass", disabled_pass)
        check_known("required_pass", self.required_pass)
        check_known("disabled_pass", self.disabled_pass)
        self.instruments = checked_instruments(instruments)
        self.config = checked_config(config)
        self.trace = trace

    def __repr__(self) -> str:
        given = {
            "opt_level": self.opt_level,
            "required_pass": sorted(self.required_pass),
            "disabled_pass": sorted(self.disabled_pass),
            "instruments": list(self.instruments),
            "config": dict(self.config),
            "trace": self.trace,
        }
        shown = {name: value for name, value in given.items() if name == "opt_level" or value}
        return f"PassContext({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @staticmethod
    def current() -> "PassContext":
        """The innermost context that is entered, else the default one of this thread."""
        return _entered()[-1]

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """The settings that `config` can hold: the type of each, and what it is for."""
        return {
            name: {"type": option.kind.__name__, "doc": option.doc}
            for name, option in OPTIONS.items()
        }

    def __enter__(self) -> "PassContext":
        enter_all(self.instruments)
        _stack.set((*_entered(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _stack.set(_entered()[:-1])
        exit_all(self.instruments)

    def override_instruments(self, instruments: Iterable[Any] | None) -> None:
        """Leave the instruments of this context and enter others in their place."""
        new = checked_instruments(instruments)
        active = self in _entered()
        old, self.instruments = self.instruments, ()
        if active:
            exit_all(old)
            enter_all(new)
        self.instruments = new

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a `Sequential` runs the pass in this context."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or info.opt_level <= self.opt_level

    def allows(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether no instrument vetoes the pass; a required pass cannot be vetoed."""
        if info.name in self.required_pass:
            return True
        # Every instrument is asked, also after a veto: some of them count.
        answers = [allows(instrument, mod, info) for instrument in self.instruments]
        return all(answers)

    def observed(self, mod: IRModule, info: PassInfo, run: Callable[[], IRModule]) -> IRModule:
        """The result of `run`, with the instruments and the trace called around it.

        Each instrument whose `run_before_pass` returned is told of the end, good or bad.
        """
        told: list[Any] = []
        instruments = self.instruments
        try:
            for instrument in instruments:
                call_hook(instrument, "run_before_pass", mod, info)
                told.append(instrument)
            if self.trace is not None:
                self.trace(mod, info, True)
            with collector_paused():
                result = run()
            if self.trace is not None:
                self.trace(result, info, False)
            while told:
                call_hook(told.pop(0), "run_after_pass", result, info)
            return result
        except BaseException as error:
            for instrument in told:
                call_hook(instrument, "run_failed_pass", mod, info, error)
            raise


def build_config(
    opt_level: int = 2,
    required_pass: Collection[str] | None = None,
    disabled_pass: Collection[str] | None = None,
    trace: Trace | None = None,
) -> PassContext:
    """A `PassContext`, under the name and with the arguments that Relay has for it."""
    return PassContext(opt_level, required_pass, disabled_pass, trace=trace)


_stack: ContextVar[tuple[PassContext, ...]] = ContextVar("pass_contexts")


def _entered() -> tuple[PassContext, ...]:
    """The contexts that are entered, the default one of this thread below them."""
    entered = _stack.get(None)
    if entered is None:
        entered = (PassContext(),)
        _stack.set(entered)
    return entered
