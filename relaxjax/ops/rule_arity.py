"""Whether the rules of an operator take what passes will call them with."""

import inspect
from collections.abc import Mapping
from typing import Any

from relaxjax.ir.op import Op
from relaxjax.ir.wording import listed

# What a rule takes before the operator's arguments and attributes.
_BEFORE: Mapping[str, tuple[str, ...]] = {
    "lower": (),
    "gradient": ("the adjoint of the result", "the result"),
    "jvp": ("the tangents of the arguments", "the result"),
    "decompose": (),
    "inference": (),
    "canonical": (),
}


def check_rules(operator: Op) -> None:
    """Raise where a rule cannot be called as passes call it."""
    if any(param.variadic for param in operator.params):
        return  # how many arguments there are is not known
    for rule in _BEFORE:
        check_rule(operator, rule, getattr(operator, rule))


def check_rule(operator: Op, kind: str, rule: Any) -> None:
    """Raise where this one cannot be called so: with arguments in order, and attributes by name."""
    args = [f"`{param.name}`" for param in operator.params if param.is_arg]
    attrs = [param.name for param in operator.params if not param.is_arg]
    given = (*_BEFORE[kind], *args)
    try:
        signature = inspect.signature(rule) if callable(rule) else None
    except ValueError:
        return  # it is not written in Python, and does not tell
    try:
        if signature is not None:
            signature.bind(*given, **dict.fromkeys(attrs))
    except TypeError as error:
        named = f", and by name {listed(attrs)}" if attrs else ""
        raise TypeError(
            f"{operator.name}: its `{kind}` is called with {_listed(given)}{named}, but it takes "
            f"{signature}: {error}"
        ) from None


def _listed(names: Any) -> str:
    *first, last = names or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last
