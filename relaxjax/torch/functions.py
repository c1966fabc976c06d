"""Functions of torch.autograd, whose `backward` is in no program that PyTorch exports."""

import warnings

from relaxjax.ir.span import add_location
from relaxjax.ir.wording import first_few

from .errors import TorchImportError
from .program import Graph, Node, nodes_of

_MEND = (
    "Write it into the `forward` of a module: `s + (y - s).detach()` has the value y and the "
    "gradient of s. If it is one of a module, let that be a part of the model"
)


def check_region(graph: Graph) -> None:
    """Raise where a function begins a region without gradients, and has them by its `backward`."""
    first = next((node for node, _ in nodes_of(graph) if node.span is not None), None)
    if first is not None:
        _check_kept(first, "is exported without gradients here, and all that follows it may be")


def check_detached(node: Node) -> None:
    """Raise where a function detaches: in PyTorch that is nothing to its gradient."""
    _check_kept(node, "detaches here, which takes its gradient away in what PyTorch exports")


def _check_kept(node: Node, found: str) -> None:
    if node.is_of_function:
        error = TorchImportError(
            f"a torch.autograd.Function {found}; in PyTorch it has that of its `backward`, which "
            f"is not in the program. {_MEND}"
        )
        add_location(error, node.span)
        raise error


def warn_of_functions(graph: Graph) -> None:
    """Warn where functions have gradients of their own: here they have those of `forward`."""
    spans = [node.span for node, _ in nodes_of(graph) if node.is_of_function and node.span]
    lines = list(dict.fromkeys(f"{span.shown_file}:{span.line}" for span in spans))
    if lines:
        warnings.warn(
            f"the `backward` of a torch.autograd.Function, of {first_few(lines)}, "
            "is not in what PyTorch exports: the gradient here is that of its `forward`. If they "
            f"differ, gradients are wrong. {_MEND}",
            stacklevel=3,
        )
