"""Pipelines by the names that TVM has for them."""

from relaxjax.passes import Pass, standard_pipeline

_NAMES = ("zero", "default", "default_build")


def get_pipeline(name: str = "zero") -> Pass:
    """The standard passes: TVM's pipelines lower a program further, which `build` does here."""
    if name not in _NAMES:
        raise ValueError(f"there is no pipeline `{name}`; there are: {', '.join(_NAMES)}")
    return standard_pipeline()
