"""What a module knows beside its functions: the devices that its tensors may be on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .attrs import freeze
from .device_mesh import GlobalInfo as GlobalInfo
from .node import also_called, check_part
from .script_exprs import ScriptExprs
from .types import LISTED, device_name


@also_called(vdevice_id="device_id")
@dataclass(frozen=True, slots=True, repr=False)
class VDevice(GlobalInfo):
    """A device that values can be placed on, named or described, and the memory there."""

    target: Any
    device_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", freeze(self.target))
        wanted = (
            ("target", str | Mapping, 'a name such as "cuda", or a description'),
            ("device_id", int, "a number"),
            ("memory_scope", str, 'a name such as "global"'),
        )
        for name, kind, what in wanted:
            check_part(f"the `{name}` of a device", getattr(self, name), kind, what)

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
class DummyGlobalInfo(GlobalInfo):
    """A record that says nothing: a placeholder in the lists of a module."""

    def __repr__(self) -> str:
        return "I.dummy_global_info()"


_DEVICES: ContextVar[tuple[VDevice, ...]] = ContextVar("devices", default=())


@contextmanager
def devices_listed(infos: Sequence[Any]) -> Iterator[None]:
    """Inside, texts name the devices of this list of a module."""
    token = _DEVICES.set(tuple(info for info in infos if isinstance(info, VDevice)))
    try:
        yield
    finally:
        _DEVICES.reset(token)


def named_device(text: str) -> str:
    """The full name of the device that a text means.

    "vdevice:1" is the second one in the list of the module that is being read. "cuda:1" is what is
    so called; where the list has no such device, the second one of its kind there.
    """
    devices = _DEVICES.get()
    kind, *rest = text.split(":")
    if kind == LISTED and devices:
        return _at(devices, text, rest)
    name = device_name(text)
    same = [device.name for device in devices if device.name.partition(":")[0] == kind]
    place = int(name.split(":")[1])
    return same[place] if name not in same and place < len(same) else name


def _at(devices: Sequence[VDevice], text: str, rest: Sequence[str]) -> str:
    place = rest[0] if rest else "0"
    if not place.isdecimal() or int(place) >= len(devices):
        raise ValueError(f'"{text}" is none of the {len(devices)} devices that the module lists')
    return devices[int(place)].name
