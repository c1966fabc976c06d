"""Models of PyTorch that are compared with what they become here; this file needs PyTorch."""

import copy
import importlib
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


def record(name: str, dtype: str, path: Path) -> dict[str, Array]:
    """Export a model, and compute its outputs, states and gradients for random cotangents."""
    torch.manual_seed(0)
    net, inputs = MODELS[name]()
    floating = getattr(torch, dtype)
    net = net.to(floating).train()
    for module in net.modules():  # what is drawn at random is drawn otherwise here
        for option in ("p", "dropout", "dropout_prob", "drop_prob"):
            if isinstance(getattr(module, option, None), float):
                setattr(module, option, 0.0)
    inputs = tuple(one.to(floating) if one.is_floating_point() else one for one in inputs)
    first = tuple(copy.deepcopy(one) for one in inputs)
    with torch.random.fork_rng():
        exported = torch.export.export(copy.deepcopy(net), first)
    torch.export.save(exported, path)
    return results(net, inputs)


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
    "swin_t": _vision("swin_t", 64, stochastic_depth_prob=0.0),
    "squeezenet": _vision("squeezenet1_1", 64),
    "shufflenet_v2": _vision("shufflenet_v2_x0_5", 64),
    "regnet_y_400mf": _vision("regnet_y_400mf", 64),
    "mnasnet": _vision("mnasnet0_5", 64),
    "googlenet": _vision("googlenet", 96, init_weights=False, aux_logits=True),
}


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
        _tiny(
            "ViTForImageClassification",
            "ViTConfig",
            **_WIDTHS,
            intermediate_size=32,
            image_size=16,
            patch_size=4,
        ),
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
    "mamba": _configured(
        _tiny(
            "MambaForCausalLM",
            "MambaConfig",
            hidden_size=16,
            num_hidden_layers=2,
            state_size=4,
            vocab_size=50,
        ),
        tokens(50, 2, 6),
    ),
}


def _timm(name: str, size: int, **options: Any) -> Callable[[], Made]:
    def maker() -> Made:
        timm: Any = importlib.import_module("timm")
        net = timm.create_model(name, num_classes=10, **options)
        return net, (torch.randn(2, 3, size, size),)

    return maker


MODELS |= {
    "timm_mixer": _timm("mixer_s32_224", 64, img_size=64),
    "timm_resmlp": _timm("resmlp_12_224", 32, img_size=32),
    "timm_gcresnet": _timm("gcresnet33ts", 64),
    "timm_ghostnet": _timm("ghostnet_050", 64),
    "timm_poolformer": _timm("poolformer_s12", 64),
}
