"""Models of PyTorch that are compared with what they become here; this file needs PyTorch."""

import copy
import functools
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

torch: Any = importlib.import_module("torch")
nn: Any = torch.nn
functional: Any = torch.nn.functional
torch.set_num_threads(1)

Array = np.ndarray[Any, Any]
# A model with the inputs that it is exported for.
Made = tuple[Any, tuple[Any, ...]]
MODELS: dict[str, Callable[[], Made]] = {}


def model(maker: Callable[[], Made]) -> Callable[[], Made]:
    MODELS[maker.__name__] = maker
    return maker


def prepared(name: str, dtype: str) -> Made:
    """A model that draws nothing at random, which would be drawn otherwise elsewhere."""
    torch.manual_seed(0)
    net, inputs = MODELS[name]()
    floating = getattr(torch, dtype)
    net = net.to(floating).train()
    for module in net.modules():
        for option in ("p", "dropout", "dropout_prob", "drop_prob", "drop_rate"):
            if isinstance(getattr(module, option, None), float):
                setattr(module, option, 0.0)
    return net, tuple(one.to(floating) if one.is_floating_point() else one for one in inputs)


def export(net: Any, inputs: tuple[Any, ...], path: Path) -> None:
    """Write the program of a model, which stays as it is."""
    with torch.random.fork_rng():
        exported = torch.export.export(copy.deepcopy(net), copy.deepcopy(inputs))
    torch.export.save(exported, path)


def record(name: str, dtype: str, path: Path) -> dict[str, Array]:
    """Export a model, and compute its outputs, states and gradients for random cotangents."""
    net, inputs = prepared(name, dtype)
    started = time.perf_counter()
    export(net, inputs, path)
    seconds = np.array(time.perf_counter() - started)
    return {**results(net, inputs), "export_s": seconds}


def results(net: Any, inputs: tuple[Any, ...]) -> dict[str, Array]:
    """What a model gives for inputs, its gradients for random cotangents, and its new states."""
    given = _leaves(inputs)
    outputs = [one for one in _leaves(net(*inputs)) if isinstance(one, torch.Tensor)]
    arrays = {f"input {place}": one.numpy() for place, one in enumerate(given)}
    total: Any = 0.0
    for place, output in enumerate(outputs):
        arrays[f"output {place}"] = output.detach().numpy()
        if output.is_floating_point():
            cotangent = torch.randn(output.shape).to(output.dtype)
            arrays[f"cotangent {place}"] = cotangent.numpy()
            total = total + (output * cotangent).sum()
    total.backward()
    for key, value in net.named_parameters(remove_duplicate=False):
        gradient = torch.zeros_like(value) if value.grad is None else value.grad
        arrays[f"gradient {key}"] = gradient.numpy(force=True)
        arrays[f"state {key}"] = value.detach().numpy()
    for key, value in net.named_buffers():
        arrays[f"state {key}"] = value.numpy()
    return arrays


def _leaves(value: Any) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(value))


@model
def mlp() -> Made:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
    return net, (torch.randn(5, 8),)


@model
def lstm() -> Made:
    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(20, 8)
            self.lstm = nn.LSTM(8, 12, num_layers=2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(24, 20)

        def forward(self, tokens: Any) -> Any:
            outputs, (hidden, memory) = self.lstm(self.embedding(tokens))
            return self.out(outputs), hidden, memory

    return Net(), (torch.randint(0, 20, (3, 7)),)


@model
def gru() -> Made:
    return nn.GRU(6, 8, num_layers=2), (torch.randn(5, 3, 6), torch.randn(2, 3, 8))


@model
def rnn() -> Made:
    return nn.RNN(6, 8), (torch.randn(5, 3, 6),)


@model
def transformer_encoder() -> Made:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2), (torch.randn(2, 6, 16),)


@model
def transformer() -> Made:
    net = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)
    return net, (torch.randn(2, 5, 16), torch.randn(2, 4, 16))


def _vision(name: str, size: int, **options: Any) -> Callable[[], Made]:
    def maker() -> Made:
        torchvision: Any = importlib.import_module("torchvision")
        net = getattr(torchvision.models, name)(num_classes=10, **options)
        for parameter in net.parameters():
            if parameter.ndim > 1 and not parameter.any():  # all gradients before it would be zero
                nn.init.normal_(parameter, std=0.02)
        return net, (torch.randn(2, 3, size, size),)

    return maker


MODELS |= {
    "alexnet": _vision("alexnet", 64),
    "vgg11": _vision("vgg11", 32),
    "vgg11_bn": _vision("vgg11_bn", 32),
    "resnet18": _vision("resnet18", 64),
    "resnet50": _vision("resnet50", 64),
    "resnext50": _vision("resnext50_32x4d", 64),
    "densenet121": _vision("densenet121", 64),
    "mobilenet_v2": _vision("mobilenet_v2", 64),
    "mobilenet_v3_small": _vision("mobilenet_v3_small", 64),
    "efficientnet_b0": _vision("efficientnet_b0", 64, stochastic_depth_prob=0.0),
    "convnext_tiny": _vision("convnext_tiny", 64, stochastic_depth_prob=0.0),
    "vit_b_16": _vision("vit_b_16", 32, image_size=32),
    "swin_t": _vision("swin_t", 64),
    "squeezenet": _vision("squeezenet1_1", 64),
    "shufflenet_v2": _vision("shufflenet_v2_x0_5", 64),
    "regnet_y_400mf": _vision("regnet_y_400mf", 64),
    "mnasnet": _vision("mnasnet0_5", 64),
}


@model
def googlenet() -> Made:
    """Its named tuple as a plain one, which `torch.export` writes."""

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self, net: Any) -> None:
            super().__init__()
            self.net = net

        def forward(self, images: Any) -> Any:
            return tuple(self.net(images))

    net, inputs = _vision("googlenet", 96, init_weights=False, aux_logits=True)()
    return Net(net), inputs


def _configured(maker: Callable[[Any], Any], *inputs: Callable[[], Any]) -> Callable[[], Made]:
    def made() -> Made:
        transformers: Any = importlib.import_module("transformers")
        return _ByPosition(maker(transformers)), tuple(one() for one in inputs)

    return made


class _ByPosition(nn.Module):  # type: ignore[misc]
    """A model of transformers for its first inputs, which gives tensors alone."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, *inputs: Any) -> Any:
        return self.net(*inputs, return_dict=True, use_cache=False).to_tuple()


def tokens(high: int, *shape: int) -> Callable[[], Any]:
    return lambda: torch.randint(0, high, shape)


def _tiny(kind: str, config: str, **options: Any) -> Callable[[Any], Any]:
    def maker(transformers: Any) -> Any:
        return getattr(transformers, kind)(getattr(transformers, config)(**options))

    return maker


_WIDTHS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
_ENCODER = {**_WIDTHS, "intermediate_size": 32, "vocab_size": 50}
_IMAGES = {**_WIDTHS, "intermediate_size": 32, "image_size": 16, "patch_size": 4}
_MAMBA = {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 50}
MODELS |= {
    "bert": _configured(_tiny("BertForMaskedLM", "BertConfig", **_ENCODER), tokens(50, 2, 6)),
    "roberta": _configured(
        _tiny("RobertaForSequenceClassification", "RobertaConfig", **_ENCODER), tokens(50, 2, 6)
    ),
    "gpt2": _configured(
        _tiny("GPT2LMHeadModel", "GPT2Config", n_embd=16, n_layer=2, n_head=2, vocab_size=50),
        tokens(50, 2, 6),
    ),
    "llama": _configured(
        _tiny("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=1, **_ENCODER),
        tokens(50, 2, 6),
    ),
    "mistral": _configured(
        _tiny("MistralForCausalLM", "MistralConfig", num_key_value_heads=1, **_ENCODER),
        tokens(50, 2, 6),
    ),
    "vit": _configured(
        _tiny("ViTForImageClassification", "ViTConfig", **_IMAGES),
        lambda: torch.randn(2, 3, 16, 16),
    ),
    "t5": _configured(
        _tiny(
            "T5ForConditionalGeneration",
            "T5Config",
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=2,
            vocab_size=50,
            decoder_start_token_id=0,
        ),
        tokens(50, 2, 6),
        lambda: torch.ones(2, 6, dtype=torch.long),
        tokens(50, 2, 5),
    ),
    "mamba": _configured(_tiny("MambaForCausalLM", "MambaConfig", **_MAMBA), tokens(50, 2, 6)),
}


def _timm(name: str, size: int, **options: Any) -> Callable[[], Made]:
    def maker() -> Made:
        timm: Any = importlib.import_module("timm")
        net = timm.create_model(name, num_classes=10, **options)
        for value in net.parameters():
            if not value.any():  # as heads begin, so that nothing behind them would be compared
                nn.init.normal_(value, std=0.1)
        return net, (torch.randn(2, 3, size, size),)

    return maker


MODELS |= {
    "timm_mixer": _timm("mixer_s32_224", 64, img_size=64),
    "timm_resmlp": _timm("resmlp_12_224", 32, img_size=32),
    "timm_gcresnet": _timm("gcresnet33ts", 64),
    "timm_ghostnet": _timm("ghostnet_050", 64),
    "timm_poolformer": _timm("poolformer_s12", 64),
}


@model
def whisper() -> Made:
    transformers: Any = importlib.import_module("transformers")
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 32))
    }
    config = transformers.WhisperConfig(
        d_model=16,
        vocab_size=50,
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=12,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        **sides,
    )
    net = _ByPosition(transformers.WhisperForConditionalGeneration(config))
    mask = torch.ones(2, 20, dtype=torch.long)
    return net, (torch.randn(2, 8, 20), mask, torch.randint(0, 50, (2, 5)))


@model
def diffusers_unet() -> Made:
    """A denoising network that looks at a text, as Stable Diffusion's does."""
    diffusers: Any = importlib.import_module("diffusers")
    net = diffusers.UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=8,
        norm_num_groups=4,
        attention_head_dim=4,
    )
    net.forward = functools.partial(net.forward, return_dict=False)
    return net, (torch.randn(2, 4, 8, 8), torch.tensor([3, 7]), torch.randn(2, 5, 8))


@model
def feature_pyramid() -> Made:
    """A detector on a feature pyramid: focal and box losses of fixed anchors."""
    ops: Any = importlib.import_module("torchvision.ops")
    kinds, sizes = 3, (16, 8)

    class Detector(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem = ops.Conv2dNormActivation(3, 8, stride=2)
            self.deeper = ops.Conv2dNormActivation(8, 16, stride=2)
            self.pyramid = ops.FeaturePyramidNetwork([8, 16], 12)
            self.scores = nn.Conv2d(12, kinds, 3, padding=1)
            self.moves = nn.Conv2d(12, 4, 3, padding=1)
            self.register_buffer("anchors", torch.cat([_anchors(32, size) for size in sizes]))

        def forward(self, images: Any, truth: Any, boxes: Any) -> Any:
            fine = self.stem(images)
            levels = self.pyramid({"fine": fine, "coarse": self.deeper(fine)}).values()
            scores = torch.cat([self.scores(x).flatten(2) for x in levels], 2).mT
            moves = torch.cat([self.moves(x).flatten(2) for x in levels], 2).mT
            focal = ops.sigmoid_focal_loss(scores, truth, reduction="mean")
            found = self.anchors + torch.tanh(moves)
            is_object = truth.amax(2) > 0
            near = functional.smooth_l1_loss(found, boxes, reduction="none").sum(2)
            losses = near + 1 - _overlap(found, boxes)
            box = torch.where(is_object, losses, 0.0).sum() / is_object.sum().clamp(min=1)
            return focal, box, scores

    net = Detector()
    truth = (torch.rand(2, len(net.anchors), kinds) > 0.8).float()
    boxes = net.anchors + torch.rand(2, len(net.anchors), 4)
    return net, (torch.randn(2, 3, 32, 32), truth, boxes)


def _overlap(found: Any, boxes: Any) -> Any:
    """The share of the union of two boxes that both of them cover."""

    def area(low: Any, high: Any) -> Any:
        return (high - low).clamp(min=0).prod(-1)

    low, high = torch.split(found, 2, -1)
    their_low, their_high = torch.split(boxes, 2, -1)
    both = area(torch.maximum(low, their_low), torch.minimum(high, their_high))
    return both / (area(low, high) + area(their_low, their_high) - both)


def _anchors(side: int, count: int) -> Any:
    """Boxes around the places of a level, by their corners."""
    step = side / count
    middle = (torch.arange(count) + 0.5) * step
    rows, columns = torch.meshgrid(middle, middle, indexing="ij")
    corner = torch.stack([columns, rows], 2).reshape(-1, 2)
    return torch.cat([corner - step, corner + step], 1)


@model
def graph_network() -> Made:
    """Messages along edges, summed at the nodes that they go to by `index_add`."""

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.message, self.own = nn.Linear(16, 8), nn.Linear(8, 8)
            self.gate = nn.GRUCell(8, 8)
            self.out = nn.Linear(8, 3)

        def forward(self, x: Any, edges: Any, graph: Any) -> Any:
            source, target = edges
            counts = torch.zeros(len(x), dtype=x.dtype).index_add(
                0, target, torch.ones_like(x[source, 0])
            )
            for _ in range(2):
                sent = functional.silu(self.message(torch.cat([x[source], x[target]], 1)))
                total = torch.zeros_like(x).index_add(0, target, sent)
                x = self.gate(total / counts.clamp(min=1).unsqueeze(1), self.own(x))
            summed = torch.zeros(2, 8, dtype=x.dtype).index_add_(0, graph, x)
            return self.out(summed), x

    edges = torch.randint(0, 10, (2, 24))
    return Net(), (torch.randn(10, 8), edges, torch.arange(10) // 5)
