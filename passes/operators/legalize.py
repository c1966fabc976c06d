"""Operators replaced by others that a target likes better."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, arguments, get_op
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import quoted
from relaxjax.passes.infrastructure.base import pass_factory

# Takes the arguments and the attributes of a call; None leaves it as it is.
LegalizeRule = Callable[..., Expr | None]
F = TypeVar("F", bound=LegalizeRule)

_USUAL = "FTVMLegalize"
_RULES: dict[str, dict[str, LegalizeRule]] = {}


@pass_factory(opt_level=1, kind="function")
def Legalize(
    function: Function,
    mod: IRModule,
    legalize_map: Mapping[str, Any] | None = None,
    legalize_map_attr_name: str = _USUAL,
) -> Function:
    """Replace calls of operators by what a rule for the operator gives, in other operators.

    Rules see the arguments and attributes of a call, and give an expression, or None to leave the
    call alone. LegalizeOps is another pass: it spells operators out in `jax.lax`.

    Args:
        legalize_map: the rules, by the names of operators.
        legalize_map_attr_name: without `legalize_map`, the set of rules that `register_legalize`
            has entered under this name.
    """
    rules = _registered(legalize_map_attr_name) if legalize_map is None else legalize_map
    for name in rules:
        get_op(name)

    def rule(call: Call) -> Expr | None:
        if not isinstance(call.op, Op) or call.op.name not in rules:
            return None
        args, attrs = arguments(call)
        legal: Expr | None = rules[call.op.name](*args, **attrs)
        return legal

    return expand_calls(function, rule)


def _registered(name: str) -> Mapping[str, LegalizeRule]:
    """The set of rules of a name. That of the usual one may be empty."""
    if name not in _RULES and name != _USUAL:
        raise ValueError(
            f"no rule is entered under `legalize_map_attr_name` = `{name}`"
            f"{did_you_mean(name, _RULES)}; there are {quoted(sorted(_RULES)) or 'none'}: "
            f'register_legalize(op_name, "{name}") enters one'
        )
    return _RULES.get(name, {})


def register_legalize(op_name: str, attr_name: str = _USUAL) -> Callable[[F], F]:
    """Enter a rule for an operator into the set `attr_name`, which a pass `Legalize` uses."""
    get_op(op_name)

    def enter(rule: F) -> F:
        _RULES.setdefault(attr_name, {})[op_name] = rule
        return rule

    return enter
