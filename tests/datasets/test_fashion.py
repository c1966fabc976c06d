"""Fashion-MNIST from its files, with tiny files in place of the real ones."""

import gzip
import hashlib
import re
from pathlib import Path
from typing import Any

import chex
import numpy as np
import pytest

from relaxjax.datasets import ChecksumError, fashion, fashion_mnist, idx

NAMES = tuple(fashion.CHECKSUMS)
IMAGES = {"train": 6, "t10k": 3}


def contents() -> dict[str, bytes]:
    """The four files with a few random images each."""
    rng = np.random.default_rng(0)
    arrays = {
        f"{part}-{kind}.gz": rng.integers(0, bound, (count, *shape)).astype("uint8")
        for part, count in IMAGES.items()
        for kind, bound, shape in (
            ("images-idx3-ubyte", 256, (28, 28)),
            ("labels-idx1-ubyte", 10, ()),
        )
    }
    return {name: gzip.compress(idx.encode(arrays[name]), mtime=0) for name in NAMES}


CONTENTS = contents()


@pytest.fixture(autouse=True)
def _known_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny files count as the right ones."""
    sums = {name: hashlib.md5(content).hexdigest() for name, content in CONTENTS.items()}
    monkeypatch.setattr(fashion, "CHECKSUMS", sums)


def folder_of(root: Path) -> Path:
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    for name, content in CONTENTS.items():
        (folder / name).write_bytes(content)
    return folder


def unpack(folder: Path, name: str) -> Path:
    """Leave only the unpacked file."""
    (folder / name).unlink()
    path = folder / name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(CONTENTS[name]))
    return path


def test_the_four_files_in_the_layout_of_torchvision(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    data = fashion_mnist(str(tmp_path))
    chex.assert_shape([data.train_images, data.test_images], [(6, 784), (3, 784)])
    chex.assert_type([data.train_images, data.train_labels], [np.float32, np.int32])
    pixels = idx.read(folder / NAMES[0])
    np.testing.assert_allclose(data.train_images, pixels.reshape(6, 784) / 255, rtol=1e-6)
    np.testing.assert_array_equal(data.test_labels, idx.read(folder / NAMES[3]))
    assert data.class_names[9] == "Ankle boot"
    square = fashion_mnist(tmp_path, flatten=False, one_hot=True)
    chex.assert_shape([square.test_images, square.test_labels], [(3, 28, 28), (3, 10)])
    np.testing.assert_array_equal(square.test_labels.argmax(-1), data.test_labels)


def test_unpacked_files_are_the_same_data(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    packed = fashion_mnist(tmp_path)
    for name in NAMES:
        unpack(folder, name)
    np.testing.assert_array_equal(fashion_mnist(tmp_path).train_images, packed.train_images)


def test_download_fetches_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, folder = folder_of(tmp_path / "source"), folder_of(tmp_path / "root")
    monkeypatch.setattr(fashion, "SOURCE", f"{source.as_uri()}/")
    for name in NAMES[1:]:
        (folder / name).unlink()
    (source / NAMES[0]).unlink()  # is not asked for
    fetched = fashion_mnist(tmp_path / "root", download=True)
    chex.assert_shape(fetched.train_images, (6, 784))
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)


# What is refused


def test_missing_files_are_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / NAMES[0]).unlink()
    (folder / NAMES[2]).unlink()
    match = re.escape(
        f"there is no {NAMES[0]}, {NAMES[2]} in {folder}, nor unpacked: fetch them by "
        f"fashion_mnist({str(tmp_path)!r}, download=True), or take digits(28)"
    )
    with pytest.raises(FileNotFoundError, match=match):
        fashion_mnist(tmp_path)


def test_a_damaged_file_is_told_by_its_checksum(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / NAMES[1]).write_bytes(b"x")
    match = re.escape(
        f"{folder / NAMES[1]} is damaged or another file: its MD5 checksum is "
        f"{hashlib.md5(b'x').hexdigest()}, but that of Fashion-MNIST's {NAMES[1]} is "
        f"{fashion.CHECKSUMS[NAMES[1]]}; delete it and fetch it again by download=True"
    )
    with pytest.raises(ChecksumError, match=match):
        fashion_mnist(tmp_path)


def test_what_is_fetched_and_wrong_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder_of(tmp_path / "source")
    (source / NAMES[0]).write_bytes(b"a page that says sorry")
    monkeypatch.setattr(fashion, "SOURCE", f"{source.as_uri()}/")
    with pytest.raises(ChecksumError, match=f"what .*{NAMES[0]} gave is damaged"):
        fashion_mnist(tmp_path / "root", download=True)
    assert not list(tmp_path.glob("root/**/*ubyte*"))


def test_a_source_out_of_reach_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fashion, "SOURCE", f"{tmp_path.as_uri()}/nowhere/")
    match = rf"nowhere/{NAMES[0]} could not be fetched \(.*\): put the file into .* by other means"
    with pytest.raises(ConnectionError, match=match):
        fashion_mnist(tmp_path, download=True)


@pytest.mark.parametrize(
    ("name", "array", "match"),
    [
        (NAMES[0], np.zeros((6, 8, 8)), r"\(count, 28, 28\) and as many labels .* \(6, 8, 8\)"),
        (NAMES[3], np.zeros(4), r"they hold arrays of shape \(3, 28, 28\) and \(4,\)"),
        (NAMES[1], np.full(6, 10), "classes go from 0 to 9, but there is a label 10"),
    ],
    ids=["size", "count", "label"],
)
def test_unpacked_files_of_something_else(
    name: str, array: Any, match: str, tmp_path: Path
) -> None:
    idx.write(unpack(folder_of(tmp_path), name), array.astype("uint8"))
    with pytest.raises(ValueError, match=f"are not those of Fashion-MNIST: .*{match}"):
        fashion_mnist(tmp_path)
