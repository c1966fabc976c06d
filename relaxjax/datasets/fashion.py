"""Fashion-MNIST, read from the files that torchvision keeps, or fetched into their place."""

import hashlib
import os
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from . import idx
from .image_data import Array, Dataset, as_images, as_labels

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
SIDE = 28
SOURCE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
# MD5, those that torchvision checks. For the unpacked files it has none.
CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}


class ChecksumError(ValueError):
    """A file of a data set is damaged, or not the file that its name promises."""


def fashion_mnist(
    root: str | Path, download: bool = False, *, flatten: bool = True, one_hot: bool = False
) -> Dataset:
    """Fashion-MNIST: 60000 training and 10000 test images of 28x28 grey pixels, in ten classes.

    The four files lie in `root`/FashionMNIST/raw, where torchvision puts them, gzipped or unpacked.
    With `download` those that are not there are fetched; without it they must be there. Gzipped
    files must have the right checksum. `flatten` and `one_hot` are those of `digits`.
    """
    folder = Path(root) / "FashionMNIST" / "raw"
    if missing := [name for name in CHECKSUMS if _found(folder, name) is None]:
        if not download:
            raise FileNotFoundError(
                f"there is no {', '.join(missing)} in {folder}, nor unpacked: fetch them by "
                f"fashion_mnist({str(root)!r}, download=True), or take digits(28), which ship with "
                "the package"
            )
        for name in missing:
            _fetch(folder, name)
    arrays = [_read(folder, name) for name in CHECKSUMS]
    parts = [_part(folder, *pair) for pair in (arrays[:2], arrays[2:])]
    (train_images, train_labels), (test_images, test_labels) = (
        (as_images(pixels / 255, flatten), as_labels(classes, len(CLASS_NAMES), one_hot))
        for pixels, classes in parts
    )
    return Dataset(train_images, train_labels, test_images, test_labels, CLASS_NAMES)


def _found(folder: Path, name: str) -> Path | None:
    """The file itself, or what it was unpacked to."""
    places = (folder / name, folder / name.removesuffix(".gz"))
    return next((path for path in places if path.exists()), None)


def _read(folder: Path, name: str) -> Array:
    path = _found(folder, name)
    assert path is not None
    if path.name == name:
        _check(path.read_bytes(), str(path), name)
    return idx.read(path)


def _part(folder: Path, images: Array, labels: Array) -> tuple[Array, Array]:
    """Images and labels that belong together; a file without a checksum may be anything."""
    if images.shape[1:] != (SIDE, SIDE) or labels.shape != images.shape[:1]:
        raise ValueError(
            f"the files in {folder} are not those of Fashion-MNIST: images of shape "
            f"(count, {SIDE}, {SIDE}) and as many labels are expected, but they hold arrays of "
            f"shape {images.shape} and {labels.shape}"
        )
    if labels.max(initial=0) >= len(CLASS_NAMES):
        raise ValueError(
            f"the files in {folder} are not those of Fashion-MNIST: its classes go from 0 to "
            f"{len(CLASS_NAMES) - 1}, but there is a label {labels.max()}"
        )
    return images.astype("float32"), labels


def _fetch(folder: Path, name: str) -> None:
    """Put a file into its place; it is whole and right, or not there."""
    url = SOURCE + name
    try:
        with urlopen(url, timeout=60) as answer:
            content: bytes = answer.read()
    except (OSError, HTTPException) as error:
        raise ConnectionError(
            f"{url} could not be fetched ({error}): put the file into {folder} by other means"
        ) from error
    _check(content, f"what {url} gave", name)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{name}.part"
    unfinished.write_bytes(content)
    os.replace(unfinished, folder / name)


def _check(content: bytes, where: str, name: str) -> None:
    found, expected = hashlib.md5(content, usedforsecurity=False).hexdigest(), CHECKSUMS[name]
    if found != expected:
        raise ChecksumError(
            f"{where} is damaged or another file: its MD5 checksum is {found}, but that of "
            f"Fashion-MNIST's {name} is {expected}; delete it and fetch it again by download=True"
        )
