"""Regions of `torch.utils.checkpoint` that PyTorch exports without the gradients that it has."""

from relaxjax.ir.span import add_location

from .errors import TorchImportError
from .program import Graph, nodes_of


def check_differentiable(graph: Graph) -> None:
    """Raise where PyTorch has gradients of a region that it exports as one without them."""
    for node, _ in nodes_of(graph):
        if node.is_reentrant:
            error = TorchImportError(
                "torch.utils.checkpoint with use_reentrant=True is exported without gradients, and "
                "so is all that follows: export the model with use_reentrant=False, which computes "
                "the same. What is computed again is decided here by a memory budget or policy"
            )
            add_location(error, node.span)
            raise error
