"""Modules of layers as TVM's `relax.frontend.nn` has them, which export themselves as programs."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from relaxjax.ir.module import IRModule
from relaxjax.tvm.scope import OutOfScopeNameError

from .exporter import export
from .tensors import Parameter as Parameter
from .tensors import Tensor as Tensor
from .tensors import get_default_dtype as get_default_dtype
from .tensors import set_default_dtype as set_default_dtype
from .tensors import wrap_nested as wrap_nested


class Module:
    """The base of layers: a subclass makes its parameters and layers, and defines `forward`.

    Its parameters are those among its attributes and in the modules there, in that order.
    """

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """The parameters, each with the path of attributes to it: `fc1.weight`."""
        yield from _named(vars(self), prefix)

    def parameters(self) -> Iterator[Parameter]:
        """The parameters, in the order of `named_parameters`."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(
        self, *, prefix: str = "", destination: dict[str, Parameter] | None = None
    ) -> dict[str, Parameter]:
        """The parameters by name."""
        found = OrderedDict[str, Parameter]() if destination is None else destination
        found.update(self.named_parameters(prefix))
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Parameter], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Take the arrays of parameters of the same names; the names missing, and those unknown."""
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        if strict and (missing or unexpected):
            raise KeyError(
                f"the parameters of {type(self).__name__} are others: missing "
                f"{', '.join(missing) or 'none'}; unknown {', '.join(unexpected) or 'none'}"
            )
        for name in own.keys() & state_dict.keys():
            own[name].data = state_dict[name].data
        return missing, unexpected

    def to(self, dtype: str | None = None) -> None:
        """Let all parameters be of another dtype."""
        for item in vars(self).values():
            if isinstance(item, Module | Parameter | ParameterList | ParameterDict):
                item.to(dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define `forward`")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def export_tvm(
        self, spec: Any, debug: bool = False, allow_extern: bool = False
    ) -> tuple[IRModule, list[tuple[str, Parameter]]]:
        """The methods that `spec` names as functions of a module, and the parameters they take.

        `spec` says what each is given: `{"forward": {"x": spec.Tensor((1, 784), "float32")}}`.
        """
        return export(self, spec, debug, allow_extern)

    def jit(self, *args: Any, **kwargs: Any) -> Any:
        """TVM's module that takes tensors of PyTorch, of which there are none here."""
        raise OutOfScopeNameError(
            "`Module.jit` gives a module that takes tensors of PyTorch, and nothing here runs on "
            "these: `mod, params = model.export_tvm(spec)`, then "
            '`relax.VirtualMachine(relax.build(mod))["forward"]` takes arrays, and behind them the '
            "arrays of the parameters, `[param.data for _, param in params]`"
        )


def _named(value: Any, prefix: str) -> Iterator[tuple[str, Parameter]]:
    for name, item in value.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(item, Parameter):
            yield path, item
        elif isinstance(item, Module):
            yield from item.named_parameters(path)
        elif isinstance(item, ParameterList | ParameterDict):
            yield from _named(dict(item.items()), path)


class ModuleList(Module):
    """Modules in order; called, each is given what the one before it gave."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __getitem__(self, place: int) -> Module:
        return self.modules[place]

    def __setitem__(self, place: int, module: Module) -> None:
        self.modules[place] = module

    def __len__(self) -> int:
        return len(self.modules)

    def append(self, module: Module) -> None:
        self.modules.append(module)

    def to(self, dtype: str | None = None) -> None:
        for module in self.modules:
            module.to(dtype)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        yield from _named(dict(enumerate(self.modules)), prefix)

    def forward(self, x: Any) -> Any:
        for module in self.modules:
            x = module(x)
        return x


class ModuleDict(Module, OrderedDict[str, Module]):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        OrderedDict.__init__(self, modules or {})

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        yield from _named(self, prefix)

    def to(self, dtype: str | None = None) -> None:
        for module in self.values():
            module.to(dtype)


class ParameterList(list[Parameter]):
    """Parameters in order."""

    def items(self) -> Iterator[tuple[int, Parameter]]:
        """The parameters, each with its place."""
        return iter(enumerate(self))

    def to(self, dtype: str | None = None) -> None:
        for parameter in self:
            parameter.to(dtype)


class ParameterDict(OrderedDict[str, Parameter]):
    """Parameters by name."""

    def to(self, dtype: str | None = None) -> None:
        for parameter in self.values():
            parameter.to(dtype)
