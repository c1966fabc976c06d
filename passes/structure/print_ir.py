"""A look at the module between two passes."""

import sys
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.passes.infrastructure.base import pass_factory


@pass_factory(opt_level=0)
def PrintIR(mod: IRModule, header: str = "", show_meta: bool = False, file: Any = None) -> IRModule:
    """Print the module, and return it as it is.

    Args:
        header: a line that is printed first, as a comment.
        show_meta: whether constants that are too big for a line are written out.
        file: what to print to, the standard output by default.
    """
    lines = [f"# {header}"] if header else []
    print(*lines, mod.script(show_meta=show_meta), sep="\n", file=file or sys.stdout)
    return mod
