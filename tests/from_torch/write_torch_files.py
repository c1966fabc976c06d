"""Write the files that the tests here read; this needs PyTorch, and the tests do not.

python tests/from_torch/write_torch_files.py [NAMES]

Without names it writes all of them; a name is that of a model below.
"""

import importlib
import io
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
sys.path += map(str, (HERE.parent / "long", HERE.parent / "support", EXAMPLES))

import numpy as np  # noqa: E402
import torch_zoo as zoo  # noqa: E402
from torch_loss_cases import CASES, several  # noqa: E402

torch: Any = zoo.torch
nn: Any = torch.nn
higher_order: Any = importlib.import_module("torch._higher_order_ops")
scan: Any = importlib.import_module("torch._higher_order_ops.scan").scan
while_loop: Any = importlib.import_module("torch._higher_order_ops.while_loop").while_loop
example: Any = importlib.import_module("train_torch_model")


class Cnn(nn.Module):  # type: ignore[misc]  # torch has no types here
    """What is in files of no other model: names, ties, writes, frozen weights, constants."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(16, 6)
        self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("mask", torch.arange(6.0), persistent=False)

    def forward(self, images: Any, more: dict[str, Any]) -> dict[str, Any]:
        x = torch.relu_(self.norm(self.conv(images)))
        x = nn.functional.avg_pool2d(x, 4).flatten(1)
        scores = self.linear(self.dropout(x)) * self.frozen + more["bias"] * self.mask
        size = scores.abs().mean().detach()
        scores[:, 0] = scores[:, 0] * self.scale
        return {"scores": scores, "size": size, "name": None}


class Tied(nn.Module):  # type: ignore[misc]
    """An embedding that is the last layer too, and a recurrent layer between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: Any) -> Any:
        x = self.lstm(self.embedding(tokens))[0]
        with torch.no_grad():
            size = x.abs().mean()
        return self.out(x / size), size


class Masked(nn.Module):  # type: ignore[misc]
    """What a mask chooses, whose size no program knows; what it does not choose may be NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.value = nn.Linear(4, 1, bias=False)

    def forward(self, x: Any, targets: Any, labels: Any, mask: Any) -> Any:
        scores, value = self.linear(x), self.value(x)[..., 0]
        errors = value[mask] - targets[mask]
        known, label = scores[labels >= 0], labels[labels >= 0]
        written = scores.clone()
        written[mask] = torch.tanh(scores[mask] * 2) + self.linear.bias
        functional = nn.functional
        return (
            (errors**2).mean(),
            functional.smooth_l1_loss(value[mask], targets[mask], reduction="sum"),
            functional.cross_entropy(known, label, label_smoothing=0.1),
            functional.binary_cross_entropy_with_logits(value[mask], (targets > 0)[mask].float()),
            scores[mask].mean(0),
            scores[mask].abs().mean((0, 1)),
            scores[mask].sum(1).sum(),
            torch.masked_select(scores, mask[..., None]).mean(),
            written,
        )


def masked_inputs() -> Any:
    mask = torch.tensor([[True, False, True], [False, False, True]])
    targets = torch.where(mask, torch.randn(2, 3), torch.nan)
    return torch.randn(2, 3, 4), targets, torch.tensor([[0, -1, 4], [2, 1, -7]]), mask


class Branches(nn.Module):  # type: ignore[misc]
    """One of two graphs, by a number and by a size; one of them inside of another."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.factor = nn.Parameter(torch.tensor([0.5, -1.5, 2.0]))

    def forward(self, x: Any, y: Any) -> Any:
        def inner(x: Any) -> Any:
            return torch.cond(x.max() > 1, torch.sin, lambda x: x / self.factor, (x,))

        chosen = torch.cond(x.sum() > 0, inner, lambda x: x * self.factor, (x,))
        several = torch.cond(
            y.sum() > 0,
            lambda y: (self.linear(y), y.cos()),
            lambda y: (self.linear(y).exp(), y * self.factor),
            (y,),
        )
        by_size = torch.cond(
            x.shape[0] > 4, lambda x: x * self.factor, lambda x: x + self.factor, (x,)
        )
        return chosen, *several, by_size


class Loops(nn.Module):  # type: ignore[misc]
    """A loop over rows, one for each row, one that counts its steps, and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any, y: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            hidden = torch.tanh(self.linear(carry[0]) + row * carry[1])
            return (hidden, carry[1] * 0.9), (hidden.sum(), hidden[0] * 2)

        last, rows = scan(step, (y[0], torch.ones(2, 1)), x, dim=0, reverse=True)
        mapped = higher_order.map(lambda row, shift: self.linear(row) * shift.cos(), x, y[0, 0])
        doubled = while_loop(
            lambda one: one.sum() < 20, lambda one: (one * 2,), (x.abs().sum(0) + 1,)
        )
        return *last, *rows, mapped, *self.counted(y), *doubled

    def counted(self, y: Any) -> Any:
        """Outside of a program, steps of Python: the weights' gradients of torch's are wrong."""
        carry = torch.full((), 9), y * 0.5
        if torch.compiler.is_exporting():
            return while_loop(self.goes_on, self.step, carry)
        while self.goes_on(*carry):
            carry = self.step(*carry)
        return carry

    def goes_on(self, count: Any, carry: Any) -> Any:
        return (count >= 2) & (carry.sum() > -50)

    def step(self, count: Any, carry: Any) -> Any:
        return count - 2, torch.tanh(self.linear(carry))


class Autocast(nn.Module):  # type: ignore[misc]
    """Products in bfloat16, losses in float32, and a region inside where nothing is cast."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.last = nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.norm(torch.relu(self.linear(x)))
            scores = self.last(hidden)
            with torch.autocast("cpu", enabled=False):
                exact = self.linear(x)
            both = torch.cat([hidden, exact])
            products = torch.einsum("ij,kj->ik", x, self.linear.weight)
            with torch.autocast("cuda", dtype=torch.float16):  # where none of these tensors is
                error = nn.functional.mse_loss(scores, exact[:, :2])
        return scores.float(), both, error, products.float()


class Strided(nn.Module):  # type: ignore[misc]
    """What shows memory by strides, of a tensor that lies there the other way round, too."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: Any) -> Any:
        windows = self.weight.as_strided((2, 3, 2), (6, 2, 1), 6)
        turned = (self.weight * 2).T.as_strided((3, 2), (7, 1))
        written = x + self.weight
        written.as_strided((4,), (7,)).mul_(3)
        return windows, turned, written


def encoder() -> Any:
    return nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)


def block() -> Any:
    """What is normalised, without `detach`, which `run_decompositions` forgets."""
    norm, last = nn.BatchNorm2d(3), nn.Linear(12, 4)
    return nn.Sequential(nn.Conv2d(1, 3, 3), norm, nn.MaxPool2d(3), nn.Flatten(), nn.GELU(), last)


def cnn() -> Any:
    net = Cnn()
    net.dropout.p = 0.0  # what torch draws is not drawn here
    return net


MODELS: dict[str, Any] = {
    "cnn": (cnn, lambda: (torch.randn(3, 1, 8, 8), {"bias": torch.randn(3, 6)})),
    "block": (block, lambda: (torch.randn(3, 1, 8, 8),)),
    "tied": (Tied, lambda: (torch.randint(0, 11, (3, 5)),)),
    "masked": (Masked, masked_inputs),
    "encoder": (encoder, lambda: (torch.randn(3, 4, 8),)),
    "branches": (Branches, lambda: (torch.tensor([[0.1, 0.2, 0.3]] * 5), -torch.ones(5, 3))),
    "loops": (Loops, lambda: (torch.randn(5, 2, 3), torch.randn(5, 2, 3))),
    "autocast": (Autocast, lambda: (torch.randn(5, 3),)),
    "strided": (Strided, lambda: (torch.randn(4, 6),)),
}
FIXED = ("strided",)  # whose first axis has one length alone
# Those that are written as the functional programs of `run_decompositions`, too.
FUNCTIONAL = ("block", "encoder")


def main(names: list[str]) -> None:
    for name in names or MODELS:
        write(name, *MODELS[name])
    if not names:
        write_others()


def write(name: str, maker: Any, inputs: Any) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    torch.manual_seed(0)
    net, given = maker().train(), inputs()
    shapes = tuple(
        {key: {0: batch} for key in one} if isinstance(one, dict) else {0: batch} for one in given
    )
    exported = torch.export.export(net, given, dynamic_shapes=None if name in FIXED else shapes)
    _save(exported, _file(name))
    if name in FUNCTIONAL:
        _save(exported.run_decompositions(), _file(f"{name}_functional"))
    arrays = zoo.results(net, given)
    np.savez_compressed(HERE / "files" / f"{name}.npz", allow_pickle=False, **arrays)


def write_others() -> None:
    with_dropout = Cnn().train()
    given = MODELS["cnn"][1]()
    _save(torch.export.export(with_dropout, given), _file("dropout"))
    _save(torch.export.export(with_dropout.eval(), given), _file("evaluated"))
    np.savez_compressed(HERE / "files" / "losses.npz", allow_pickle=False, **losses())
    net = example.network(torch)
    _save(example.exported(torch, net), EXAMPLES / "digits_cnn.pt2")


def losses() -> dict[str, Any]:
    """What the losses give, and the gradients of their sums."""
    found: dict[str, Any] = {}
    for name, (kind, options, predictions, targets) in CASES.items():
        given = {
            key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
            for key, value in options.items()
        }
        outputs = [torch.from_numpy(one).requires_grad_() for one in several(predictions)]
        args = [*outputs, *(torch.from_numpy(one) for one in several(targets))]
        if kind == "GaussianNLLLoss":  # which takes the variances last
            args[1:] = reversed(args[1:])
        loss = getattr(nn, kind)(**given)(*args)
        loss.sum().backward()
        found[f"{name} loss"] = loss.detach().numpy()
        found |= {f"{name} gradient {i}": one.grad.numpy() for i, one in enumerate(outputs)}
    return found


def _file(name: str) -> Path:
    return HERE / "files" / f"{name}.pt2"


def _save(exported: Any, path: Path) -> None:
    """Write a program without the example inputs, and with what torch leaves as it is deflated."""
    file = io.BytesIO()
    torch.export.save(exported, file)
    with (
        zipfile.ZipFile(file) as read,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for entry in read.infolist():
            if "/sample_inputs/" not in entry.filename:
                data = read.read(entry)
                for folder in (HERE, sysconfig.get_path("purelib")):
                    data = data.replace(f"{folder}/".encode(), b"")  # where its lines are
                undated = zipfile.ZipInfo(entry.filename)  # so that it is the same each time
                written.writestr(undated, data, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(sys.argv[1:])
