"""Calls of PyTorch's layers and losses."""

from collections.abc import Callable
from typing import Any

from torch_cases import Case, family, positive, t, whole
from torch_zoo import functional, torch


@family
def layers() -> dict[str, Case]:
    f = functional
    image, volume, signal = (2, 4, 7, 8), (2, 4, 5, 6, 7), (2, 4, 9)
    return {
        "linear": (f.linear, [t(2, 3, 4), t(5, 4), t(5)]),
        "linear_vector": (f.linear, [t(4), t(5, 4)]),
        "matmul": (torch.matmul, [t(2, 3, 4), t(4, 5)]),
        "matmul_vector": (torch.matmul, [t(3, 4), t(4)]),
        "bmm": (torch.bmm, [t(2, 3, 4), t(2, 4, 5)]),
        "mm": (torch.mm, [t(3, 4), t(4, 5)]),
        "mv": (torch.mv, [t(3, 4), t(4)]),
        "outer": (torch.outer, [t(3), t(4)]),
        "addmm": (
            lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2),
            [t(5), t(3, 4), t(4, 5)],
        ),
        "baddbmm": (torch.baddbmm, [t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)]),
        "bilinear": (f.bilinear, [t(2, 3), t(2, 4), t(5, 3, 4), t(5)]),
        "conv1d": (lambda *a: f.conv1d(*a, stride=2, padding=1), [t(*signal), t(3, 4, 3), t(3)]),
        "conv2d": (lambda *a: f.conv2d(*a, 2, 1, 2), [t(*image), t(6, 4, 3, 3), t(6)]),
        "conv2d_groups": (lambda *a: f.conv2d(*a, groups=2), [t(*image), t(6, 2, 3, 2)]),
        "conv2d_same": (lambda *a: f.conv2d(*a, padding="same"), [t(*image), t(3, 4, 4, 3)]),
        "conv2d_valid": (lambda *a: f.conv2d(*a, padding="valid"), [t(*image), t(3, 4, 2, 3)]),
        "conv2d_one": (f.conv2d, [t(4, 7, 8), t(3, 4, 3, 3), t(3)]),
        "conv3d": (lambda *a: f.conv3d(*a, padding=(1, 0, 1)), [t(*volume), t(3, 4, 3, 2, 3)]),
        "deconv1d": (lambda *a: f.conv_transpose1d(*a, stride=2), [t(*signal), t(4, 3, 3), t(3)]),
        "deconv2d": (
            lambda *a: f.conv_transpose2d(*a, stride=2, padding=1, output_padding=1),
            [t(*image), t(4, 3, 3, 3), t(3)],
        ),
        "deconv2d_groups": (
            lambda *a: f.conv_transpose2d(*a, groups=2, dilation=2),
            [t(*image), t(4, 3, 3, 3), t(6)],
        ),
        "max_pool1d": (lambda x: f.max_pool1d(x, 3, 2, 1), [t(*signal)]),
        "max_pool2d": (lambda x: f.max_pool2d(x, 3, 2, 1), [t(*image)]),
        "max_pool2d_ceil": (lambda x: f.max_pool2d(x, 3, 2, ceil_mode=True), [t(*image)]),
        "max_pool2d_dilated": (lambda x: f.max_pool2d(x, 2, 1, dilation=2), [t(*image)]),
        "max_pool3d": (lambda x: f.max_pool3d(x, 2), [t(*volume)]),
        "avg_pool1d": (lambda x: f.avg_pool1d(x, 3, 2, 1), [t(*signal)]),
        "avg_pool2d": (lambda x: f.avg_pool2d(x, 3, 2, 1), [t(*image)]),
        "avg_pool2d_ceil": (lambda x: f.avg_pool2d(x, 3, 2, 1, ceil_mode=True), [t(*image)]),
        "avg_pool2d_plain": (
            lambda x: f.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            [t(*image)],
        ),
        "avg_pool3d": (lambda x: f.avg_pool3d(x, 2), [t(*volume)]),
        "adaptive1": (lambda x: f.adaptive_avg_pool2d(x, 1), [t(*image)]),
        "adaptive2": (lambda x: f.adaptive_avg_pool2d(x, (3, 5)), [t(*image)]),
        "adaptive3": (lambda x: f.adaptive_avg_pool1d(x, 4), [t(*signal)]),
        "adaptive_none": (lambda x: f.adaptive_avg_pool2d(x, (None, 2)), [t(*image)]),
        "adaptive_max": (lambda x: f.adaptive_max_pool2d(x, (1, 4)), [t(*image)]),
        "batch_norm": (
            lambda x, w, b: f.batch_norm(x, None, None, w, b, True),
            [t(*image), t(4), t(4)],
        ),
        "batch_norm_eval": (
            lambda x, m, v: f.batch_norm(x, m.detach(), v.detach(), None, None, False),
            [t(*image), t(4), positive(4)],
        ),
        "layer_norm": (
            lambda x, w, b: f.layer_norm(x, (3, 4), w, b),
            [t(2, 3, 4), t(3, 4), t(3, 4)],
        ),
        "layer_norm_plain": (lambda x: f.layer_norm(x, (4,)), [t(2, 3, 4)]),
        "group_norm": (lambda x, w, b: f.group_norm(x, 2, w, b), [t(*image), t(4), t(4)]),
        "instance_norm": (
            lambda x, w, b: f.instance_norm(x, None, None, w, b),
            [t(*image), t(4), t(4)],
        ),
        "rms_norm": (lambda x, w: f.rms_norm(x, (4,), w), [t(2, 3, 4), t(4)]),
        "dropout_eval": (lambda x: f.dropout(x, 0.5, False), [t(3)]),
        "dropout_all": (lambda x: f.dropout(x, 1.0, True), [t(3)]),
        "attention": (
            f.scaled_dot_product_attention,
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4)],
        ),
        "attention_causal": (
            lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4)],
        ),
        "attention_bias": (
            f.scaled_dot_product_attention,
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4), t(2, 1, 5, 6)],
        ),
        "attention_bool": (
            f.scaled_dot_product_attention,
            [t(2, 3, 5, 4), t(2, 3, 6, 4), t(2, 3, 6, 4), torch.ones(5, 6).tril(-1) > 0],
        ),
        "attention_3d": (f.scaled_dot_product_attention, [t(2, 5, 4), t(2, 6, 4), t(2, 6, 4)]),
        "attention_groups": (
            lambda q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            [t(2, 4, 5, 4), t(2, 2, 6, 4), t(2, 2, 6, 4)],
        ),
        "nearest": (lambda x: f.interpolate(x, scale_factor=2), [t(*image)]),
        "nearest_size": (lambda x: f.interpolate(x, (5, 11)), [t(*image)]),
        "bilinear_up": (lambda x: f.interpolate(x, (14, 13), mode="bilinear"), [t(*image)]),
        "bilinear_down": (lambda x: f.interpolate(x, (4, 3), mode="bilinear"), [t(*image)]),
        "bilinear_corners": (
            lambda x: f.interpolate(x, (14, 13), mode="bilinear", align_corners=True),
            [t(*image)],
        ),
        "pixel_shuffle": (lambda x: f.pixel_shuffle(x, 2), [t(*image)]),
        "channel_shuffle": (lambda x: f.channel_shuffle(x, 2), [t(*image)]),
        "reflect": (lambda x: f.pad(x, (1, 2, 2, 1), "reflect"), [t(*image)]),
    }


@family
def cells() -> dict[str, Case]:
    """Single steps of recurrent networks, with biases and without."""
    rows = {"gru": 3, "lstm": 4, "rnn_tanh": 1, "rnn_relu": 1}
    cases: dict[str, Case] = {}
    for name, count in rows.items():
        cell = getattr(torch, f"{name}_cell")
        cases[name] = _cell(cell, name, [t(4 * count, 6), t(4 * count, 4)])
        biases = [t(4 * count), t(4 * count)]
        cases[f"{name}_biases"] = _cell(cell, name, [t(4 * count, 6), t(4 * count, 4), *biases])
    return cases


def _cell(cell: Callable[..., Any], name: str, params: list[Any]) -> Case:
    if name == "lstm":
        return lambda x, h, c, *rest: cell(x, (h, c), *rest), [t(3, 6), t(3, 4), t(3, 4), *params]
    return cell, [t(3, 6), t(3, 4), *params]


@family
def losses() -> dict[str, Case]:
    f = functional
    return {
        "cross_entropy": (f.cross_entropy, [t(4, 5), whole(5, 4)]),
        "cross_entropy_smooth": (
            lambda x, y: f.cross_entropy(x, y, label_smoothing=0.1),
            [t(4, 5), torch.tensor([1, -100, 2, 0])],
        ),
        "cross_entropy_sum": (
            lambda x, y: f.cross_entropy(x, y, reduction="sum"),
            [t(4, 5), whole(5, 4)],
        ),
        "cross_entropy_ignored": (
            lambda x, y: f.cross_entropy(x, y, ignore_index=1),
            [t(2, 3, 4), whole(3, 2, 4)],
        ),
        "cross_entropy_weights": (
            lambda x, y, w: f.cross_entropy(x, y, w.detach()),
            [t(4, 5), whole(5, 4), positive(5)],
        ),
        "cross_entropy_weights_smooth": (
            lambda x, y, w: f.cross_entropy(x, y, w.detach(), ignore_index=1, label_smoothing=0.1),
            [t(2, 3, 4), whole(3, 2, 4), positive(3)],
        ),
        "cross_entropy_weights_of_shares": (
            lambda x, y, w: f.cross_entropy(x, y.softmax(1), w.detach(), label_smoothing=0.1),
            [t(2, 3, 4), t(2, 3, 4), positive(3)],
        ),
        "cross_entropy_shares": (lambda x, y: f.cross_entropy(x, y.softmax(1)), [t(4, 5), t(4, 5)]),
        "nll": (lambda x, y: f.nll_loss(x.log_softmax(1), y), [t(4, 5), whole(5, 4)]),
        "margin_ranking": (
            lambda x, y, z: f.margin_ranking_loss(x, y, z.sign(), margin=0.2),
            [t(4, 3), t(4, 3), whole(2, 4, 3).float() - 0.5],
        ),
        "triplet": (
            lambda x, y, z: f.triplet_margin_loss(x, y, z, swap=True),
            [t(4, 3), t(4, 3), t(4, 3)],
        ),
        "triplet_sums": (
            lambda x, y, z: f.triplet_margin_loss(x, y, z, p=1, reduction="none"),
            [t(4, 3), t(4, 3), t(4, 3)],
        ),
        "pairwise_distance": (lambda x, y: f.pairwise_distance(x, y, 3.0), [t(4, 3), t(4, 3)]),
        "cosine_embedding": (
            lambda x, y, z: f.cosine_embedding_loss(x, y, 2 * z - 1, margin=0.1),
            [t(4, 3), t(4, 3), whole(2, 4)],
        ),
        "multilabel_margin": (
            f.multilabel_margin_loss,
            [t(2, 4), torch.tensor([[1, 3, -1, 0], [2, -1, 0, 1]])],
        ),
        "mse": (f.mse_loss, [t(4), t(4)]),
        "l1": (lambda x, y: f.l1_loss(x, y, reduction="sum"), [t(4), t(4)]),
        "smooth_l1": (lambda x, y: f.smooth_l1_loss(x, y, beta=0.5), [t(9), t(9)]),
        "huber": (lambda x, y: f.huber_loss(x, y, delta=0.5, reduction="none"), [t(9), t(9)]),
        "bce_logits": (f.binary_cross_entropy_with_logits, [t(4, 3), torch.rand(4, 3)]),
        "bce_logits_weighted": (
            lambda x, y, w, p: f.binary_cross_entropy_with_logits(
                x, y, w.detach(), pos_weight=p.detach()
            ),
            [t(4, 3), torch.rand(4, 3), positive(3), positive(3)],
        ),
        "bce": (f.binary_cross_entropy, [torch.rand(4, 3) * 0.8 + 0.1, torch.rand(4, 3)]),
        "kl_div": (
            lambda x, y: f.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
            [t(4, 3), t(4, 3)],
        ),
        "kl_div_log": (
            lambda x, y: f.kl_div(x, y, reduction="sum", log_target=True),
            [t(4, 3), t(4, 3)],
        ),
        "focal": (_focal, [t(4, 3), torch.rand(4, 3)]),
    }


def _focal(x: Any, y: Any) -> Any:
    p = x.sigmoid()
    losses = functional.binary_cross_entropy_with_logits(x, y, reduction="none")
    return (losses * (1 - (p * y + (1 - p) * (1 - y))) ** 2).mean()
