"""How nodes are printed: the options, by our names and by TVM's."""

from dataclasses import dataclass, fields
from typing import Any

from .registry import did_you_mean

_TVM_NAMES = {"show_all_ty": "show_all_types", "show_all_struct_info": "show_all_types"}
# Whether TVM's text is passed through the formatter black, and whether it says the types of sizes;
# this one is laid out already, and reads the same without.
_TVM_ALONE = ("black_format", "verbose_expr")


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """How a node is printed.

    name: the name of the class that a module is printed as.
    show_meta: whether constants that are too big for a line are written out before the program;
        without them the text cannot be read back, and a comment in it says so.
    module_alias: the name by which a function refers to its module.
    indent_spaces: the width of one level of indentation.
    show_all_types: whether every variable is printed with its type (`show_all_ty` in TVM).
    syntax_sugar: whether a tuple is printed as `(a, b)` instead of `R.tuple(a, b)`, and a call that
        returns nothing as a bare statement.
    provenance: whether a binding that is part of a derivative ends in a comment that says of which
        variable, and where in the user's text that is bound.
    """

    name: str = "Module"
    show_meta: bool = True
    module_alias: str = "cls"
    indent_spaces: int = 4
    show_all_types: bool = True
    syntax_sugar: bool = True
    provenance: bool = False

    def __post_init__(self) -> None:
        for option, value in (("name", self.name), ("module_alias", self.module_alias)):
            if not value.isidentifier():
                raise ValueError(f"`{option}` must be a Python identifier, found {value!r}")
        if self.indent_spaces < 1:
            raise ValueError(f"`indent_spaces` must be at least 1, found {self.indent_spaces}")


def parse_options(given: dict[str, Any]) -> PrintOptions:
    """The options by their names here, or those that TVM has for them."""
    given = {name: value for name, value in given.items() if name not in _TVM_ALONE}
    named = {_TVM_NAMES.get(name, name): value for name, value in given.items()}
    known = [item.name for item in fields(PrintOptions)]
    for name in given:
        if _TVM_NAMES.get(name, name) not in known:
            raise TypeError(
                f"there is no print option `{name}`; there are {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )
    return PrintOptions(**named)
