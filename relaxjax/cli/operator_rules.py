"""What the table says of an operator, in words and in JSON's types."""

from typing import Any

from relaxjax.ir.expr import PrimExpr
from relaxjax.ir.op import NoGradient, Op, Param
from relaxjax.ops.tangent import has_tangent_rule, without_tangent


def signature(op: Op) -> str:
    """The operator as it is called: `relax.matmul(x1, x2, out_dtype=None)`."""
    return f"{op.name}({', '.join(map(_parameter, op.params))})"


def summary(op: Op) -> str:
    """The first line of the documentation."""
    return op.doc.partition("\n")[0]


def rules(op: Op) -> dict[str, str | None]:
    """Each rule that a pass may ask for, in a word or a sentence; None where there is none."""
    return {
        "lower": _presence(op.lower),
        "gradient": _presence(op.gradient),
        "jvp": _tangent(op),
        "training_form": _presence(op.training_form),
        "decompose": _presence(op.decompose),
        "layout": None if op.layout is None else str(op.layout.sensitivity.value),
        "precision": op.precision,
        "fusion": op.fusion,
        "cost": None if op.cost is None else (op.cost.__doc__ or "").partition("\n")[0],
    }


def facts_text(op: Op) -> str:
    """The facts in a row: those that merely hold by their names, others with their values."""
    words = [name if value is True else f"{name} {value}" for name, value in op.facts.items()]
    return ", ".join(words)


def rules_text(op: Op) -> str:
    """All that the table says of an operator beside its documentation, in one line."""
    found = {name: text for name, text in rules(op).items() if text is not None and name != "cost"}
    words = [name if text == "yes" else f"{name} {text}" for name, text in found.items()]
    return ", ".join([*words, *([] if op.pure else ["impure"])])


def record(op: Op) -> dict[str, Any]:
    """All that the table says of an operator, in JSON's types."""
    return {
        "name": op.name,
        "signature": signature(op),
        "doc": op.doc,
        "parameters": [
            {
                "name": param.name,
                "kind": "argument" if param.is_arg else "attribute",
                **({} if param.required else {"default": _default(param)}),
            }
            for param in op.params
        ],
        "rules": rules(op),
        "pure": op.pure,
        "facts": dict(op.facts),
    }


def _parameter(param: Param) -> str:
    if param.variadic:
        return f"*{param.name}"
    return param.name if param.required else f"{param.name}={_default(param)}"


def _default(param: Param) -> str:
    default = param.default.value if isinstance(param.default, PrimExpr) else param.default
    return repr(default)


def _presence(rule: Any) -> str | None:
    if isinstance(rule, NoGradient):
        return rule.value
    return None if rule is None else "yes"


def _tangent(op: Op) -> str | None:
    """Whose rule the tangent follows where the operator declares none: the gradient's, or JAX's."""
    if op.jvp is not None or not has_tangent_rule(op):
        return _presence(op.jvp)
    if without_tangent(op):
        return "zero"
    return "by gradient" if op.facts.get("elementwise") else "by JAX"
