"""Rewriting one dataflow block step by step, under TVM's name for it."""

from relaxjax.ir.builder import BlockBuilder, Names
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expr import Expr, Var
from relaxjax.ir.function import Binding, DataflowBlock, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import all_vars, dataflow_blocks, map_blocks, nested_blocks, substitute


class DataflowBlockRewrite:
    """Adds, removes and replaces bindings of a dataflow block of a function.

    Nodes never change: the rewriter holds the block and the function as they are by now, and
    `mutated_dfb`, `mutated_root_fn` and `mutate_irmodule` give them.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        if not any(block is dfb for block in nested_blocks(root_fn)):
            raise ValueError("the dataflow block is no block of the function")
        self._block = dfb
        self._function = self._original = root_fn
        self._names = Names([var.name for var in all_vars(root_fn)])
        self._added = 0

    def add_binding(self, binding: Binding) -> None:
        """Add a binding at the end of the block."""
        self._put((*self._block.bindings, binding))

    def add(self, expr: Expr, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind a value at the end of the block, to `tmp0`, `tmp1` and so on without a name.

        With `is_dfvar` only the block can see the variable.
        """
        if name is None:
            name, self._added = f"tmp{self._added}", self._added + 1
        builder = BlockBuilder()
        with builder.scope(taken=sorted(self._names.taken)):
            with builder.dataflow():
                emit = builder.emit if is_dfvar else builder.emit_output
                var = emit(expr, name)
            added = tuple(builder.sequence(var).bindings())
        self._names.taken.update(binding.var.name for binding in added)
        self._put((*self._block.bindings, *added))

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Use one variable wherever another was used, in the whole function."""
        index = self._position()
        self._function = substitute(self._function, {old_var: new_var})
        self._block = list(dataflow_blocks(self._function))[index]

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of a variable that nothing uses.

        A variable that the block does not bind is an error unless `allow_undef` is set.
        """
        if not any(binding.var is var for binding in self._block.bindings):
            if allow_undef:
                return
            raise ValueError(f"the dataflow block binds no variable `{var.name}`")
        if count_uses(self._function).get(var):
            raise ValueError(f"`{var.name}` is still used: it cannot be removed")
        self._put(tuple(binding for binding in self._block.bindings if binding.var is not var))

    def remove_all_unused(self) -> None:
        """Remove every binding that nothing needs, in the other blocks of the function too."""
        self._function = remove_all_unused(self._function)
        bound = {binding.var for binding in self._block.bindings}
        left = [
            block
            for block in dataflow_blocks(self._function)
            if any(binding.var in bound for binding in block.bindings)
        ]
        self._block = left[0] if left else replace(self._block, bindings=())

    def mutated_dfb(self) -> DataflowBlock:
        """The block as it is by now."""
        return self._block

    def mutated_root_fn(self) -> Function:
        """The function as it is by now."""
        return self._function

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """A module with the function as it is by now in the place of the one it was."""
        for name, function in irmodule.relax_functions().items():
            if function is self._original:
                return irmodule.with_function(name, self._function)
        raise ValueError("the function whose block is rewritten is none of the module's")

    def _put(self, bindings: tuple[Binding, ...]) -> None:
        """Give the block other bindings, in the function too."""
        index, old = self._position(), self._block
        new = replace(old, bindings=bindings)
        self._function = map_blocks(self._function, lambda block: new if block is old else block)
        self._block = list(dataflow_blocks(self._function))[index]

    def _position(self) -> int:
        """Which of the function's dataflow blocks it is."""
        blocks = enumerate(dataflow_blocks(self._function))
        return next(index for index, block in blocks if block is self._block)
