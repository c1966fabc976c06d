"""Replacing parts of a module of layers by others."""

from typing import Any

from .core import Module, ModuleDict, ModuleList, Parameter, ParameterDict, ParameterList


class Mutator:
    """Visits all parts of a module; what a method returns takes the place of what it was given.

        class Quantize(Mutator):
            def visit_module(self, name, node):
                return Quantized(node) if isinstance(node, nn.Linear) else node

        model.layers = Quantize().visit("layers", model.layers)

    Without methods of its own it gives everything back as it is.
    """

    def visit(self, name: str, node: Any) -> Any:
        """Call the method for a part; `name` is the path of attributes to it."""
        match node:
            case ModuleList():
                return self.visit_modulelist(name, node)
            case ModuleDict():
                return self.visit_moduledict(name, node)
            case ParameterList():
                return self.visit_parameterlist(name, node)
            case ParameterDict():
                return self.visit_parameterdict(name, node)
            case Module():
                return self.visit_module(name, node)
            case Parameter():
                return self.visit_param(name, node)
            case _:
                return node

    def visit_module(self, name: str, node: Module) -> Any:
        """Visit the attributes of a module."""
        for attribute, value in vars(node).items():
            setattr(node, attribute, self.visit(_path(name, attribute), value))
        return node

    def visit_param(self, name: str, node: Parameter) -> Any:
        return node

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        for place, module in enumerate(node.modules):
            node[place] = self.visit(_path(name, place), module)
        return node

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        for key, module in node.items():
            node[key] = self.visit(_path(name, key), module)
        return node

    def visit_parameterlist(self, name: str, node: ParameterList) -> Any:
        for place, parameter in node.items():
            node[place] = self.visit(_path(name, place), parameter)
        return node

    def visit_parameterdict(self, name: str, node: ParameterDict) -> Any:
        for key, parameter in node.items():
            node[key] = self.visit(_path(name, key), parameter)
        return node


def _path(name: str, part: Any) -> str:
    return f"{name}.{part}" if name else str(part)
