"""The `I` of a script: modules, and what they know beside their functions."""

from collections.abc import Mapping as _Mapping
from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from relaxjax.ir.device_mesh import GlobalInfo as _GlobalInfo
from relaxjax.ir.global_info import DummyGlobalInfo as dummy_global_info
from relaxjax.ir.global_info import VDevice as vdevice
from relaxjax.ir.op import get_op as Op
from relaxjax.ir.types import ObjectType as StringType

from .decorators import ModuleDecorator as _ModuleDecorator
from .forms import Module
from .forms import ModuleAttrs as _ModuleAttrs
from .forms import ModuleInfos as _ModuleInfos
from .namespace import unknown_member as _unknown_member
from .operators import bounded_range as _bounded_range
from .written import written_attrs as _written_attrs

__all__ = [
    "Module",
    "Op",
    "Range",
    "StringType",
    "dummy_global_info",
    "ir_module",
    "module_attrs",
    "module_global_infos",
    "vdevice",
]

ir_module = _ModuleDecorator()


def Range(begin: int, end: int | None = None) -> range:
    """The integers from `begin` up to `end`, or up to `begin` from 0: `I.Range(0, 2)`."""
    return _bounded_range(begin) if end is None else _bounded_range(begin, end)


def module_attrs(attrs: _Mapping[str, _Any]) -> _ModuleAttrs:
    """Give attributes to the module: `I.module_attrs({"param_num": 6})`."""
    return _ModuleAttrs(_written_attrs("I.module_attrs", attrs))


def module_global_infos(infos: _Mapping[str, _Sequence[_Any]]) -> _ModuleInfos:
    """Give the module records: `I.module_global_infos({"vdevice": [I.vdevice("cuda")]})`."""
    if not isinstance(infos, _Mapping):
        raise TypeError(f"`I.module_global_infos` takes a dictionary, but `{infos!r}` was given")
    for name, records in infos.items():
        if not isinstance(name, str):
            raise TypeError(
                f"the names of `I.module_global_infos` are strings, but `{name!r}` was given"
            )
        if not isinstance(records, list | tuple):
            raise TypeError(f"`{name}` of `I.module_global_infos` must be a list of records")
        for record in records:
            if not isinstance(record, _GlobalInfo):
                raise TypeError(
                    f"`{name}` of `I.module_global_infos` lists `{record!r:.80}` of type "
                    f"{type(record).__name__}, which is no record such as I.vdevice"
                )
    return _ModuleInfos({name: tuple(records) for name, records in infos.items()})


def __getattr__(name: str) -> _Any:
    raise _unknown_member("I", name, globals())
