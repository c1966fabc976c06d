"""Bindings, blocks and functions: the parts that have an order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .attrs import Attrs, as_attrs
from .explorable import Explorable
from .expr import Call, Expr, Var
from .node import Node, also_called, check_part, replace
from .types import FuncType, ObjectType, Type
from .written_above import written_above


@dataclass(frozen=True, slots=True, repr=False)
class VarBinding(Node):
    """`var = value`.

    `derived_from` names the variable of the program whose derivative this is a part of; as the
    span, it counts in no comparison.
    """

    var: Var
    value: Expr
    derived_from: str | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_part("what is bound", self.var, Var, "a variable")
        check_part("the value of a binding", self.value, Expr, "an expression")


@dataclass(frozen=True, slots=True, repr=False)
class MatchCast(Node):
    """`var = match_cast(value, ty)`: checked when it runs; defines new symbolic dimensions."""

    var: Var
    value: Expr
    ty: Type
    derived_from: str | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_part("what is bound", self.var, Var, "a variable")
        check_part("the value of a match_cast", self.value, Expr, "an expression")
        check_part("the type of a match_cast", self.ty, Type, "a type such as R.Tensor((n, 3))")


Binding: TypeAlias = VarBinding | MatchCast


@dataclass(frozen=True, slots=True, repr=False)
class BindingBlock(Node):
    """Bindings in the order in which they run."""

    bindings: tuple[Binding, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "bindings", tuple(self.bindings))
        for binding in self.bindings:
            check_part("a part of a block", binding, Binding, "a VarBinding or a MatchCast")


class DataflowBlock(BindingBlock):
    """Pure bindings without control flow. Outputs are its variables that are no `DataflowVar`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class SeqExpr(Expr):
    """Blocks that run in order, and the value at their end."""

    blocks: tuple[BindingBlock, ...]
    body: Expr

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        for block in self.blocks:
            check_part("a part of a sequence", block, BindingBlock, "a block of bindings")
        check_part("the result of a sequence", self.body, Expr, "an expression")
        object.__setattr__(self, "ty", self.body.ty or self.ty)

    def bindings(self) -> Iterator[Binding]:
        """All bindings of all blocks, in order."""
        return (binding for block in self.blocks for binding in block.bindings)


@dataclass(frozen=True, slots=True, repr=False)
class If(Expr):
    """A choice between two sequences by a scalar of dtype bool."""

    cond: Expr
    true_branch: SeqExpr
    false_branch: SeqExpr

    def __post_init__(self) -> None:
        check_part("the condition", self.cond, Expr, "an expression")
        object.__setattr__(self, "true_branch", _sequence(self.true_branch, "a branch"))
        object.__setattr__(self, "false_branch", _sequence(self.false_branch, "a branch"))


@also_called(is_pure="pure")
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(Explorable, Expr):
    """A function. A public one of a module has the attribute `global_symbol`."""

    params: tuple[Var, ...]
    body: SeqExpr
    ret_ty: Type = field(default_factory=ObjectType)
    pure: bool = True
    attrs: Attrs = field(default_factory=Attrs)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", tuple(self.params))
        for param in self.params:
            check_part("a parameter of a function", param, Var, "a variable")
        object.__setattr__(self, "body", _sequence(self.body, "the body of a function"))
        object.__setattr__(self, "attrs", as_attrs(self.attrs))
        check_part("`global_symbol`", self.global_symbol, str | None, "a string")
        params = tuple(param.ty or ObjectType() for param in self.params)
        object.__setattr__(self, "ty", FuncType(params, self.ret_ty, self.pure))

    def __call__(self, *args: Expr) -> Call:
        return Call(self, args)

    def __bool__(self) -> bool:
        """A function is there: it is no value that only a run would tell."""
        return True

    @property
    def is_pure(self) -> bool:
        return self.pure

    @property
    def ret_struct_info(self) -> Type:
        """The result type, under its name up to TVM 0.25."""
        return self.ret_ty

    @property
    def global_symbol(self) -> str | None:
        """The name under which a public function is known, None for a private one."""
        return self.attrs.get("global_symbol")

    def with_attr(self, name: str, value: Any) -> "Function":
        return replace(self, attrs=self.attrs.updated(**{name: value}))

    def with_attrs(self, attrs: dict[str, Any]) -> "Function":
        return replace(self, attrs=self.attrs.updated(**attrs))

    def without_attr(self, name: str) -> "Function":
        return replace(self, attrs=self.attrs.without(name)) if name in self.attrs else self

    @written_above
    def bind_params(self, binding_map: Mapping[Any, Any]) -> "Function":
        """The function with parameters fixed, by name or variable, to expressions or arrays."""
        raise NotImplementedError

    @written_above
    def bind_symbolic_vars(self, binding_map: Mapping[Any, Any]) -> "Function":
        """The function with symbolic dimensions replaced, by name or by the dimension itself."""
        raise NotImplementedError

    @written_above
    def inline_functions(self, function_map: Mapping[Any, "Function"]) -> "Function":
        """The function with the bodies of others, by name, in the place of their calls."""
        raise NotImplementedError


def _sequence(body: Any, what: str) -> SeqExpr:
    """A body as a sequence, which an expression alone is the result of."""
    if not isinstance(body, Expr):
        raise TypeError(f"{what} must be an expression, found `{body!r}`")
    return body if isinstance(body, SeqExpr) else SeqExpr((), body)
