"""What a module knows beside its functions: the devices that its tensors may be on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .attrs import freeze
from .script_exprs import ScriptExprs
from .types import device_name


@dataclass(frozen=True, slots=True, repr=False)
class VDevice:
    """A device that values can be placed on, named or described, and the memory there."""

    target: Any
    device_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", freeze(self.target))

    @property
    def name(self) -> str:
        """The device as types name it: `cuda:0:global`."""
        described = isinstance(self.target, Mapping)
        kind = self.target.get("kind", "") if described else str(self.target)
        return device_name(f"{str(kind).partition(' ')[0]}:{self.device_id}:{self.memory_scope}")

    def __repr__(self) -> str:
        values = (self.target, self.device_id, self.memory_scope)
        text = ", ".join(map(ScriptExprs("cls", syntax_sugar=True).value_text, values))
        return f"I.vdevice({text})"


@dataclass(frozen=True, slots=True, repr=False)
class DummyGlobalInfo:
    """A record that says nothing: a placeholder in the lists of a module."""

    def __repr__(self) -> str:
        return "I.dummy_global_info()"
