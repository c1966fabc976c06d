"""Well-formedness: the rules that every program keeps between one pass and the next.

They are Relax's twelve, and two more about types; `fault.RULES` has them all. Rule 11 of Relax says
that operators which declare a normal form of their own are in it. Ours declare none: here the rule
is that the arguments and attributes of a call are what its operator declares, and that its
inference accepts them. An attribute `relax.force_pure` lets a function that says it is pure call
what is impure, though not inside a dataflow block.
"""

from dataclasses import replace

from .expr import (
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from .fault import OF_BLOCKS, OF_VALUES, Fault, WellFormedError, described
from .function import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr
from .infer import call_type, is_pure_call
from .lattice import Fit, fits
from .module import IRModule
from .op import Op
from .types import FuncType, PrimType, TensorType, Type
from .visibility import Setting, Visibility
from .walk import bound_vars, definable_symbols, is_call_of_leaves, value_symbols

_CONDITION = TensorType((), "bool")
_ANY_FUNCTION = FuncType(pure=False)


def well_formed(program: IRModule | Function) -> None:
    """Raise a WellFormedError that shows every fault of the program, unless it has none."""
    found = faults(program)
    if found:
        raise WellFormedError(program, found)


def check_well_formed(program: IRModule | Function) -> bool:
    """Whether the program keeps all rules."""
    return not faults(program)


def faults(program: IRModule | Function) -> list[Fault]:
    """Every fault of the program, in the order of the program."""
    if not isinstance(program, IRModule | Function):
        raise TypeError(
            f"a module or a function can be checked, but `{program!r:.50}` of type "
            f"{type(program).__name__} was given"
        )
    if isinstance(program, Function):
        checker = _Checker(None)
        checker.top_function(program.global_symbol or "main", program)
    else:
        checker = _Checker(program)
        for name, function in program.relax_functions().items():
            checker.top_function(name, function)
    return checker.faults


def variable_faults(function: Function, with_blocks: bool = False) -> list[Fault]:
    """Where a function uses a variable that has no value there, or binds one twice.

    Those of dataflow variables outside of their blocks, which have one, are there `with_blocks`.
    """
    rules = {*OF_VALUES, OF_BLOCKS} if with_blocks else set(OF_VALUES)
    checker = _VariableChecker(None)
    checker.top_function(function.global_symbol or "main", function)
    return [fault for fault in checker.faults if fault.rule in rules]


class _Checker(Visibility):
    """One walk through a program, in its order."""

    # Functions

    def top_function(self, name: str, function: Function) -> None:
        self.function_name, self.part = name, function
        self.coming = frozenset(bound_vars(function))
        symbol = function.global_symbol
        if self.module is not None and symbol not in (None, name):
            mend = f'give the module its `with_attr("global_symbol", "{name}")`'
            self.fault(2, f"the function `{name}` has the `global_symbol` {symbol!r}: {mend}")
        self.function(function)

    def function(self, function: Function) -> None:
        outer, self.part = self.part, function
        with self.inside(Setting(pure=self.must_be_pure(function))):
            for param in function.params:
                self.dims.update(dict.fromkeys(definable_symbols(param.ty)))
            for param in function.params:
                self.parameter(param)
            for param in function.params:
                self.type(param.ty, f"the type of `{param.name}`")
            self.type(function.ret_ty, "the result type")
            self.body(function.body)
            if fits(function.body.ty, function.ret_ty) is Fit.NEVER:
                self.part = function.body
                self.fault(
                    13,
                    f"the function is declared to return {function.ret_ty}, "
                    f"but its result is of type {function.body.ty}",
                )
        self.part = outer

    def must_be_pure(self, function: Function) -> bool:
        forced = bool(function.attrs.get("relax.force_pure", False))
        if forced and not function.pure:
            self.fault(10, "a function with the attribute `relax.force_pure` must say it is pure")
        return function.pure and not forced

    def parameter(self, param: Var) -> None:
        owner = self.parameters.setdefault(param, self.function_name)
        if isinstance(param, DataflowVar):
            self.fault(4, f"the parameter `{param.name}` is a dataflow variable", param)
        if param in self.defined and owner != self.function_name:
            self.fault(
                3,
                f"`{param.name}` is a parameter of `{owner}` too: "
                "give each function variables of its own (`renew`)",
                param,
            )
        elif param in self.defined:
            self.twice(param)
        self.enter(param)

    def body(self, body: SeqExpr) -> None:
        """The sequence of a function or a branch, and its result."""
        with self.inside(self.setting):
            for block in body.blocks:
                self.block(block)
            outer, self.part = self.part, body
            if isinstance(body.body, SeqExpr):
                self.fault(6, "a sequence is the result of another", body.body)
                self.body(body.body)
            else:
                self.leaf(body.body, "the result")
            self.part = outer

    # Bindings

    def block(self, block: BindingBlock) -> None:
        outer, dataflow = self.setting, isinstance(block, DataflowBlock)
        self.setting = replace(outer, dataflow=dataflow)
        for binding in block.bindings:
            self.binding(binding)
        self.setting = outer
        if dataflow:
            for binding in block.bindings:
                if isinstance(binding.var, DataflowVar):
                    self.vars.pop(binding.var, None)

    def binding(self, binding: Binding) -> None:
        outer, self.part = self.part, binding
        if isinstance(binding.value, Function):
            # A closure may call itself.
            self.definition(binding.var)
            self.value(binding.value)
        else:
            self.value(binding.value)
            if isinstance(binding, MatchCast):
                self.dims.update(dict.fromkeys(definable_symbols(binding.ty)))
                self.type(binding.ty, "the type")
            self.definition(binding.var)
        self.part = binding
        self.fitting(binding)
        self.part = outer

    def fitting(self, binding: Binding) -> None:
        var, value = binding.var, binding.value
        if isinstance(binding, MatchCast):
            if fits(value.ty, binding.ty) is Fit.NEVER:
                self.fault(
                    13, f"the value is of type {value.ty}, which can never be {binding.ty}", value
                )
            value_type: Type | None = binding.ty
        else:
            value_type = value.ty
        if fits(value_type, var.ty) is Fit.NEVER:
            self.fault(
                13, f"`{var.name}` is of type {var.ty}, but its value is of type {value_type}", var
            )

    # Values

    def value(self, value: Expr) -> None:
        """What a binding may hold: one operation on leaves, a choice, a closure, or a leaf."""
        match value:
            case Call():
                self.call(value)
            case TupleGetItem():
                self.leaf(value.tuple_value, "the tuple whose field is taken")
            case If():
                self.choice(value)
            case Function():
                self.function(value)
            case SeqExpr():
                self.fault(6, "a sequence is the value of a binding", value)
                self.body(value)
            case _:
                self.leaf(value, "the value")
                return
        if value.ty is None:
            self.fault(8, f"{described(value)} has no type", value)

    def choice(self, choice: If) -> None:
        if self.setting.dataflow:
            self.fault(9, "a choice between branches stands in a dataflow block", choice)
        self.leaf(choice.cond, "the condition")
        is_flag = choice.cond.ty == PrimType("bool")
        if fits(choice.cond.ty, _CONDITION) is Fit.NEVER and not is_flag:
            self.fault(
                13, f"the condition must be a scalar of dtype bool, found {choice.cond.ty}", choice
            )
        setting = replace(self.setting, dataflow=False, branch=True)
        for branch in (choice.true_branch, choice.false_branch):
            with self.inside(setting):
                self.body(branch)
            if fits(branch.ty, choice.ty) is Fit.NEVER:
                self.fault(
                    13, f"the choice is of type {choice.ty}, but a branch of {branch.ty}", branch
                )

    def call(self, call: Call) -> None:
        name = _callee_name(call.op)
        if not isinstance(call.op, Op):
            self.leaf(call.op, "the callee")
        for number, arg in enumerate(call.args, start=1):
            self.leaf(arg, f"argument {number} of {name}")
        for ty in call.ty_args:
            self.type(ty, f"a type argument of {name}")
        self.symbols(value_symbols(call.attrs), f"the attributes of {name}")
        if not is_pure_call(call) and fits(call.op.ty, _ANY_FUNCTION) is not Fit.NEVER:
            self.impure(call, name)
        if all(arg.ty is not None for arg in call.args):
            self.signature(call, name)

    def impure(self, call: Call, name: str) -> None:
        if self.setting.dataflow:
            self.fault(10, f"the call of {name} is impure: move it out of the dataflow block", call)
        elif self.setting.pure:
            self.fault(
                10,
                f"the call of {name} is impure, but the function says it is pure: "
                "write `@R.function(pure=False)`",
                call,
            )

    def signature(self, call: Call, name: str) -> None:
        """The arguments are what the callee takes, and the type of the call what it gives."""
        try:
            result = call.op.infer(call) if isinstance(call.op, Op) else call_type(call)
        except Exception as error:
            # An inference rule may meet here what it was never meant for, and fail in any way.
            self.fault(11 if isinstance(call.op, Op) else 13, str(error), call)
            return
        if fits(result, call.ty) is Fit.NEVER:
            self.fault(13, f"{name} gives {result} here, but the call is of type {call.ty}", call)

    # Leaves

    def leaf(self, expr: Expr, what: str) -> None:
        match expr:
            case Tuple():
                for item in expr.fields:
                    self.leaf(item, "a field of a tuple")
            case Var():
                self.use(expr)
            case GlobalVar():
                self.global_use(expr)
            case ShapeExpr():
                self.symbols(value_symbols(expr.values), "a shape")
            case PrimExpr():
                self.symbols(value_symbols(expr.value), "a scalar")
            case ExternFunc():
                self.type(expr.ty, f"the type of `{expr.symbol}`")
            case Constant() | StringImm() | DataTypeImm() | Op():
                return
            case _:
                self.fault(7, f"{what} is {described(expr)}: bind it to a variable first", expr)
                self.value(expr)


class _VariableChecker(_Checker):
    """The same walk without the types of values, which take most of its time to infer anew."""

    def fitting(self, binding: Binding) -> None:
        pass

    def signature(self, call: Call, name: str) -> None:
        pass

    def call(self, call: Call) -> None:
        if not is_call_of_leaves(call) or call.ty_args:
            super().call(call)
            return
        for child in (call.op, *call.args):
            if isinstance(child, Var | GlobalVar):
                self.leaf(child, "")  # which is no fault of its own


def _callee_name(callee: Expr) -> str:
    name = getattr(callee, "name", None) or getattr(callee, "symbol", None)
    return "the callee" if name is None else f"`{name}`"
