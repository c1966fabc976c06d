"""Losses of PyTorch as those of this package, with the same options.

Those with weights, and those whose slopes jump or have no value, compute what ATen does: losses of
`relaxjax.losses` take weights with each batch, and have slopes of their own at ties.
"""

from collections.abc import Callable, Mapping
from typing import Any

from relaxjax.losses import (
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HuberLoss,
    Loss,
    MSELoss,
    NLLLoss,
)

from .aten_loss import (
    AtenAngleLoss,
    AtenClassLoss,
    AtenDivergenceLoss,
    AtenLabelsLoss,
    AtenLikelihoodLoss,
    AtenListLoss,
    AtenLoss,
    AtenProbabilityLoss,
    AtenRankingLoss,
    AtenTripletLoss,
)


def _plain(kind: type[Any], *options: str) -> Callable[[Any], Loss]:
    """The loss of a kind, with options by their names."""

    def made(module: Any) -> Loss:
        given = {name: getattr(module, name) for name in ("reduction", *options)}
        found: Loss = kind(**given)
        return found

    return made


def _aten(
    kind: type[AtenLoss], target: str, *options: str, outputs: int = 1
) -> Callable[[Any], AtenLoss]:
    """What torch computes, by an operator of ATen with options of the same names."""

    def made(module: Any) -> AtenLoss:
        return kind(
            loss_name=target,
            num_backbone_outputs=outputs,
            reduction=module.reduction,
            target=f"aten.{target}.default",
            options={name: getattr(module, name) for name in options},
            weights=_weights(module),
        )

    return made


def _weights(module: Any) -> dict[str, Any]:
    given = {name: getattr(module, name, None) for name in ("weight", "pos_weight")}
    return {name: one.numpy(force=True) for name, one in given.items() if one is not None}


def _weighted(
    ours: Callable[[Any], Loss], theirs: Callable[[Any], AtenLoss]
) -> Callable[[Any], Loss]:
    """Our loss where a module has no weights, and else what torch computes with them."""
    return lambda module: theirs(module) if _weights(module) else ours(module)


def _kl_div(module: Any) -> Loss:
    """Its means are over elements or over samples in torch, and over distributions here."""
    is_by_sample = module.reduction == "batchmean"
    return AtenDivergenceLoss(
        loss_name="kl_div",
        reduction="mean" if is_by_sample else module.reduction,
        target="aten.kl_div.default",
        options={"log_target": module.log_target},
        weights={},
        is_by_sample=is_by_sample,
    )


_LOSSES: Mapping[str, Callable[[Any], Loss]] = {
    "CrossEntropyLoss": _weighted(
        _plain(CrossEntropyLoss, "ignore_index", "label_smoothing"),
        _aten(AtenClassLoss, "cross_entropy_loss", "ignore_index", "label_smoothing"),
    ),
    "NLLLoss": _weighted(
        _plain(NLLLoss, "ignore_index"), _aten(AtenLikelihoodLoss, "nll_loss_nd", "ignore_index")
    ),
    "MSELoss": _plain(MSELoss),
    "L1Loss": _aten(AtenLoss, "l1_loss"),
    "HuberLoss": _plain(HuberLoss, "delta"),
    "SmoothL1Loss": _aten(AtenLoss, "smooth_l1_loss", "beta"),
    "BCELoss": _aten(AtenProbabilityLoss, "binary_cross_entropy"),
    "BCEWithLogitsLoss": _weighted(
        _plain(BCEWithLogitsLoss), _aten(AtenLoss, "binary_cross_entropy_with_logits")
    ),
    "KLDivLoss": _kl_div,
    "CosineEmbeddingLoss": _aten(AtenAngleLoss, "cosine_embedding_loss", "margin", outputs=2),
    "CTCLoss": _plain(CTCLoss, "blank", "zero_infinity"),
    "GaussianNLLLoss": _plain(GaussianNLLLoss, "full", "eps"),
    "MarginRankingLoss": _aten(AtenRankingLoss, "margin_ranking_loss", "margin", outputs=2),
    "TripletMarginLoss": _aten(
        AtenTripletLoss, "triplet_margin_loss", "margin", "p", "eps", "swap", outputs=3
    ),
    "HingeEmbeddingLoss": _aten(AtenLoss, "hinge_embedding_loss", "margin"),
    "MultiLabelMarginLoss": _aten(AtenListLoss, "multilabel_margin_loss"),
    "MultiLabelSoftMarginLoss": _aten(AtenLabelsLoss, "binary_cross_entropy_with_logits"),
    "MultiMarginLoss": _aten(AtenClassLoss, "multi_margin_loss", "p", "margin"),
    "PoissonNLLLoss": _aten(AtenLoss, "poisson_nll_loss", "log_input", "full", "eps"),
    "SoftMarginLoss": _aten(AtenLoss, "soft_margin_loss"),
}


# Why there can be none, and what to do.
_WITHOUT: Mapping[str, str] = {
    "AdaptiveLogSoftmaxWithLoss": "it has weights of its own, so it belongs into the model, whose "
    "output is its loss: train that by a loss of your own that is this output",
    "TripletMarginWithDistanceLoss": "its distance is a Python function: write it in JAX, and give "
    "relaxjax.losses.from_jax(function, num_backbone_outputs=3)",
}


def is_torch_loss(loss: Any) -> bool:
    return type(loss).__module__.split(".")[0] == "torch"


def loss_of(module: Any) -> Loss:
    """The loss that computes what a module of `torch.nn` does."""
    name = type(module).__name__
    if name in _WITHOUT:
        raise TypeError(f"there is no loss here for torch.nn.{name}: {_WITHOUT[name]}")
    if name not in _LOSSES:
        raise TypeError(
            f"there is no loss here for torch.nn.{name}, but for {', '.join(_LOSSES)}: give a loss "
            "of relaxjax.losses, or write one"
        )
    return _LOSSES[name](module)
