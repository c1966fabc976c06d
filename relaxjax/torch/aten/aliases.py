"""Operators that PyTorch has under several names: one does what the other does."""

from collections.abc import Mapping

from relaxjax.ir.expr import Expr

from .matrices import slogdet
from .table import TABLE, aten

_NAMES: Mapping[str, str] = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "linalg_matmul": "matmul",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "special_erfc": "erfc",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_gammaln": "lgamma",
    "special_log1p": "log1p",
    "special_logit": "logit",
    "special_logsumexp": "logsumexp",
    "special_round": "round",
    "special_sinc": "sinc",
    "subtract": "sub",
    "true_divide": "div",
}
_OVERLOADS: Mapping[str, str] = {
    "special_log_softmax.default": "log_softmax.int",
    "special_softmax.default": "softmax.int",
}


def declare_aliases() -> None:
    """Enter the other names of what is in the table by now."""
    for target, entry in list(TABLE.items()):
        _, name, overload = target.split(".", 2)
        for other, known in _NAMES.items():
            if name == known:
                TABLE.setdefault(f"aten.{other}.{overload}", entry)
    for other, known in _OVERLOADS.items():
        TABLE[f"aten.{other}"] = TABLE[f"aten.{known}"]


@aten("slogdet.default")
def slogdet_of(self: Expr) -> list[Expr]:
    return slogdet(self)
