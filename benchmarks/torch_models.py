"""The suite's models in PyTorch, as somebody who knows it writes them.

Each takes a model's parameters and inputs as tensors and gives the loss. Kernels and matrices lie
as in the Relax programs; only an LSTM's are what `torch.lstm` takes. Import this where PyTorch is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from models.gpt import Gpt
from whole_image_models import EPSILON
from whole_model import WholeModel

torch: Any = import_module("torch")  # it need not be installed where types are checked
F: Any = import_module("torch.nn.functional")


@dataclass(frozen=True)
class TorchForm:
    """A model's loss, and its parameters as PyTorch has them and as we do."""

    loss: Callable[..., Any]  # (*params, *inputs)
    to_torch: Callable[[Any], Any] = lambda params: params
    to_ours: Callable[[Any], Any] = lambda params: params


def dense(x: Any, p: Any) -> Any:
    return F.linear(x, p[0].T, p[1])


def tutorial(w0: Any, b0: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, labels: Any) -> Any:
    hidden = F.relu(dense(F.relu(dense(x, (w0, b0))), (w1, b1)))
    return F.cross_entropy(dense(hidden, (w2, b2)), labels)


def mlp(*args: Any) -> Any:
    *middle, last, x, labels = args
    for p in middle:
        x = F.gelu(dense(x, p))
    return F.cross_entropy(dense(x, last), labels)


def batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
    return F.batch_norm(x, None, None, gamma, beta, training=True, eps=EPSILON)


def conv_norm(x: Any, p: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    return batch_norm(F.conv2d(x, p[0], None, stride, padding, groups=groups), p[1], p[2])


def head(x: Any, labels: Any, p: Any) -> Any:
    return F.cross_entropy(dense(x.mean((2, 3)), p), labels)


def lenet(*args: Any) -> Any:
    """Without the running statistics, which have no part in the loss."""
    k0, gamma0, beta0, k1, gamma1, beta1, w0, b0, w1, b1, *_, x, labels = args
    y0 = F.relu(batch_norm(F.conv2d(x, k0, padding=2), gamma0, beta0))
    y1 = F.relu(batch_norm(F.conv2d(F.max_pool2d(y0, 2), k1), gamma1, beta1))
    hidden = F.relu(dense(F.avg_pool2d(y1, 2).flatten(1), (w0, b0)))
    return F.cross_entropy(dense(hidden, (w1, b1)), labels)


def small_block(x: Any, p: Any, stride: int) -> Any:
    y = F.relu(conv_norm(x, p[0], stride, padding=1))
    side = conv_norm(x, p[2], stride) if len(p) == 3 else x
    return F.relu(conv_norm(y, p[1], padding=1) + side)


def large_block(x: Any, p: Any, stride: int) -> Any:
    y = F.relu(conv_norm(x, p[0]))
    y = F.relu(conv_norm(y, p[1], stride, padding=1))
    side = conv_norm(x, p[3], stride) if len(p) == 4 else x
    return F.relu(conv_norm(y, p[2]) + side)


def resnet_of(block: Callable[[Any, Any, int], Any]) -> Callable[..., Any]:
    def loss(first: Any, *rest: Any) -> Any:
        *stages, last, x, labels = rest
        is_small = len(first[0][0, 0]) == 3
        y = F.relu(conv_norm(x, first, 1 if is_small else 2, 1 if is_small else 3))
        y = y if is_small else F.max_pool2d(y, 3, 2, padding=1)
        for i, stage in enumerate(stages):
            for j, p in enumerate(stage):
                y = block(y, p, 2 if i and not j else 1)
        return head(y, labels, last)

    return loss


def mobilenet(first: Any, *rest: Any) -> Any:
    *blocks, last, x, labels = rest
    y = F.relu(conv_norm(x, first, padding=1))
    for i, (depthwise, pointwise) in enumerate(blocks):
        y = F.relu(conv_norm(y, depthwise, 1 + i % 2, 1, groups=y.shape[1]))
        y = F.relu(conv_norm(y, pointwise))
    return head(y, labels, last)


def unet(down: Any, up: Any, joined: Any, x: Any, labels: Any) -> Any:
    def conv(x: Any, p: Any) -> Any:
        return F.conv2d(x, p[0], p[1], padding=1)

    d0 = F.relu(conv(x, down[0]))
    d1 = F.relu(conv(F.max_pool2d(d0, 2), down[1]))
    d2 = F.relu(conv(F.max_pool2d(d1, 2), down[2]))
    u1 = F.conv_transpose2d(d2, up[0], stride=2)
    j1 = F.relu(conv(torch.cat([d1, u1], 1), joined[0]))
    u0 = F.conv_transpose2d(j1, up[1], stride=2, padding=1, output_padding=1)
    j0 = F.relu(conv(torch.cat([d0, u0], 1), joined[1]))
    return F.cross_entropy(conv(j0, joined[2]), labels)


def gpt_of(heads: int) -> Callable[..., Any]:
    def normed(x: Any, p: Any) -> Any:
        return F.layer_norm(x, p[0].shape, p[0], p[1], EPSILON)

    def attended(x: Any, p: Any) -> Any:
        parts = dense(x, p[:2]).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return dense(seen.transpose(1, 2).flatten(2), p[2:])

    def loss(table: Any, places: Any, *rest: Any) -> Any:
        *blocks, last, ids, labels = rest
        x = F.embedding(ids, table) + places
        for norm0, attention, norm1, p in blocks:
            x = x + attended(normed(x, norm0), attention)
            x = x + dense(F.gelu(dense(normed(x, norm1), p[:2])), p[2:])
        scores = F.linear(normed(x, last), table)
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())

    return loss


# As it leaves a `torch.nn.LSTM`: what it would compile of this fails.
recurrent: Any = torch.compiler.disable(torch.lstm)


def lstm(
    wx: Any, wh: Any, bias: Any, start: Any, w_out: Any, b_out: Any, xs: Any, labels: Any
) -> Any:
    state, weights = [part[None] for part in start], [wx, wh, bias, torch.zeros_like(bias)]
    hs, _, _ = recurrent(xs, state, weights, True, 1, 0.0, True, False, False)
    return F.cross_entropy(dense(hs, (w_out, b_out)).flatten(0, 1), labels.flatten())


def other_gates(array: Any) -> Any:
    """Ours forget before they let in, PyTorch's let in first."""
    forget, enter, new, show = np.split(np.asarray(array), 4, -1)
    return np.concatenate([enter, forget, new, show], -1)


def lstm_to_torch(params: Any) -> Any:
    wx, wh, bias, *rest = params
    return other_gates(wx).T, other_gates(wh).T, other_gates(bias), *rest


def lstm_to_ours(params: Any) -> Any:
    wx, wh, bias, *rest = params
    return other_gates(wx.T), other_gates(wh.T), other_gates(bias), *rest


def recommender(embeddings: Any, first: Any, last: Any, ids: Any, clicks: Any) -> Any:
    pairs = zip(ids, embeddings, strict=True)
    bags = [F.embedding_bag(chosen, table, mode="sum") for chosen, table in pairs]
    scores = dense(F.relu(dense(torch.cat(bags, 1), first)), last)[:, 0]
    return F.binary_cross_entropy_with_logits(scores, clicks)


FORMS: dict[str, TorchForm] = {
    "MLP": TorchForm(tutorial),
    "MLP of 64 layers": TorchForm(mlp),
    "LeNet": TorchForm(lenet),
    "ResNet-18": TorchForm(resnet_of(small_block)),
    "ResNet-18, 7x7 stem": TorchForm(resnet_of(small_block)),
    "ResNet-50": TorchForm(resnet_of(large_block)),
    "ResNet-50, 7x7 stem": TorchForm(resnet_of(large_block)),
    "MobileNet": TorchForm(mobilenet),
    "U-Net": TorchForm(unet),
    "LSTM": TorchForm(lstm, lstm_to_torch, lstm_to_ours),
    "recommender": TorchForm(recommender),
}


def form_of(name: str, model: WholeModel) -> TorchForm:
    """Of that model of the suite, whatever its size."""
    return TorchForm(gpt_of(model.heads)) if isinstance(model, Gpt) else FORMS[name]
