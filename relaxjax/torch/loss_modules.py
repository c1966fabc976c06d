"""Losses of PyTorch as those of this package, with the same options."""

from collections.abc import Callable, Mapping
from typing import Any

from relaxjax.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)


def _plain(kind: type[Any], *options: str, **renamed: str) -> Callable[[Any], Loss]:
    """The loss of a kind, with options by their names, or by other names here."""

    def made(module: Any) -> Loss:
        given = {name: getattr(module, name) for name in ("reduction", *options)}
        given |= {ours: getattr(module, theirs) for ours, theirs in renamed.items()}
        found: Loss = kind(**given)
        return found

    return made


def _with_logits(module: Any) -> Loss:
    weight = module.pos_weight
    if weight is not None and weight.numel() != 1:
        raise ValueError("BCEWithLogitsLoss: `pos_weight` must be one number for all classes")
    factor = 1.0 if weight is None else float(weight)
    return BCEWithLogitsLoss(reduction=module.reduction, pos_weight=factor)


def _kl_div(module: Any) -> Loss:
    if module.reduction == "mean":
        raise ValueError(
            'KLDivLoss: torch\'s reduction "mean" divides by all elements: write "batchmean", '
            "which is the divergence, or a loss of your own"
        )
    reduction: Any = "mean" if module.reduction == "batchmean" else module.reduction
    return KLDivLoss(reduction=reduction, log_target=module.log_target)


_LOSSES: Mapping[str, Callable[[Any], Loss]] = {
    "CrossEntropyLoss": _plain(CrossEntropyLoss, "ignore_index", "label_smoothing"),
    "NLLLoss": _plain(NLLLoss, "ignore_index"),
    "MSELoss": _plain(MSELoss),
    "L1Loss": _plain(L1Loss),
    "HuberLoss": _plain(HuberLoss, "delta"),
    "SmoothL1Loss": _plain(SmoothL1Loss, delta="beta"),
    "BCELoss": _plain(BCELoss),
    "BCEWithLogitsLoss": _with_logits,
    "KLDivLoss": _kl_div,
}


def is_torch_loss(loss: Any) -> bool:
    return type(loss).__module__.split(".")[0] == "torch"


def loss_of(module: Any) -> Loss:
    """The loss that computes what a module of `torch.nn` does."""
    name = type(module).__name__
    if name not in _LOSSES:
        raise TypeError(
            f"there is no loss here for torch.nn.{name}, but for {', '.join(_LOSSES)}: give a loss "
            "of relaxjax.losses, or write one"
        )
    if getattr(module, "weight", None) is not None:
        raise ValueError(
            f"{name}: weights are an argument of a loss here: give a loss of relaxjax.losses, and "
            "the weights with each batch"
        )
    return _LOSSES[name](module)
