"""The place of TVM's frontends, which say what to do instead."""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        f"`tvm.relax.frontend.{name}` is not here: make the module by TVM, print it by "
        "`mod.script(show_meta=True)`, and read the text by `from_source` of relaxjax.script"
    )
