"""What builds functions, where TVM has it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from relaxjax.ir import BlockBuilder as RelaxjaxBlockBuilder
from relaxjax.ir import Expr, Var
from relaxjax.ir.expr import Tuple
from relaxjax.ir.function import Binding, BindingBlock, DataflowBlock
from relaxjax.ir.infer import infer
from relaxjax.tvm.scope import OutOfScopeNameError, reason

_KERNEL_MAKERS = ("call_te", "call_te_with_grad", "emit_te")


class BlockBuilder(RelaxjaxBlockBuilder):
    """The builder of relaxjax, with what TVM's can do outside of a function, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._opened_by_hand: list[ExitStack] = []

    def __getattr__(self, name: str) -> Any:
        if name in _KERNEL_MAKERS:
            why = reason("te")
            raise OutOfScopeNameError(f"`BlockBuilder.{name}` has no place in relaxjax: {why}")
        raise AttributeError(f"`BlockBuilder` has no attribute `{name}`")

    @contextmanager
    def function(  # type: ignore[override]  # TVM has its options the other way round
        self,
        name: str,
        params: Sequence[Var] | Var | None = None,
        attrs: dict[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> Iterator[None]:
        """Open a function, with the options in TVM's order."""
        with super().function(name, params, attrs, private=private, pure=pure):
            yield

    def normalize(self, expr: Expr) -> Expr:
        """`expr` typed; inside a function, what is nested in it is bound to variables first."""
        return super().normalize(expr) if self._scopes else infer(expr)

    def emit_normalized(self, binding: Binding) -> None:
        """Add a binding whose value is normal already."""
        self.emit_binding(binding)

    @contextmanager
    def testing_scope(self, def_vars: Sequence[object] = ()) -> Iterator[None]:
        """Open a scope without a function; dimensions need no definition to be used here."""
        with self.scope():
            yield

    def begin_scope(self, params: Sequence[Var] | None = None) -> None:
        """Open a scope until `end_scope`; no parameter's name is given to another variable."""
        self._open_by_hand(taken=[param.name for param in params or ()])

    def end_scope(self) -> None:
        """Close what `begin_scope` opened last."""
        if not self._opened_by_hand:
            raise ValueError("no scope is open: call `begin_scope()` first")
        self._opened_by_hand.pop().close()

    def _begin_binding_block(self) -> None:
        self._open_by_hand()

    def _begin_dataflow_block(self) -> None:
        self._open_by_hand().enter_context(self.dataflow())

    def _end_block(self) -> BindingBlock:
        kind = DataflowBlock if self.current_block_is_dataflow() else BindingBlock
        blocks = self.sequence(Tuple(())).blocks
        self.end_scope()
        return blocks[0] if blocks else kind(())

    def _open_by_hand(self, taken: Sequence[str] = ()) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(self.scope(taken))
        self._opened_by_hand.append(stack)
        return stack
