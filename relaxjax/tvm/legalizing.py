"""`LegalizeOps` with the options that TVM has for it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import relaxjax.passes as passes


def LegalizeOps(
    customize_legalize_map: Mapping[str, Callable[..., Any]] | None = None,
    skip_ops: Sequence[str] | None = None,
    enable_warning: bool = False,
    **options: Any,
) -> passes.Pass:
    """Spell operators out as calls of `lax.*`, as `relaxjax.passes.LegalizeOps` does.

    Args:
        customize_legalize_map: rules of TVM, which write kernels: an error that says what to use.
        skip_ops: the names of operators that stay as they are.
        enable_warning: nothing is warned of: an operator that stays has effects or needs values.
        options: those of `relaxjax.passes.LegalizeOps`, by name.
    """
    if customize_legalize_map:
        raise ValueError(
            "`customize_legalize_map` holds rules that write kernels of TVM: give JAX functions of "
            "the same arguments as `LegalizeOps(customize_map={name: function})`"
        )
    return passes.LegalizeOps(skip_ops=tuple(skip_ops or ()), **options)
