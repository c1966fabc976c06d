"""Reading the statements of a function: each adds bindings to the program, or names, or both."""

import ast
from collections.abc import Callable
from typing import Any

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Function, If, SeqExpr
from relaxjax.ir.infer import impure_call, is_condition
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.types import TupleType, Type

from .binding import Binder
from .branches import docless, last_bindings, result_annotation, result_name, with_return_behind
from .endings import block_outputs, calls, choice_name, early_return, no_result
from .errors import ScriptError
from .evaluate import Evaluator
from .forms import DataflowForm, FuncAttrs, Macro, MatchCastForm, OutputForm
from .macro import bind_arguments
from .scope import Scope
from .signature import Signature, function_form, read_signature, read_type
from .source import Source
from .values import as_expr

_NO_LOOPS = (
    "Relax has no loops: write the steps out with a comprehension over Python values, "
    "or let a function call itself."
)
_NO_STATE = "Relax has no state: bind a new name, as in `y = R.add(y, x)`."
_OUTSIDE = "Do it outside, in Python: a script sees the names around it."

REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.For: ("`for`", _NO_LOOPS),
    ast.AsyncFor: ("`async for`", _NO_LOOPS),
    ast.While: ("`while`", _NO_LOOPS),
    ast.Break: ("`break`", _NO_LOOPS),
    ast.Continue: ("`continue`", _NO_LOOPS),
    ast.AugAssign: ("an assignment such as `y += x`", _NO_STATE),
    ast.Delete: ("`del`", _NO_STATE),
    ast.Global: ("`global`", _NO_STATE),
    ast.Nonlocal: ("`nonlocal`", _NO_STATE),
    ast.Import: ("`import`", _OUTSIDE),
    ast.ImportFrom: ("`import`", _OUTSIDE),
    ast.ClassDef: ("`class`", "Only a whole module is a class, under @I.ir_module."),
    ast.AsyncFunctionDef: ("`async def`", "Write `def`, under @R.function."),
    ast.AsyncWith: ("`async with`", "The one block is `with R.dataflow():`."),
    ast.Try: ("`try`", "Relax has no exceptions."),
    ast.TryStar: ("`try`", "Relax has no exceptions."),
    ast.Raise: ("`raise`", "Relax has no exceptions; write R.assert_op(condition, ...)."),
    ast.Assert: ("`assert`", "Write R.assert_op(condition, ...)."),
    ast.Match: ("`match`", "Write `if` and `else`."),
}


_IN_BLOCK = "`{name}` is visible only inside its dataflow block, unless R.output names it."
_IN_BRANCH = "`{name}` is bound inside a branch of `if`, which only the last name of it leaves."
_RECURSION = "A function that calls itself declares its result: `def f(...) -> R.Tensor(...)`."
_PURE = (
    "Declare the function with @R.function(pure=False); if the call has no effect after all, "
    'write R.call_pure_packed, or R.func_attr({"relax.force_pure": True}).'
)


class Body:
    """Reads one body of statements, with the blocks and branches inside it."""

    def __init__(
        self, source: Source, scope: Scope, trusted: bool, builder: BlockBuilder, checks: bool
    ) -> None:
        self.evaluator = Evaluator(source, scope, trusted, self._expand)
        self.source = source
        self.scope = scope
        self.builder = builder
        self.checks = checks
        self.binder = Binder(self.evaluator, builder)
        self.attrs: dict[str, Any] = {}

    def function(
        self, node: ast.FunctionDef, signature: Signature, symbol: str | None = None
    ) -> Function:
        """The function of that signature; `symbol` is the name of a public one."""
        with self.builder.scope([param.name for param in signature.params]):
            value = self._read(node, signature.ret_ty)
        if symbol is not None:
            self.attrs.setdefault("global_symbol", symbol)
        with self.evaluator.located(node):
            function = make_function(
                signature.params,
                value,
                ret_ty=signature.ret_ty,
                pure=signature.pure,
                attrs=self.attrs,
                span=self.source.span(node),
            )
        if self.checks:
            self._check_purity(node, function)
        return function

    def _read(self, node: ast.FunctionDef, ret_ty: Type | None) -> SeqExpr:
        """All statements of a function, of which the last is the only `return`."""
        statements = with_return_behind(docless(node.body))
        last = statements[-1] if statements else None
        for statement in statements[:-1] if isinstance(last, ast.Return) else statements:
            self._statement(statement)
        if not isinstance(last, ast.Return):
            raise self.evaluator.refusal(
                node,
                f"the function `{node.name}` has no `return`",
                "End it with one; a function that gives nothing ends with `return R.tuple()`.",
            )
        value = self._returned(last)
        if ret_ty is not None and fits(value.ty, ret_ty) is Fit.NEVER:
            raise self.evaluator.refusal(
                last,
                f"`{node.name}` is declared to return {ret_ty}, but this is of type {value.ty}",
            )
        return value

    def _returned(self, node: ast.Return) -> SeqExpr:
        if node.value is None:
            raise self.evaluator.refusal(
                node, "`return` needs a value", "Write `return R.tuple()`."
            )
        value = self.evaluator.evaluate(node.value)
        with self.builder.origin(self.source.span(node)), self.evaluator.located(node):
            if isinstance(value, MatchCastForm):
                raise TypeError("R.match_cast must be bound to a name, which is then returned")
            return self.builder.sequence(as_expr(value))

    def _statement(self, node: ast.stmt) -> None:
        rule = _RULES.get(type(node))
        if rule is None:
            what, mend = REFUSED.get(type(node), (f"`{ast.unparse(node)}`", None))
            raise self.evaluator.refusal(node, f"{what} is no statement of Relax", mend)
        with self.builder.origin(self.source.span(node)):
            rule(self, node)

    def _pass(self, node: ast.Pass) -> None:
        pass

    def _early_return(self, node: ast.Return) -> None:
        raise early_return(self.evaluator, node)

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self.evaluator.refusal(
                node,
                "an assignment such as `a = b = c` is no statement of Relax",
                "Bind one name after the other.",
            )
        self.binder.assign(node.targets[0], self.evaluator.evaluate(node.value), None, node)

    def _annotated_assign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise self._no_value(node)
        value = self.evaluator.evaluate(node.value)
        self.binder.assign(node.target, value, node.annotation, node)

    def _no_value(self, node: ast.stmt) -> ScriptError:
        return self.evaluator.refusal(node, "a declaration without a value says nothing in Relax")

    def _expression(self, node: ast.Expr) -> None:
        match self.evaluator.evaluate(node.value):
            case None:
                pass
            case FuncAttrs(attrs):
                self.attrs.update(attrs)
            case OutputForm():
                raise self.evaluator.refusal(
                    node, "R.output is the last statement of a dataflow block"
                )
            case DataflowForm():
                raise self.evaluator.refusal(
                    node, "R.dataflow opens a block", "Write `with R.dataflow():`."
                )
            case Expr() as value:
                self._effect(node, value)
            case value:
                self._refuse_unused(node, f"it is a Python {type(value).__name__}")

    def _effect(self, node: ast.Expr, value: Expr, hint: str | None = None) -> Var:
        """A call that is made for its effect, and gives the empty tuple."""
        var = self.binder.bind_expr("_", node, value, node, hint=hint)
        if not (isinstance(var.ty, TupleType) and not var.ty.fields):
            self._refuse_unused(node, f"it is of type {var.ty}")
        return var

    def _refuse_unused(self, node: ast.Expr, why: str) -> None:
        raise self.evaluator.refusal(
            node, f"the value of this statement is not used: {why}", "Bind it to a name: `_ = ...`."
        )

    # Dataflow blocks

    def _with(self, node: ast.With) -> None:
        context = node.items[0].context_expr
        if len(node.items) != 1 or not calls(self.evaluator, context, DataflowForm, "dataflow"):
            raise self.evaluator.refusal(context, "the one `with` of Relax is `with R.dataflow():`")
        if isinstance(context, ast.Call) and (context.args or context.keywords):
            raise self.evaluator.refusal(context, "`R.dataflow()` takes no arguments")
        if node.items[0].optional_vars is not None:
            raise self.evaluator.refusal(
                node.items[0].optional_vars, "a dataflow block has no name"
            )
        self._dataflow(node, {})

    def _dataflow(self, node: ast.With, renamed: dict[str, str]) -> None:
        if self.builder.current_block_is_dataflow():
            raise self.evaluator.refusal(node, "a dataflow block may not stand inside another")
        statements, names = block_outputs(self.evaluator, node.body)
        known = last_bindings(statements)
        outputs = {name.id: known[name.id] for name in names if name.id in known}
        self.scope.push()
        with self.binder.dataflow(outputs, renamed):
            for statement in statements:
                self._statement(statement)
        frame = self.scope.pop(_IN_BLOCK)
        for name in names:
            if name.id not in outputs:
                raise self.evaluator.refusal(
                    name,
                    f"`{name.id}` is not bound in this dataflow block, so R.output cannot name it",
                )
            if not isinstance(frame.get(name.id), Var):
                raise self.evaluator.refusal(
                    name, f"`{name.id}` is a value of Python, not of the program"
                )
            self.scope.set(name.id, frame[name.id])

    # Branches

    def _if(self, node: ast.If) -> None:
        self._choose(node, None)

    def _choose(self, node: ast.If, hint: str | None) -> Var:
        """Bind the result of an `if` to the name that both branches bind last."""
        if self.builder.current_block_is_dataflow():
            raise self.evaluator.refusal(
                node.test, "`if` may not stand in a dataflow block", "End the block before it."
            )
        name = choice_name(self.evaluator, node)
        cond = self._condition(node.test)
        true, true_ty = self._branch(node.body, "then")
        false, false_ty = self._branch(node.orelse, "else")
        value = If(cond, true, false, span=self.source.span(node.test))
        declared = true_ty if true_ty == false_ty else None
        return self.binder.bind_expr(
            name, node.test, value, node, result_annotation(node.body), declared, hint
        )

    def _condition(self, node: ast.expr) -> Expr:
        value = self.evaluator.evaluate(node)
        with self.evaluator.located(node):
            cond = self.builder.normalize_leaf(as_expr(value))
        if not is_condition(cond.ty):
            raise self.evaluator.refusal(
                node, f"a condition is a scalar of dtype bool, but this is of type {cond.ty}"
            )
        return cond

    def _branch(self, statements: list[ast.stmt], suffix: str) -> tuple[SeqExpr, Type | None]:
        """The sequence of a branch, and the type that it declares for its result."""
        self.scope.push()
        with self.builder.scope():
            *first, last = statements
            for statement in first:
                self._statement(statement)
            with self.builder.origin(self.source.span(last)), self.evaluator.located(last):
                result = self._result(last, suffix)
                annotation = result_annotation(statements)
                declared = None if annotation is None else read_type(self.evaluator, annotation)
                value = self.builder.sequence(result)
        self.scope.pop(_IN_BRANCH)
        return value, declared

    def _result(self, node: ast.stmt, suffix: str) -> Expr:
        """Read the last statement of a branch, which binds its result."""
        match node:
            case (
                ast.Assign(targets=[ast.Name() as target])
                | ast.AnnAssign(target=ast.Name() as target)
            ):
                return self._last_value(node, target, suffix)
            case ast.Expr():
                value = self.evaluator.evaluate(node.value)
                if not isinstance(value, Expr):
                    raise no_result(self.evaluator, node, suffix.replace("then", "if"))
                return self._effect(node, value, f"__{suffix}")
            case ast.If():
                return self._choose(node, f"{result_name([node])}_{suffix}")
            case ast.With():
                name = str(result_name([node]))
                self._dataflow(node, {name: f"{name}_{suffix}"})
                return as_expr(self.scope.lookup(name))
            case ast.FunctionDef():
                self._statement(node)
                return as_expr(self.scope.lookup(node.name))
        raise AssertionError("result_name has found how the branch ends")

    def _last_value(self, node: ast.Assign | ast.AnnAssign, target: ast.Name, suffix: str) -> Expr:
        """The value that a branch ends with; a bare variable or constant is the result itself."""
        if node.value is None:
            raise self._no_value(node)
        value = self.evaluator.evaluate(node.value)
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
        leaf = self.binder.leaf(value)
        if leaf is None:
            hint = f"{target.id}_{suffix}"
            self.binder.bind(target, value, annotation, node, hint)
            return as_expr(self.scope.lookup(target.id))
        declared = None if annotation is None else read_type(self.evaluator, annotation)
        self.binder.checked(target.id, leaf.ty, annotation, declared)
        return leaf

    # Closures and macros

    def _closure(self, node: ast.FunctionDef) -> None:
        form = function_form(self.evaluator, node)
        self.scope.push()
        signature = read_signature(self.evaluator, node, form.pure)
        frame = self.scope.pop()
        var = None
        if signature.ret_ty is not None:
            var = self.binder.variable(node.name, node, signature.type, node)
        else:
            self.scope.explain(node.name, _RECURSION)
        self.scope.push(frame)
        body = Body(self.source, self.scope, self.evaluator.trusted, self.builder, self.checks)
        function = body.function(node, signature)
        self.scope.pop()
        if var is None:
            self.binder.bind_expr(node.name, node, function, node)
        else:
            self.binder.bind_variable(node.name, var, function, node)

    def _expand(self, node: ast.Call, macro: Macro, args: list[Any], named: dict[str, Any]) -> Any:
        """Write the statements of a macro out here; its value is what it returns."""
        scope = Scope(macro.captured, self.scope.builtins) if macro.hygienic else self.scope
        body = Body(macro.source, scope, self.evaluator.trusted, self.builder, self.checks)
        with self.evaluator.located(node):
            arguments = bind_arguments(macro.node, args, named, body.evaluator.evaluate)
        scope.push(arguments)
        *statements, last = docless(macro.node.body) or [macro.node]
        if not isinstance(last, ast.Return) or last.value is None:
            raise body.evaluator.refusal(
                last, f"the macro `{macro.node.name}` does not end with `return`"
            )
        for statement in statements:
            body._statement(statement)
        value = body.evaluator.evaluate(last.value)
        scope.pop()
        self.attrs.update(body.attrs)
        return value

    def _check_purity(self, node: ast.FunctionDef, function: Function) -> None:
        if not function.pure or function.attrs.get("relax.force_pure"):
            return
        call = impure_call(function)
        if call is not None:
            message = f"`{node.name}` is pure, but it makes a call that is not: `{call}`"
            raise ScriptError(message, call.span or self.source.span(node), _PURE)


_RULES: dict[type[ast.stmt], Callable[[Body, Any], None]] = {
    ast.Assign: Body._assign,
    ast.AnnAssign: Body._annotated_assign,
    ast.Expr: Body._expression,
    ast.With: Body._with,
    ast.If: Body._if,
    ast.FunctionDef: Body._closure,
    ast.Return: Body._early_return,
    ast.Pass: Body._pass,
}
