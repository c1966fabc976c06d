"""What `relaxjax train` trains on: examples and targets, for training and for evaluation."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from relaxjax.datasets import Dataset, digits, fashion_mnist
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.types import TensorType
from relaxjax.ir.wording import quoted
from relaxjax.training.batches.ids import RowArgument

from .failure import InputError
from .stored import Array as Array
from .stored import Stored, blocks_of, npy_folder, safetensors, some_of, why_not_read

# 64-bit numbers as 32-bit ones, which models are written in.
_NARROW = {"float64": "float32", "int64": "int32", "uint64": "int32"}

IGNORED = -100  # the class that counts for nothing in every loss by name

# What numpy makes of a dtype such as bfloat16, of which its files have no name.
_NO_NAME = ", as .npy and .npz files do of bfloat16: save it as float32, or as .safetensors"
_SHOWN = 5  # files of a folder that a message names
_READ = ("x", "y", "x_test", "y_test")

FORMS = """\
digits               the handwritten digits that ship with the package
a folder             Fashion-MNIST as torchvision has it, FashionMNIST/raw
a file .npz          with x and y, and x_test and y_test to evaluate on
a file .safetensors  the same, read batch by batch
a folder of .npy     the same: x.npy, y.npy, x_test.npy, y_test.npy"""


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Inputs and targets to train on, and to evaluate on if there are any.

    Those of a file that can be mapped stay there. `unread` names what lies beside them.
    """

    x: Array | Stored
    y: Array | Stored
    x_test: Array | Stored | None = None
    y_test: Array | Stored | None = None
    unread: tuple[str, ...] = ()

    def by_name(self) -> dict[str, Array | Stored | None]:
        return {"x": self.x, "y": self.y, "x_test": self.x_test, "y_test": self.y_test}


def read_examples(name: str, wanted: TensorType) -> Examples:
    """The data of a name, each example in the shape that the model takes."""
    path = Path(name)
    if name == "digits":
        found = _of_images(lambda: digits(_side(wanted)))
    elif name and path.is_dir() and any(path.glob("*.npy")):
        found = _of_arrays(name, _npy(path))
    elif name and path.is_dir():
        _check_folder(path)
        found = _of_images(lambda: fashion_mnist(path))
    elif path.suffix == ".npz":
        found = _of_arrays(name, _npz(path))
    elif path.suffix == ".safetensors":
        found = _of_arrays(name, _safetensors(path))
    else:
        hint = did_you_mean(name, ["digits"])
        raise InputError(f"`{name}` is no data{hint or ':'} give one of\n{FORMS}")
    return Examples(
        _shaped(name, "x", found.x, wanted),
        _narrowed(name, "y", found.y),
        None if found.x_test is None else _shaped(name, "x_test", found.x_test, wanted),
        None if found.y_test is None else _narrowed(name, "y_test", found.y_test),
        found.unread,
    )


def to_run_on(name: str, wanted: TensorType, has_ids: bool = False) -> tuple[Any, Any]:
    """Examples for a trained model, of the part to evaluate on if there is one, and targets.

    Its loss may take class ids for these.
    """
    path = Path(name)
    if name and path.is_dir():
        arrays = _npy(path)
    else:
        read = {".npz": _npz, ".safetensors": _safetensors}.get(path.suffix)
        arrays = {} if read is None else read(path)
    _unread(name, arrays)
    for key in ("x_test", "x"):
        x = arrays.get(key)
        if x is not None and f"y{key[1:]}" not in arrays:
            _check_examples(name, key, x)
            return _shaped(name, key, x, wanted), None
    examples = read_examples(name, wanted)
    is_test = examples.x_test is not None
    targets = examples.y_test if is_test else examples.y
    if has_ids:
        _check_integers(name, "y_test" if is_test else "y", targets)
    return examples.x_test if is_test else examples.x, targets


def held_out(examples: Examples, share: float, seed: int) -> Examples:
    """The examples with a share of them, which the seed decides, kept for evaluation."""
    if examples.x_test is not None or not share:
        return examples
    order = np.random.default_rng(seed).permutation(len(examples.x))
    count = max(1, round(share * len(order)))
    test, train = order[:count], order[count:]
    arrays = [some_of(each, part) for part in (train, test) for each in (examples.x, examples.y)]
    return replace(Examples(*arrays), unread=examples.unread)


def check_classes(name: str, examples: Examples, scores: TensorType) -> None:
    """Raise where class ids are none of those that the model scores: the loss would not notice."""
    count = scores.dims[1] if scores.dims is not None and scores.ndim > 1 else None
    if not isinstance(count, int):
        return
    for key, ids in (("y", examples.y), ("y_test", examples.y_test)):
        if ids is not None and ids.ndim == scores.ndim:
            for block in blocks_of(ids):
                _check_shares(name, key, block)
        if ids is None or ids.ndim != scores.ndim - 1:
            continue
        _check_integers(name, key, ids)
        for block in blocks_of(ids):
            _check_ids(name, key, block, count)


def _check_integers(name: str, key: str, ids: Any) -> None:
    if not np.issubdtype(ids.dtype, np.integer):
        raise InputError(
            f"`{name}`: class ids are integers, but `{key}` holds numbers of {ids.dtype}: save "
            'them by .astype("int32")'
        )


def _check_ids(name: str, key: str, ids: Array, count: int) -> None:
    strange = ids[(ids != IGNORED) & ((ids < 0) | (ids >= count))]
    if strange.size:
        raise InputError(
            f"`{name}`: the model scores {count} classes, 0 to {count - 1}, but `{key}` holds "
            f"{strange.min()}" + (f" to {strange.max()}" if strange.size > 1 else "")
        )


def _check_shares(name: str, key: str, shares: Array) -> None:
    """Raise where targets are neither one-hot nor probabilities: they may be those of a regression,
    for which the least cross entropy is minus infinity."""
    sums = shares.sum(1, dtype="float64")
    if (shares < 0).any() or not np.allclose(sums, 1, atol=0.01):
        raise InputError(
            f"`{name}`: a loss of classes takes ids, one-hot vectors or probabilities, those in "
            f"`{key}` are of {shares.min():.4g} to {shares.max():.4g} and add up to "
            f"{sums.min():.4g} to {sums.max():.4g}: give another --loss, such as mse for numbers "
            "or bce_with_logits for several labels"
        )


def check_rows(name: str, examples: Examples, ids: Sequence[RowArgument]) -> None:
    """Raise where ids in the examples are none of the rows that the model has."""
    for key, x in (("x", examples.x), ("x_test", examples.x_test)):
        for one in ids:
            if x is not None and np.issubdtype(x.dtype, np.integer):
                try:
                    for block in blocks_of(x):
                        one.check(block)
                except ValueError as error:
                    raise InputError(f"`{name}`, `{key}`: {error}") from error


def _check_folder(path: Path) -> None:
    if not (path / "FashionMNIST").is_dir():
        files = sorted(one.name for one in path.iterdir())
        held = quoted(files[:_SHOWN]) or "nothing"
        more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        raise InputError(
            f"the folder `{path}` is no data, it holds {held}{more}: give one of\n{FORMS}"
        )


def _of_images(read: Callable[[], Dataset]) -> Examples:
    try:
        data = read()
    except (FileNotFoundError, ValueError) as error:
        raise InputError(str(error)) from error
    return Examples(data.train_images, data.train_labels, data.test_images, data.test_labels)


def _of_arrays(name: str, arrays: dict[str, Array]) -> Examples:
    for key in ("x", "y"):
        if key not in arrays:
            held = quoted(sorted(arrays)) or "nothing"
            raise InputError(f"`{name}` must hold arrays `x` and `y`, but it holds {held}")
    unread = _unread(name, arrays)
    test = [arrays.get(key) for key in ("x_test", "y_test")]
    if (test[0] is None) != (test[1] is None):
        raise InputError(f"`{name}` must hold both `x_test` and `y_test`, or neither")
    for key, array in arrays.items():
        if key in _READ:
            _check_examples(name, key, array)
    for x, y, suffix in ((arrays["x"], arrays["y"], ""), (*test, "_test")):
        if x is not None and y is not None and len(x) != len(y):
            raise InputError(
                f"`{name}`: there are {len(x)} examples in `x{suffix}`, but {len(y)} targets in "
                f"`y{suffix}`"
            )
    found = Examples(arrays["x"], arrays["y"], test[0], test[1], unread)
    _check_alike(name, found)
    return found


def _unread(name: str, arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """The arrays that stand for nothing; raise where one may be meant for what is missing."""
    missing = [key for key in _READ if key not in arrays]
    others = tuple(sorted(key for key in arrays if key not in _READ))
    for other in others:
        hint = did_you_mean(other.lower(), missing)
        if hint:
            raise InputError(
                f"`{name}` holds `{other}`, which is not read: only {', '.join(_READ)} are{hint} "
                "Give it that name, or take it out"
            )
    return others


def _check_alike(name: str, found: Examples) -> None:
    """Raise where the targets to evaluate on are of another kind: the first epoch would be lost."""
    if found.x_test is None or found.y_test is None:
        return
    ours, theirs = found.y.shape[1:], found.y_test.shape[1:]
    is_alike = found.x.shape[1:] == found.x_test.shape[1:]  # else rows may be of other lengths
    if len(ours) != len(theirs) or (is_alike and ours != theirs):
        raise InputError(
            f"`{name}`: a target in `y` is of shape {ours}, and one in `y_test` of shape {theirs}: "
            "give both the same"
        )


def _check_examples(name: str, key: str, array: Array) -> None:
    if not array.ndim:
        raise InputError(f"`{name}`: `{key}` must hold an entry for each example, not a number")
    if not len(array):
        raise InputError(f"`{name}`: `{key}` holds no examples")


def _npy(folder: Path) -> dict[str, Array]:
    for path in sorted(folder.iterdir()):
        if path.stem in _READ and not (folder / f"{path.stem}.npy").exists():
            raise InputError(f"`{path}` is not read, only files .npy of a folder are: save it so")
    return npy_folder(folder)


def _npz(path: Path) -> dict[str, Array]:
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it is one of a single array, .npy: write several by np.savez")
        with file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"there is no file `{path}`") from None
    except Exception as error:  # a damaged archive raises errors of many kinds
        why = why_not_read(error)
        raise InputError(f"`{path}` cannot be read as an .npz file: {why}") from error


def _safetensors(path: Path) -> dict[str, Array]:
    try:
        return safetensors(path)
    except FileNotFoundError:
        raise InputError(f"there is no file `{path}`") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"`{path}` cannot be read as a safetensors file: {error}") from error


def _shaped(name: str, key: str, x: Any, wanted: TensorType) -> Array | Stored:
    """Examples in the shape of the model's input, flattened or not."""
    dims = (wanted.dims or ())[1:]
    sizes = tuple(int(dim) for dim in dims if isinstance(dim, int))
    is_known = wanted.dims is not None and len(sizes) == len(dims)
    if not is_known or x.shape[1:] == sizes:
        return _narrowed(name, key, x)
    if math.prod(x.shape[1:]) != math.prod(sizes):
        raise InputError(
            f"the model takes examples of shape {sizes}, but those of `{name}` are of shape "
            f"{x.shape[1:]}"
        )
    return _narrowed(name, key, x, sizes)


def _narrowed(
    name: str, key: str, array: Any, sizes: tuple[int, ...] | None = None
) -> Array | Stored:
    """Rows in narrow numbers and in a shape; those of a file are made so when they are read."""
    if array.dtype.kind in "cmMOSU" or array.dtype.type is np.void:
        mend = _NO_NAME if array.dtype.type is np.void else ""
        raise InputError(
            f"`{name}`: `{key}` must hold real numbers, but it holds {array.dtype}{mend}"
        )

    def made(rows: Array) -> Array:
        shaped = rows if sizes is None else rows.reshape(len(rows), *sizes)
        with np.errstate(over="ignore"):  # what is too large is refused
            return shaped.astype(_NARROW.get(str(rows.dtype), rows.dtype))

    if isinstance(array, np.memmap):
        _check_stored(name, key, array)
        return Stored(array, made)
    _check_numbers(name, key, array, 0)
    return made(array)


def _check_stored(name: str, key: str, array: Array) -> None:
    """Look at the blocks that are for this process."""
    as_it_is = Stored(array, lambda rows: rows)
    for start, block in as_it_is.blocks():
        _check_numbers(name, key, block, start)


def _check_numbers(name: str, key: str, array: Array, first: int) -> None:
    """Raise where numbers are lost in 32 bits; the rows are counted from `first` on."""
    with np.errstate(over="ignore"):
        narrowed = array.astype(_NARROW.get(str(array.dtype), array.dtype))
    sound = np.isfinite(narrowed)
    if not sound.all():
        row = first + int(np.argwhere(~sound)[0, 0])
        raise InputError(
            f"`{name}`: `{key}[{row}]` holds {array[~sound][0]}, which is not finite in "
            f"{narrowed.dtype}"
        )
    lost = array[narrowed != array] if array.dtype.kind in "iu" else array[:0]
    if lost.size:
        raise InputError(f"`{name}`: `{key}` holds {lost.flat[0]}, which is no integer of 32 bits")


def _side(wanted: TensorType) -> int | None:
    """The side of the square images that the model takes; None where it takes others."""
    sizes = [dim for dim in (wanted.dims or ())[1:] if isinstance(dim, int)]
    side = math.isqrt(math.prod(sizes))
    return side if side * side == math.prod(sizes) and side >= 8 else None
