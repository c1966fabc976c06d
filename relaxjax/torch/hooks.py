"""Hooks on gradients, which PyTorch runs in its backward pass and exports nowhere."""

import warnings
from collections.abc import Iterator
from typing import Any

from relaxjax.ir.wording import first_few

# Where tensors and modules of torch hold hooks that may change gradients.
_HELD = ("_backward_hooks", "_backward_pre_hooks", "_post_accumulate_grad_hooks")


def warn_of_hooks(program: Any) -> None:
    """Warn where a module or an exported program has any: what trains here does not run them."""
    names = list(_hooked(program))
    if names:
        warnings.warn(
            f"hooks on gradients, of {first_few(names)}, are not in what PyTorch "
            "exports: gradients here are those without them. If they change gradients, write that "
            "into `forward`, as `x * s + (x - x * s).detach()` scales the gradient by s",
            stacklevel=3,
        )


def _hooked(program: Any) -> Iterator[str]:
    for kind in ("named_modules", "named_parameters"):
        for name, one in getattr(program, kind, lambda: ())():
            if any(getattr(one, held, None) for held in _HELD):
                yield f"`{name}`" if name else "the model itself"
