"""Things with members that a script may name: the vocabulary, families of operators, a module."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from relaxjax.ir.expr import GlobalVar
from relaxjax.ir.op import OPS
from relaxjax.ir.registry import did_you_mean
from relaxjax.ops import SUGAR  # which enters the operators into the table, too


class Members(ABC):
    """Something whose members an expression reaches by a dot, and nothing else of it."""

    __slots__ = ()

    @abstractmethod
    def member(self, name: str) -> Any:
        """The member of that name; an `AttributeError` where there is none."""


class Vocabulary(Members):
    """The public names of a Python module, or of a table, as a text sees them."""

    __slots__ = ("_members", "_name")

    def __init__(self, name: str, members: ModuleType | Mapping[str, Any]) -> None:
        self._name = name
        self._members = members

    def member(self, name: str) -> Any:
        if isinstance(self._members, ModuleType) and not name.startswith("_"):
            return getattr(self._members, name)
        found = self.get(name)
        if found is None:
            raise unknown_member(self._name, name, ())
        return found

    def get(self, name: str) -> Any:
        """The member of that name in a table, None where there is none."""
        return None if isinstance(self._members, ModuleType) else self._members.get(name)

    def __repr__(self) -> str:
        return self._name


# Names of TVM that have no place here, with what does their work.
_NO_TENSOR_IR = "there are no TensorIR functions; R.call_pure_packed calls a Python function"
_NO_MACHINE = "XLA allots memory, and runs programs, by itself"
_ELSEWHERE = {
    "R.fft": "JAX has it as L.fft",
    "R.call_tir": _NO_TENSOR_IR,
    "R.call_tir_inplace": _NO_TENSOR_IR,
    "R.call_tir_with_grad": _NO_TENSOR_IR,
    "R.emit_te": _NO_TENSOR_IR,
    "R.call_builtin_with_ctx": _NO_MACHINE,
    "R.builtin.alloc_tensor": _NO_MACHINE,
    **{
        f"R.memory.{name}": _NO_MACHINE
        for name in (
            "alloc_storage",
            "alloc_tensor",
            "ensure_zero_offset",
            "kill_storage",
            "kill_tensor",
            "view",
        )
    },
    "R.vm": _NO_MACHINE,
    "T.prim_func": "there are no TensorIR functions; print the program before TVM's LegalizeOps, "
    "which its SetupTrainer ends with, too",
    "T.truncdiv": "T.floordiv is the same where nothing is negative",
    "T.truncmod": "T.floormod is the same where nothing is negative",
    "I.pyfunc": "R.call_pure_packed calls a Python function",
}


class NoPlaceError(AttributeError):
    """A name of TVM that has no place here."""


def unknown_member(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that is not among the known ones; near misses are suggested."""
    public = [item for item in known if not item.startswith("_")]
    full = f"{owner}.{name}"
    near = did_you_mean(name, public, f"{owner}.")
    if full in _ELSEWHERE:
        return NoPlaceError(f"there is no `{full}`: {_ELSEWHERE[full]}")
    return AttributeError(f"there is no `{full}`{near}")


class Operators(Members):
    """The operators below a name, such as `R.nn` or `L`."""

    __slots__ = ("_families", "_more", "_prefix", "_script")

    def __init__(self, prefix: str, script: str, more: Mapping[str, Any] | None = None) -> None:
        self._prefix = prefix
        self._script = script
        self._more = more or {}
        self._families: dict[str, Operators] = {}

    def member(self, name: str) -> Any:
        """An operator, or a family of operators; near misses are suggested for anything else."""
        full = f"{self._prefix}.{name}"
        if full in OPS or full in SUGAR:
            return SUGAR.get(full) or OPS[full]
        if name.startswith("_"):
            raise unknown_member(self._script, name, ())
        if name not in self._families and any(known.startswith(f"{full}.") for known in OPS):
            self._families[name] = Operators(full, f"{self._script}.{name}")
        if name in self._families:
            return self._families[name]
        start = f"{self._prefix}."
        names = [op.removeprefix(start) for op in (*OPS, *SUGAR) if op.startswith(start)]
        raise unknown_member(self._script, name, [*names, *self._more])

    __getattr__ = member

    def __repr__(self) -> str:
        return self._script

    def __dir__(self) -> list[str]:
        """What lies right below the name, for whoever completes it."""
        start = f"{self._prefix}."
        below = (op.removeprefix(start) for op in (*OPS, *SUGAR) if op.startswith(start))
        return sorted({*self._more, *(name.partition(".")[0] for name in below)})


class FunctionsOf(Members):
    """The module that is being read, by which its functions name one another: `cls.g`."""

    __slots__ = ("_find", "_name")

    def __init__(self, name: str, find: Callable[[str], GlobalVar]) -> None:
        self._name = name
        self._find = find

    def member(self, name: str) -> GlobalVar:
        return self._find(name)

    def __repr__(self) -> str:
        return self._name
