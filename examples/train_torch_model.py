"""Fine-tune a convolutional network of PyTorch on handwritten digits, and give its weights back.

    python examples/train_torch_model.py

PyTorch makes the network, trains it for an epoch and exports it. Here it is trained on, in a share
of the temporary memory that a step would take. PyTorch is then as accurate with its weights. This
needs `pip install "relaxjax[torch]"`, and to read a file needs no PyTorch:

    python examples/train_torch_model.py --file examples/digits_cnn.pt2 --out weights.safetensors
"""

import argparse
import importlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

import relaxjax
from relaxjax.datasets import batches, digits
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import Adam

BATCH = 64
DATA = digits(flatten=False)
IMAGES, TEST_IMAGES = DATA.train_images[:, None], DATA.test_images[:, None]  # one channel


def network(torch: Any) -> Any:
    """A small convolutional network, trained by PyTorch for one epoch."""
    nn = torch.nn
    torch.manual_seed(0)
    layers: list[Any] = []
    for inputs, outputs in ((1, 12), (12, 12), (12, 12)):
        conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        layers += [conv, nn.BatchNorm2d(outputs), nn.GELU()]
    head = nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(12 * 4 * 4, 10)
    net = nn.Sequential(*layers, *head)
    optimizer, loss = torch.optim.Adam(net.parameters(), 1e-3), nn.CrossEntropyLoss()
    for images, labels in batches(IMAGES, DATA.train_labels, BATCH, seed=0):
        optimizer.zero_grad()
        loss(net(torch.from_numpy(images)), torch.from_numpy(labels).long()).backward()
        optimizer.step()
    return net


def exported(torch: Any, net: Any) -> Any:
    """Its program in training mode, for batches of any size."""
    sizes = ({0: torch.export.Dim("batch", min=2, max=1024)},)
    return torch.export.export(net.train(), (torch.zeros(BATCH, 1, 8, 8),), dynamic_shapes=sizes)


def accuracy_of_torch(torch: Any, net: Any) -> float:
    scores = net.eval()(torch.from_numpy(TEST_IMAGES)).detach().numpy()
    return float(np.mean(np.argmax(scores, axis=1) == DATA.test_labels))


def fine_tune(model: Any, epochs: int, budget: str) -> tuple[Any, float]:
    """A trainer whose steps keep to the budget, and its accuracy behind so many epochs."""
    model = model.with_sizes(n=BATCH)
    batch = IMAGES[:BATCH], DATA.train_labels[:BATCH]
    for option, value in (("memory_policy", "none"), ("memory_budget", budget)):
        trainer = model.trainer(CrossEntropyLoss(), Adam(1e-3), **{option: value})
        print(f"{option} {value}: {trainer.temporary_bytes(*batch) / 1024:.0f} KiB for a step")
    trainer.seed(0)  # of the dropout
    reports = trainer.fit(
        lambda epoch: batches(IMAGES, DATA.train_labels, BATCH, seed=1, epoch=epoch),
        epochs,
        list(batches(TEST_IMAGES, DATA.test_labels, BATCH, drop_last=False)),
    )
    return trainer, reports[-1].accuracy or 0.0


def main(file: Path | None, epochs: int, budget: str, out: Path | None) -> None:
    """Fine-tune the model of a file, or one of PyTorch, which gets its weights back."""
    torch: Any = importlib.import_module("torch") if file is None else None
    net: Any = None if torch is None else network(torch)
    program: Any = file if torch is None else exported(torch, net)
    if torch is not None:
        print(f"PyTorch, one epoch: accuracy on test images {accuracy_of_torch(torch, net):.2%}")
    model = relaxjax.from_torch(program)
    trainer, accuracy = fine_tune(model, epochs, budget)
    print(f"fine-tuned here: accuracy on test images {accuracy:.2%}")
    arrays = model.state_dict(trainer)
    if out is not None:
        out.write_bytes(save(arrays))
    if torch is not None:
        net.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        print(f"back in PyTorch: accuracy on test images {accuracy_of_torch(torch, net):.2%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, help="a .pt2 file, in place of a model of PyTorch")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--budget", default="60%", help="of temporary memory")
    parser.add_argument("--out", type=Path, help="write the weights to this file of safetensors")
    main(**vars(parser.parse_args()))
