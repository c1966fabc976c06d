"""List the operators: how each is called, and which rules it has.

The rules are what passes ask an operator for: its lowering to JAX, its gradient ("zero" where the
derivative is zero wherever it exists), its training form, its decomposition, and so on. A pattern
such as "relax.nn.*" or "*conv*" lists only the operators whose names match.
"""

import argparse
import fnmatch
import json
from typing import Any

import relaxjax.ops  # noqa: F401  # enters the operators into the table
from relaxjax.ir.expr import PrimExpr
from relaxjax.ir.op import NoGradient, Op, Param
from relaxjax.ir.registry import OPS

RULES = ("lower", "gradient", "jvp", "training_form", "decompose", "layout", "cost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", default="relax.*", help='default: "relax.*"')
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(args: argparse.Namespace) -> int:
    found = [OPS[name] for name in sorted(OPS) if fnmatch.fnmatchcase(name, args.pattern)]
    if args.json:
        print(json.dumps([record(op) for op in found], indent=2))
        return 0
    for op in found:
        print(signature(op))
        print(f"    {op.doc.partition(chr(10))[0]}")
        print(f"    {', '.join(_rules(op))}")
    counted = sum(op.gradient is not None for op in found)
    print(f"{len(found)} operators, {counted} of them with a gradient rule")
    return 0


def signature(op: Op) -> str:
    """The operator as it is called: `relax.matmul(x1, x2, out_dtype=None)`."""
    return f"{op.name}({', '.join(map(_parameter, op.params))})"


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
        "rules": {name: _rule(getattr(op, name)) for name in RULES},
        "precision": op.precision,
        "fusion": op.fusion,
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


def _rule(rule: Any) -> str | None:
    if isinstance(rule, NoGradient):
        return rule.value
    return None if rule is None else "yes"


def _rules(op: Op) -> list[str]:
    """The rules that an operator has, as words."""
    found = {name: _rule(getattr(op, name)) for name in RULES}
    words = [name if rule == "yes" else f"{name} {rule}" for name, rule in found.items() if rule]
    more = [f"precision {op.precision}" if op.precision else "", op.fusion or ""]
    return [*words, *(word for word in more if word), *([] if op.pure else ["impure"])]
