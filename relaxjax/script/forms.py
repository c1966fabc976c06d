"""What the statements of a script stand for, once their expressions are evaluated.

`R.output(y)` or `I.module_attrs({...})` are calls in the text. They give one of these records, and
the parser does what the record says.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Expr
from relaxjax.ir.module import IRModule

from .annotations import Annotation, as_annotation
from .source import Source
from .values import as_expr
from .written import written_attrs


@dataclass(frozen=True, slots=True)
class FuncAttrs:
    """`R.func_attr({...})`"""

    attrs: Attrs


def func_attr(attrs: Mapping[str, Any]) -> FuncAttrs:
    """Give attributes to the function: `R.func_attr({"num_input": 1})`."""
    return FuncAttrs(written_attrs("R.func_attr", attrs))


@dataclass(frozen=True, slots=True)
class DataflowForm:
    """`with R.dataflow():`"""

    if TYPE_CHECKING:  # a type checker takes the body of a script for Python that runs

        def __enter__(self) -> None: ...

        def __exit__(self, *exception: object) -> None: ...


@dataclass(frozen=True, slots=True)
class OutputForm:
    """`R.output(y, z)`"""


def output(*variables: Any) -> OutputForm:
    """Say which variables of a dataflow block are visible after it; its last statement."""
    return OutputForm()


@dataclass(frozen=True, slots=True)
class MatchCastForm:
    """`R.match_cast(x, R.Tensor((n, m)))`"""

    value: Expr
    ty: Annotation


def match_cast(value: Any, ty: Any) -> MatchCastForm:
    """`value` as a value of type `ty`, checked when the program runs.

    New symbolic dimensions in `ty`, declared before by `n = T.int64()`, get their values by it.
    """
    return MatchCastForm(as_expr(value), as_annotation(ty))


@dataclass(frozen=True, slots=True)
class ModuleAttrs:
    """`I.module_attrs({...})`"""

    attrs: Attrs


@dataclass(frozen=True, slots=True)
class ModuleInfos:
    """`I.module_global_infos({...})`"""

    infos: Mapping[str, tuple[Any, ...]]


if TYPE_CHECKING:

    class ModuleClass(type, IRModule):  # type: ignore[misc]  # there are no such classes
        """The class of a class that `@I.ir_module` makes a module of."""
else:
    ModuleClass = type


class Module(metaclass=ModuleClass):
    """A base by which type checkers know that a class becomes a module.

    They do not ask what a decorator makes of a class. It means nothing else:

        @I.ir_module
        class Model(I.Module): ...
    """


@dataclass(frozen=True, slots=True)
class FunctionForm:
    """`@R.function`, with its options."""

    pure: bool = True
    private: bool = False
    check_well_formed: bool = True

    def __post_init__(self) -> None:
        _check_flags(self)


@dataclass(frozen=True, slots=True)
class ModuleForm:
    """`@I.ir_module`, with its options."""

    check_well_formed: bool = True

    def __post_init__(self) -> None:
        _check_flags(self)


@dataclass(frozen=True, slots=True)
class MacroForm:
    """`@R.macro`: a hygienic one means by its names what they meant where it was written."""

    hygienic: bool = True

    def __post_init__(self) -> None:
        _check_flags(self)


def _check_flags(form: FunctionForm | ModuleForm | MacroForm) -> None:
    for option in fields(form):
        value = getattr(form, option.name)
        if not isinstance(value, bool):
            raise TypeError(f"`{option.name}` must be True or False, but `{value!r}` was given")


@dataclass(frozen=True, slots=True, eq=False)
class Macro:
    """A macro: statements that are written out where it is called."""

    node: ast.FunctionDef
    source: Source
    captured: Mapping[str, Any]
    hygienic: bool
