"""The settings that a pass context can carry for its passes."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import quoted


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """A setting by its name, with the type of its values."""

    name: str
    kind: type
    doc: str


OPTIONS: dict[str, ConfigOption] = {}


def register_config(name: str, kind: type, doc: str) -> ConfigOption:
    """Let contexts carry a setting called `name`, which no other setting may take."""
    option = ConfigOption(name, kind, doc)
    former = OPTIONS.setdefault(name, option)
    if former != option:
        raise ValueError(
            f"the config option `{name}` is registered already, of type {former.kind.__name__}: "
            f"{former.doc}; give the other one another name"
        )
    return former


def checked_config(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """`config`, every name known and every value of the right type."""
    for name, value in (config or {}).items():
        if name not in OPTIONS:
            raise ValueError(
                f"there is no config option `{name}`{did_you_mean(name, list(OPTIONS))}: there "
                f"{f'are {quoted(OPTIONS)}' if OPTIONS else 'are none'}, and each pass takes "
                "its options as arguments"
            )
        kind = OPTIONS[name].kind
        if not _fits(value, kind):
            raise TypeError(
                f"the config option `{name}` must be of type {kind.__name__}, found {value!r}"
            )
    return MappingProxyType(dict(config or {}))


def _fits(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)
