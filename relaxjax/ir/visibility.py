"""What can be seen where: the rules of definitions and uses, for a walk through a program."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .dims import SymbolicVar
from .expr import DataflowVar, GlobalVar, Var
from .fault import Fault, span_of
from .module import IRModule
from .node import Node
from .registry import did_you_mean
from .structural import structural_equal
from .types import Type
from .walk import type_symbols, type_vars


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds a binding: a dataflow block, a branch, a function that must be pure."""

    dataflow: bool = False
    branch: bool = False
    pure: bool = True


class Visibility:
    """What a program has defined so far, and the faults that were found in it."""

    def __init__(self, module: IRModule | None) -> None:
        self.module = module
        self.faults: list[Fault] = []
        self.function_name = ""
        self.part: Node = IRModule()
        self.setting = Setting()
        self.vars: dict[Var, None] = {}  # what can be seen here
        self.dims: dict[SymbolicVar, None] = {}
        self.defined: dict[Var, Setting] = {}  # so far, and where
        self.parameters: dict[Var, str] = {}  # so far, and of which function
        self.coming: frozenset[Var] = frozenset()  # everything that this function defines
        self.current: dict[int, GlobalVar] = {}  # uses of functions found to be up to date, by id

    def fault(self, rule: int, message: str, at: Node | None = None) -> None:
        span = span_of(at, self.part)
        self.faults.append(Fault(rule, message, self.function_name, self.part, span))

    # Definitions

    def definition(self, var: Var) -> None:
        if var in self.defined:
            self.twice(var)
        if isinstance(var, DataflowVar) and not self.setting.dataflow:
            self.fault(
                4, f"the dataflow variable `{var.name}` is defined outside a dataflow block", var
            )
        self.enter(var)
        self.type(var.ty, f"the type of `{var.name}`")

    def enter(self, var: Var) -> None:
        self.defined[var] = self.setting
        self.vars[var] = None
        if var.ty is None:
            self.fault(8, f"`{var.name}` has no type", var)

    def twice(self, var: Var) -> None:
        self.fault(1, f"`{var.name}` is defined a second time: every variable is defined once", var)

    # Uses

    def use(self, var: Var) -> None:
        if var in self.vars:
            return
        name = f"`{var.name}`"
        where = self.defined.get(var)
        if where is None and var in self.coming:
            self.fault(1, f"{name} is used before it is defined", var)
        elif where is None:
            self.fault(1, f"{name} is not defined", var)
        elif isinstance(var, DataflowVar):
            self.fault(
                4, f"{name} is used outside its dataflow block: make it an output of the block", var
            )
        elif where.branch:
            self.fault(
                5, f"{name} is defined in a branch, and used outside: make it the result", var
            )
        else:
            self.fault(1, f"{name} belongs to another function", var)

    def global_use(self, var: GlobalVar) -> None:
        if self.module is None or id(var) in self.current:
            return
        if var not in self.module:
            hint = did_you_mean(var.name, list(self.module))
            self.fault(1, f"the module has no function `{var.name}`{hint}", var)
        elif var.ty is None:
            self.fault(8, f"the function `{var.name}` is used without its type", var)
        elif not structural_equal(var.ty, self.module[var].ty):
            self.fault(
                14,
                f"`{var.name}` is used as {var.ty}, but in the module it is {self.module[var].ty}: "
                "take the variable from the module again (`get_global_var`)",
                var,
            )
        else:
            self.current[id(var)] = var

    def type(self, ty: Type | None, what: str) -> None:
        self.symbols(type_symbols(ty), what)
        for var in type_vars(ty):
            self.use(var)

    def symbols(self, used: tuple[SymbolicVar, ...], what: str) -> None:
        for symbol in used:
            if symbol not in self.dims:
                self.fault(
                    12,
                    f"the symbolic dimension `{symbol.name}` in {what} is not defined: a parameter "
                    "or a match_cast before must have it as a dimension of its own",
                )
                # Once is enough.
                self.dims[symbol] = None

    @contextmanager
    def inside(self, setting: Setting) -> Iterator[None]:
        """A place of its own: what it defines cannot be seen behind it."""
        outer, self.setting = self.setting, setting
        vars_before, symbols_before = len(self.vars), len(self.dims)
        yield
        self.setting = outer
        while len(self.vars) > vars_before:
            self.vars.popitem()
        while len(self.dims) > symbols_before:
            self.dims.popitem()
