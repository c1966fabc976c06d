"""The operators of PyTorch that are known, one entry an overload of ATen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Expr
from relaxjax.ops.jax_functions import call_jax

Rule = TypeVar("Rule", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry:
    """What an overload computes: of tensors as expressions, and of numbers, as torch names them.

    Where the result is a view of the first argument, `put` gives what that becomes when the view is
    written to: `put(base, new, **arguments)`. One that `may_copy` gives a view or a copy. `writes`
    are the arguments that are written to, whose new values follow the results. A rule `of_memory`
    is told by `layout` how its first argument lies there. The view of one that `detaches` has a
    gradient of its own.
    """

    rule: Callable[..., Any]
    is_view: bool = False
    put: Callable[..., Expr] | None = None
    may_copy: bool = False
    writes: tuple[str, ...] = ()
    of_memory: bool = False
    detaches: bool = False


TABLE: dict[str, Entry] = {}


def aten(
    *targets: str, writes: tuple[str, ...] = (), of_memory: bool = False
) -> Callable[[Rule], Rule]:
    """Declare what overloads compute, such as `conv2d.default`.

    The parameters of the rule have the names and the defaults of torch's schema.
    """

    def declare(rule: Rule) -> Rule:
        entry = Entry(rule, writes=writes, of_memory=of_memory)
        TABLE.update({f"aten.{target}": entry for target in targets})
        return rule

    return declare


def view(
    *targets: str,
    put: Callable[..., Expr] | None = None,
    may_copy: bool = False,
    of_memory: bool = False,
    detaches: bool = False,
) -> Callable[[Rule], Rule]:
    """Declare overloads whose result shares the memory of their first argument."""

    def declare(rule: Rule) -> Rule:
        entry = Entry(rule, True, put, may_copy, of_memory=of_memory, detaches=detaches)
        TABLE.update({f"aten.{target}": entry for target in targets})
        return rule

    return declare


def traced(function: Callable[..., Any], *args: Expr) -> Expr:
    """The results of a function of JAX, bound once: a loop in it is defined where it stands."""
    return BlockBuilder.current().emit(call_jax(function, *args))


# The overloads of operators that write to their first argument, where the others have other names.
_FUNCTIONAL = {
    "aten.float_power_.Scalar": "aten.float_power.Tensor_Scalar",
    "aten.float_power_.Tensor": "aten.float_power.Tensor_Tensor",
    "aten.floor_divide_.Tensor": "aten.floor_divide.default",
    "aten.ldexp_.default": "aten.ldexp.Tensor",
    "aten.pow_.Scalar": "aten.pow.Tensor_Scalar",
    "aten.pow_.Tensor": "aten.pow.Tensor_Tensor",
    "aten.transpose_.default": "aten.transpose.int",
}


def functional(target: str) -> str:
    """The overload that computes what one that writes to its first argument does."""
    if target in _FUNCTIONAL:
        return _FUNCTIONAL[target]
    namespace, name, overload = target.split(".", 2)
    return f"{namespace}.{name.removesuffix('_')}.{overload}"


def in_place(target: str) -> bool:
    """Whether an overload writes to its first argument, which torch says by its name."""
    parts = target.split(".")
    return len(parts) == 3 and parts[1].endswith("_") and not parts[1].endswith("__")


def of_out(target: str) -> str | None:
    """The overload that computes what one that writes to an argument `out` does, if that is known.

    An overload that is called `out` alone stands for the one of tensors.
    """
    head, _, overload = target.rpartition(".")
    if overload != "out" and not overload.endswith("_out"):
        return None
    plain = overload.removesuffix("out").removesuffix("_")
    found = (f"{head}.{name}" for name in ([plain] if plain else ["Tensor", "default"]))
    return next((one for one in found if one in TABLE), None)


def known(target: str) -> bool:
    plain = functional(target) if in_place(target) else of_out(target) or target
    return plain in TABLE
