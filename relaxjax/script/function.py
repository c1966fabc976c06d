"""Reading functions that stand in no other: their signatures at once, their bodies when asked."""

import ast

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.check import well_formed
from relaxjax.ir.function import Function

from .body import Body
from .evaluate import Evaluator
from .forms import FunctionForm
from .scope import Scope
from .signature import read_signature
from .source import Source

_RECURSION = "A function calls itself in a module under @I.ir_module, as `Module.{name}(...)`."


class FunctionReader:
    """One function: its signature, and its body once `read` is called."""

    def __init__(
        self,
        source: Source,
        scope: Scope,
        trusted: bool,
        node: ast.FunctionDef,
        form: FunctionForm,
        checks: bool = True,
    ) -> None:
        self._source = source
        self._scope = scope.fork()
        self._scope.push()
        self._trusted = trusted
        self._node = node
        self._form = form
        self._checks = checks and form.check_well_formed
        self.signature = read_signature(Evaluator(source, self._scope, trusted), node, form.pure)

    def read(self) -> Function:
        """The function. A public one bears its name as the attribute `global_symbol`."""
        body = Body(self._source, self._scope, self._trusted, BlockBuilder(), self._checks)
        symbol = None if self._form.private else self._node.name
        function = body.function(self._node, self.signature, symbol)
        if self._form.private and function.global_symbol is not None:
            raise body.evaluator.refusal(
                self._node,
                f"`{self._node.name}` is private, but its attribute `global_symbol` makes it "
                "public",
                "Leave one of them out.",
            )
        return function


def read_function(
    source: Source, scope: Scope, trusted: bool, node: ast.FunctionDef, form: FunctionForm
) -> Function:
    """A function that stands by itself."""
    scope.explain(node.name, _RECURSION.format(name=node.name))
    function = FunctionReader(source, scope, trusted, node, form).read()
    if form.check_well_formed:
        well_formed(function)
    return function
