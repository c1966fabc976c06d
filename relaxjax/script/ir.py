"""The `I` of a script: modules, and what they know beside their functions."""

from collections.abc import Mapping as _Mapping
from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from relaxjax.ir.attrs import Attrs as _Attrs
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
    if not isinstance(attrs, _Mapping):
        raise TypeError(f"`I.module_attrs` takes a dictionary, but `{attrs!r}` was given")
    return _ModuleAttrs(_Attrs(attrs))


def module_global_infos(infos: _Mapping[str, _Sequence[_Any]]) -> _ModuleInfos:
    """Give the module records: `I.module_global_infos({"vdevice": [I.vdevice("cuda")]})`."""
    if not isinstance(infos, _Mapping):
        raise TypeError(f"`I.module_global_infos` takes a dictionary, but `{infos!r}` was given")
    for name, records in infos.items():
        if not isinstance(records, list | tuple):
            raise TypeError(f"`{name}` of `I.module_global_infos` must be a list of records")
    return _ModuleInfos({name: tuple(records) for name, records in infos.items()})


def __getattr__(name: str) -> _Any:
    raise _unknown_member("I", name, globals())
