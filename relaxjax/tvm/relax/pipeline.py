"""Pipelines by the names that TVM has for them."""

from typing import Any

from relaxjax.passes import Pass, standard_pipeline

_NAMES = ("zero", "default", "default_build")


def get_pipeline(name: str = "zero") -> Pass:
    """The standard passes: TVM's pipelines lower a program further, which `build` does here."""
    if name not in _NAMES:
        raise ValueError(f"there is no pipeline `{name}`; there are: {', '.join(_NAMES)}")
    return standard_pipeline()


def get_default_pipeline(target: Any = None) -> Pass:
    """The standard passes, whatever the target: `build` knows what a device needs."""
    return standard_pipeline()


def default_build_pipeline() -> Pass:
    """The standard passes."""
    return standard_pipeline()


def zero_pipeline() -> Pass:
    """The standard passes."""
    return standard_pipeline()
