"""Passes by what they work on: a module, its functions, or their dataflow blocks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from relaxjax.ir.expr import DataflowVar, Var
from relaxjax.ir.function import BindingBlock, DataflowBlock, Function
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.retype import found_results
from relaxjax.ir.span import located
from relaxjax.ir.walk import map_blocks
from relaxjax.ops.platform import PLATFORM, lowering_for

from .context import PassContext
from .error_notes import in_function, in_pass
from .info import PassInfo, check_known

T = TypeVar("T")


class Pass(ABC):
    """A function from module to module, with a name, an opt level, and hooks called around it."""

    def __init__(self, info: PassInfo, options: Mapping[str, Any] | None = None) -> None:
        self.info = info
        self.options = MappingProxyType(dict(options or {}))

    def __call__(self, mod: IRModule) -> IRModule:
        """Run the pass, unless an instrument of the current context vetoes it."""
        check_module(mod, f"the pass `{self.info.name}`")
        check_known("required", self.info.required)
        context = PassContext.current()
        with in_pass(self.info.name, mod):
            if not context.allows(mod, self.info):
                return mod
            return context.observed(mod, self.info, lambda: self._result(mod, context))

    @abstractmethod
    def transform(self, mod: IRModule, context: PassContext) -> Any:
        """The changed module; `mod` itself where nothing changes."""

    def _result(self, mod: IRModule, context: PassContext) -> IRModule:
        with lowering_for(mod.attrs.get(PLATFORM)):  # what is made for one platform stays so
            found = self.transform(mod, context)
        return checked(self.info, found, IRModule, "an IRModule")

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.info.name}({options})"


class ModulePass(Pass):
    """A pass that sees the whole module.

    It is given a module of its own: one that it assigns into is nobody else's.
    """

    hook: ClassVar[str] = "transform_module"

    def __init__(
        self,
        run: Callable[[IRModule, PassContext], IRModule],
        info: PassInfo,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(info, options)
        self.run = run

    def transform(self, mod: IRModule, context: PassContext) -> Any:
        own = mod.clone()
        functions = own.functions
        result = self.run(own, context)
        return mod if result is own and own.functions is functions else result


class FunctionPass(Pass):
    """A pass that sees one Relax function at a time, and the module as it was before the pass."""

    hook: ClassVar[str] = "transform_function"

    def __init__(
        self,
        run: Callable[[Function, IRModule, PassContext], Function],
        info: PassInfo,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(info, options)
        self.run = run

    def transform(self, mod: IRModule, context: PassContext) -> Any:
        own = mod.clone()
        functions = own.functions
        changed: dict[str, Function] = {}
        for name, function in mod.relax_functions().items():
            with in_function(name, function):
                result = self.run(function, own, context)
                changed[name] = checked(self.info, result, Function, "a Function")
                if own.functions is not functions:
                    raise ValueError(
                        f"the pass `{self.info.name}` assigns into the module: it may only return "
                        "what it was given, changed; write a `module_pass` to change the module"
                    )
        return found_results(mod, mod.with_functions(changed))


class DataflowBlockPass(FunctionPass):
    """A pass that sees one dataflow block at a time, those in branches and closures included."""

    hook: ClassVar[str] = "transform_dataflowblock"

    def __init__(
        self,
        run: Callable[[DataflowBlock, IRModule, PassContext], BindingBlock],
        info: PassInfo,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(self._on_functions, info, options)
        self.run_block = run

    def _on_functions(self, function: Function, mod: IRModule, context: PassContext) -> Any:
        return map_blocks(function, lambda block: self._on_block(block, mod, context))

    def _on_block(self, block: BindingBlock, mod: IRModule, context: PassContext) -> BindingBlock:
        if not isinstance(block, DataflowBlock):
            return block
        with located(block.span):
            result = self.run_block(block, mod, context)
            result = checked(self.info, result, BindingBlock, "a DataflowBlock")
            lost = _outputs(block) - _outputs(result)
            if lost:
                names = ", ".join(sorted(f"`{var.name}`" for var in lost))
                raise ValueError(
                    f"the pass `{self.info.name}` lost the output {names} of a dataflow block: the "
                    "rest of the function may use it, so it must keep its variable"
                )
            return result


def checked(info: PassInfo, result: object, kind: type[T], expected: str) -> T:
    """`result`, if it is of the kind that the pass must return."""
    if isinstance(result, kind):
        return result
    found = "None: is its `return` missing?" if result is None else f"{type(result).__name__}"
    raise TypeError(f"the pass `{info.name}` must return {expected}, but it returned {found}")


def _outputs(block: BindingBlock) -> set[Var]:
    variables = (binding.var for binding in block.bindings)
    return {var for var in variables if not isinstance(var, DataflowVar)}
