"""Building functions binding by binding: names made unique, nesting undone, types inferred."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from operator import is_
from typing import Any

from .attrs import Attrs
from .blocks import tidy_blocks
from .expr import Call, DataflowVar, Expr, GlobalVar, Tuple, TupleGetItem, Var
from .function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from .infer import infer, is_pure_call, said_outside
from .lattice import Fit, fits
from .module import BaseFunc, IRModule
from .node import replace
from .op import Op
from .renew import hidden
from .span import Span, located
from .tuples import as_tuple
from .types import ObjectType, Type
from .walk import is_call_of_leaves


class Names:
    """Unique names: a hint that is taken gets the next free number at its end."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set[str]()
        self._to_ask: list[Iterable[str]] = [taken]
        self._next: dict[str, int] = {}

    @property
    def taken(self) -> set[str]:
        while self._to_ask:
            self._taken.update(self._to_ask.pop())
        return self._taken

    def take(self, name: str) -> None:
        """Give a name to nothing else."""
        self._taken.add(name)

    def take_later(self, names: Iterable[str]) -> None:
        """Take names that are looked at as soon as another one is asked for, if ever."""
        self._to_ask.append(names)

    def unique(self, hint: str) -> str:
        name, taken = hint, self.taken
        while name in taken:
            self._next[hint] = self._next.get(hint, 0) + 1
            name = f"{hint}{self._next[hint]}"
        taken.add(name)
        return name


class _Scope:
    """The blocks of one sequence under construction, and the bindings of the open block."""

    def __init__(self) -> None:
        self.blocks: list[BindingBlock] = []
        self.bindings: list[Binding] = []
        self.shared: dict[int, tuple[Expr, Var]] = {}
        self.dataflow = False
        self.span: Span | None = None

    def close_block(self) -> None:
        if self.bindings or self.dataflow:
            kind = DataflowBlock if self.dataflow else BindingBlock
            self.blocks.append(kind(tuple(self.bindings), span=self.span))
        self.bindings, self.shared, self.dataflow, self.span = [], {}, False, None


class _Origin(AbstractContextManager[None]):
    """Where a builder says that things come from; a class, for there is one for each binding."""

    __slots__ = ("builder", "inside", "outer")

    def __init__(self, builder: "BlockBuilder", span: Span | None, source: str | None) -> None:
        self.builder = builder
        self.inside = span, source

    def __enter__(self) -> None:
        builder, (span, source) = self.builder, self.inside
        self.outer = builder.origins
        builder.origins = span or self.outer[0], source or self.outer[1]

    def __exit__(self, *_: object) -> None:
        self.builder.origins = self.outer


# The builders that have something open, the innermost last.
_open: ContextVar[tuple["BlockBuilder", ...]] = ContextVar("open_builders", default=())


class BlockBuilder:
    """Builds a module, or with `scope()` a sequence of bindings for one of its functions.

    Every expression that is emitted is brought into A-normal form and typed.
    """

    def __init__(self, module: IRModule | None = None) -> None:
        self._module = module or IRModule()
        self._scopes: list[_Scope] = []
        self._names = Names()
        self._function: tuple[str, list[Var], Attrs, bool, bool] | None = None
        self._bound: dict[Var, Expr] = {}
        self.origins: tuple[Span | None, str | None] = None, None

    @staticmethod
    def current() -> "BlockBuilder":
        """The builder of the function or sequence that is open, the innermost of several."""
        if not _open.get():
            raise ValueError("no builder is open: write `with builder.function(...)` around this")
        return _open.get()[-1]

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[Var] | Var | None = None,
        attrs: dict[str, Any] | None = None,
        private: bool = False,
        pure: bool = True,
    ) -> Iterator[None]:
        """Open a function; `emit_func_output` inside must close it."""
        if self._function is not None:
            raise ValueError(f"the function `{self._function[0]}` is still open")
        given = [params] if isinstance(params, Var) else list(params or ())
        self._function = (name, given, Attrs(attrs), private, pure)
        self._names = Names([param.name for param in given])
        try:
            with self._opened():
                yield
                if self._function is not None:
                    raise ValueError(f"`emit_func_output` is missing in the function `{name}`")
        finally:
            self._function = None

    @contextmanager
    def scope(self, taken: Iterable[str] = ()) -> Iterator[None]:
        """Open a sequence of its own, to be taken with `sequence`; no name in `taken` is given."""
        self._names.take_later(taken)
        with self._opened():
            yield

    @contextmanager
    def _opened(self) -> Iterator[None]:
        self._scopes.append(_Scope())
        token = _open.set((*_open.get(), self))
        try:
            yield
        finally:
            _open.reset(token)
            self._scopes.pop()

    def origin(
        self, span: Span | None, derived_from: str | None = None
    ) -> AbstractContextManager[None]:
        """Give `span`, and the name of a variable, to all that is emitted inside without its own.

        The variable is the one whose derivative is written here.
        """
        return _Origin(self, span, derived_from)

    @contextmanager
    def dataflow(self, span: Span | None = None) -> Iterator[None]:
        """Open a dataflow block."""
        scope = self._scope()
        if scope.dataflow:
            raise ValueError("a dataflow block may not stand inside another")
        scope.close_block()
        scope.dataflow, scope.span = True, span
        yield
        scope.close_block()

    def emit(self, expr: Expr | Sequence[Expr], name_hint: str = "") -> Var:
        """Bind a value to a new variable, which inside a dataflow block only that block can see."""
        kind = DataflowVar if self._scope().dataflow else Var
        return self._bind(kind, expr, name_hint or ("lv" if kind is DataflowVar else "gv"))

    def emit_output(self, expr: Expr | Sequence[Expr], name_hint: str = "gv") -> Var:
        """Bind a value to a new variable that is visible after the dataflow block."""
        if not self._scope().dataflow:
            raise ValueError("`emit_output` is for dataflow blocks: write `emit`")
        return self._bind(Var, expr, name_hint)

    def emit_binding(self, binding: Binding) -> Var:
        """Add a binding as it stands: its variable keeps its identity, its value is normalised."""
        with located(binding.span):
            return self._append(replace(binding, value=self._value(binding.value)))

    def keep_binding(self, binding: Binding) -> Var:
        """Add a binding of another function, which is normal and typed there."""
        return self._append(binding)

    def match_cast(self, value: Expr, ty: Type, name_hint: str = "lv") -> Var:
        """Assert a type at run time; new symbolic dimensions in `ty` are defined by it."""
        span = value.span or self.origins[0]
        value = self.normalize_leaf(value)
        if fits(value.ty, ty) is Fit.NEVER:
            raise TypeError(f"`{value}` is of type {value.ty}, which can never be {ty}")
        kind = DataflowVar if self._scope().dataflow else Var
        var = kind(self._names.unique(name_hint), ty, span=span)
        return self._append(MatchCast(var, value, ty, span=span, derived_from=self.origins[1]))

    def emit_func_output(
        self, output: Expr | Sequence[Expr], params: Sequence[Var] | Var | None = None
    ) -> GlobalVar:
        """Close the open function with its result, and add it to the module."""
        if self._function is None:
            raise ValueError(
                "`emit_func_output` belongs inside `with builder.function(...)`, once in each"
            )
        if self._scope().dataflow:
            raise ValueError("`emit_func_output` belongs after the dataflow block, not inside it")
        name, declared, attrs, private, pure = self._function
        given = [params] if isinstance(params, Var) else list(params or declared)
        if len(set(given)) < len(given):
            twice = next(param.name for param in given if given.count(param) > 1)
            raise ValueError(
                f"the function `{name}` takes the variable `{twice}` twice: each parameter is a "
                "variable of its own"
            )
        if not private:
            attrs = Attrs(attrs, global_symbol=name)
        body = self.sequence(output)
        function = make_function(given, body, pure=pure, attrs=attrs, span=None)
        self._function = None
        return self.add_func(function, name)

    def sequence(self, output: Expr | Sequence[Expr]) -> SeqExpr:
        """The sequence built so far, with its result; blocks in a row of one kind are one."""
        result = self.normalize_leaf(as_tuple(output))
        scope = self._scope()
        scope.close_block()
        blocks, scope.blocks = tidy_blocks(tuple(scope.blocks)), []
        return SeqExpr(blocks, result)

    def normalize(self, expr: Expr) -> Expr:
        """`expr` typed, with everything nested inside it bound to variables first."""
        return self._value(expr)

    def normalize_leaf(self, expr: Expr) -> Expr:
        """`expr` in a form that may stand as an argument: a leaf, or a tuple of leaves."""
        if isinstance(expr, Tuple):
            fields = tuple(self.normalize_leaf(item) for item in expr.fields)
            return expr if _same(expr.fields, fields) else Tuple(fields, span=expr.span)
        if isinstance(expr, Call | TupleGetItem | If | SeqExpr | Function):
            return self._emit_once(expr)
        return expr

    def _emit_once(self, expr: Expr) -> Var:
        """Bind a nested value; the same object nested again in the open block is that variable."""
        shared = self._scope().shared
        if id(expr) in shared:
            return shared[id(expr)][1]
        var = self.emit(expr)
        if not isinstance(expr, Call) or is_pure_call(expr):
            shared[id(expr)] = (expr, var)  # holds the object, so that its id stays its own
        return var

    def get(self) -> IRModule:
        """The module built so far."""
        return self._module

    finalize = get

    def add_func(self, function: BaseFunc, name: str) -> GlobalVar:
        """Add a function under `name`, or under the next free name that starts with it."""
        unique = Names([var.name for var in self._module.functions]).unique(name)
        if isinstance(function, Function) and function.global_symbol == name:
            function = function.with_attr("global_symbol", unique)
        self._module = self._module.with_function(unique, function)
        return self._module.get_global_var(unique)

    def update_func(self, var: GlobalVar, function: BaseFunc) -> None:
        """Put another function in the place of one that is there."""
        self._module.get_global_var(var.name)
        self._module = self._module.with_function(var.name, function)

    def get_unique_name(self, hint: str) -> str:
        return self._names.unique(hint)

    def current_block_is_dataflow(self) -> bool:
        return self._scope().dataflow

    def lookup_binding(self, var: Var) -> Expr | None:
        """The value that a variable was bound to by this builder."""
        return self._bound.get(var)

    def _scope(self) -> _Scope:
        if not self._scopes:
            raise ValueError("nothing is open: write `with builder.function(...)` first")
        return self._scopes[-1]

    def _bind(self, kind: type[Var], expr: Expr | Sequence[Expr], hint: str) -> Var:
        value = self._value(as_tuple(expr))
        span = value.span or self.origins[0]
        var = kind(self._names.unique(hint), value.ty, span=span)
        with located(span):
            return self._append(VarBinding(var, value, span=span, derived_from=self.origins[1]))

    def _append(self, binding: Binding) -> Var:
        scope = self._scope()
        value = binding.value
        if scope.dataflow and isinstance(value, Call) and not is_pure_call(value):
            raise ValueError(f"`{value}` is impure: it may not stand in a dataflow block")
        if scope.dataflow and isinstance(value, If):
            raise ValueError("a choice between branches may not stand in a dataflow block")
        scope.bindings.append(binding)
        self._names.take(binding.var.name)
        self._bound[binding.var] = value
        return binding.var

    def _value(self, expr: Expr) -> Expr:
        if expr.ty is not None and is_call_of_leaves(expr):  # most are such already
            return expr
        with located(expr.span):
            match expr:
                case Call():
                    op = expr.op if isinstance(expr.op, Op) else self.normalize_leaf(expr.op)
                    args = tuple(self.normalize_leaf(arg) for arg in expr.args)
                    return infer(_with(expr, op=op, args=args))
                case TupleGetItem():
                    return _with(expr, tuple_value=self.normalize_leaf(expr.tuple_value))
                case If():
                    cond = self.normalize_leaf(expr.cond)
                    true, false = map(self._nested, (expr.true_branch, expr.false_branch))
                    return infer(_with(expr, cond=cond, true_branch=true, false_branch=false))
                case Function():
                    return replace(expr, body=self._nested(expr.body))
                case SeqExpr():
                    here = hidden(expr) if self._scope().dataflow else expr
                    self._replay(here)
                    return self._value(here.body)
                case Tuple():
                    return self.normalize_leaf(expr)
                case _:
                    return expr

    def _replay(self, seq: SeqExpr) -> None:
        """Emit the bindings of a sequence here; its dataflow blocks stay such."""
        for block in seq.blocks:
            opens = isinstance(block, DataflowBlock) and not self._scope().dataflow
            with self.dataflow(block.span) if opens else nullcontext():
                for binding in block.bindings:
                    self.emit_binding(binding)

    def _nested(self, seq: SeqExpr) -> SeqExpr:
        """The sequence of a branch or a closure, normalised in a scope of its own."""
        with self.scope():
            self._replay(seq)
            normal = self.sequence(seq.body)
        same = _same(tuple(seq.bindings()), tuple(normal.bindings())) and normal.body is seq.body
        return seq if same else replace(normal, span=seq.span)


def make_function(
    params: Sequence[Var],
    body: SeqExpr,
    *,
    ret_ty: Type | None = None,
    pure: bool = True,
    attrs: Attrs | dict[str, Any] | None = None,
    span: Span | None = None,
) -> Function:
    """A function; a result type that is not given says what can be said outside the function."""
    found = ret_ty or said_outside(body.ty or ObjectType(), body, params)
    return Function(tuple(params), body, found, pure, Attrs(attrs), span=span)


def _with(expr: Expr, **changes: Any) -> Expr:
    """`expr` with other parts, its type forgotten where they differ."""
    for name, value in changes.items():
        if not _same(getattr(expr, name), value):
            return replace(expr, ty=None, **changes)
    return expr


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, tuple):
        return len(old) == len(new) and all(map(is_, old, new))
    return old is new
