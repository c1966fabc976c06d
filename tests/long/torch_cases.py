"""Families of calls of single operators of PyTorch, as models that are compared as such are.

Each case has tensors of its own, those of floats as parameters: so its gradient is compared, too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch_zoo import MODELS, Made, nn, torch

Case = tuple[Callable[..., Any], list[Any]]


class Cases(nn.Module):  # type: ignore[misc]  # torch has no types here
    """The results of all cases of a family, by their names."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        super().__init__()
        self.cases = {name: case[0] for name, case in cases.items()}
        self.counts = {name: len(case[1]) for name, case in cases.items()}
        for name, (_, tensors) in cases.items():
            for place, tensor in enumerate(tensors):
                if tensor.is_floating_point():
                    self.register_parameter(f"{name}_{place}", nn.Parameter(tensor))
                else:
                    self.register_buffer(f"{name}_{place}", tensor)

    def forward(self, x: Any) -> Any:
        found = {}
        for name, function in self.cases.items():
            tensors = [getattr(self, f"{name}_{place}") for place in range(self.counts[name])]
            result = function(*tensors)
            # A file has no place for the types that PyTorch gives the results of `max` and others.
            found[name] = tuple(result) if isinstance(result, tuple) else result
        return found, x * 2


def words(text: str) -> list[str]:
    return text.split()


def t(*shape: int) -> Any:
    return torch.randn(*shape)


def positive(*shape: int) -> Any:
    return torch.rand(*shape) + 0.5


def inside(*shape: int) -> Any:
    return torch.rand(*shape) * 1.6 - 0.8


def whole(high: int, *shape: int, low: int = 0) -> Any:
    return torch.randint(low, high, shape)


def truth(*shape: int) -> Any:
    return torch.rand(*shape) > 0.5


def bounds() -> Any:
    """Numbers with those among them at which pieces of activations meet."""
    return torch.tensor([-6.0, -3.0, -1.0, -0.5, -0.2, 0.3, 0.5, 1.0, 3.0, 6.0, 7.0, -7.0])


def family(maker: Callable[[], dict[str, Case]]) -> None:
    def made() -> Made:
        return Cases(maker()), (torch.randn(2),)

    MODELS[f"operators {maker.__name__}"] = made
