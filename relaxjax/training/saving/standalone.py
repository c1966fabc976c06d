"""A trained model and its training step, run by JAX alone. `Trainer.export` writes this file.

    from model import Model

    model = Model()
    scores = model.predict(images)
    loss = model.train_step(images, labels)
    model.save()

It needs jax, numpy, safetensors and flatbuffers.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from safetensors import safe_open
from safetensors.numpy import load_file, save


class Model:
    """Parameters, model states and the optimizer's state, and the two functions that use them."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(__file__).parent if folder is None else Path(folder)
        self.facts = json.loads((self.folder / "model.json").read_text(encoding="utf-8"))
        arrays, self._texts = _read(self.folder / "state.safetensors")
        with self._dtypes():
            self.params, self.states, self.optimizer = (
                tuple(self._on_device(name, arrays[name]) for name in self.facts[group])
                for group in ("params", "states", "optimizer")
            )
            self.params = self._stored("params", self.params)
            self.optimizer = self._stored("optimizer", self.optimizer)
        own = {name for group in ("params", "states", "optimizer") for name in self.facts[group]}
        self._others = {name: array for name, array in arrays.items() if name not in own}
        train_step = self._artifact("train_step")
        has_model = (self.folder / "predict.jax_export").exists()
        self._predict = jax.jit(self._artifact("predict").call) if has_model else None
        self._train_step = jax.jit(train_step.call, donate_argnums=(0, 1, 2))
        names = [*self.facts["inputs"], *self.facts["targets"]]
        self._types = dict(zip(names, train_step.in_avals[-len(names) :], strict=True))

    def predict(self, *inputs: Any) -> Any:
        """The outputs of the model."""
        if self._predict is None:
            raise ValueError("only a loss was exported, which does not tell what a model predicts")
        with self._dtypes():
            given = self._given("inputs", inputs)
            result = self._predict(*given, *self.params, *self.states)
        if not self.states:
            return result
        outputs = result[: len(result) - len(self.states)]
        return outputs[0] if len(outputs) == 1 else outputs

    def train_step(self, inputs: Any, targets: Any = ()) -> jax.Array:
        """Make one step on a batch, and give its loss. Several inputs or targets come as a list.

        A loss from JAX has no targets: the arrays of its batch, in their order, are the inputs.
        """
        with self._dtypes():
            given = self._given("inputs", _listed(inputs))
            batch = (*given, *self._given("targets", _listed(targets)))
            _check_sizes(self._types, batch)
            result = self._train_step(self.params, self.states, self.optimizer, *batch)
        loss: jax.Array
        loss, self.params, self.states, self.optimizer = result
        return loss

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write the state to a file, by default over the one it was read from."""
        arrays = dict(self._others)
        for group in ("params", "states", "optimizer"):
            held = self._apart(group, getattr(self, group))
            for name, array in zip(self.facts[group], held, strict=True):
                is_key = name in self.facts["keys"]
                arrays[name] = np.asarray(jax.random.key_data(array) if is_key else array)
        target = self.folder / "state.safetensors" if path is None else Path(path)
        checksums = {name: _checksum(array) for name, array in arrays.items()}
        texts = {**self._texts, "checksums": json.dumps(checksums)}
        _replace(target, save(arrays, {**texts, "checksum": _checksum_of_texts(texts)}))

    def _artifact(self, name: str) -> export.Exported:
        content = (self.folder / f"{name}.jax_export").read_bytes()
        return export.deserialize(bytearray(content))

    def _given(self, kind: str, values: Any) -> list[Any]:
        """The inputs or the targets as the artifacts take them; others are an error."""
        names = self.facts[kind]
        if len(values) != len(names):
            listed = ", ".join(f"`{name}`" for name in names)
            raise ValueError(f"the {kind} are {listed}, but {len(values)} arrays were given")
        given = [
            _admitted(name, value, self._types[name])
            for name, value in zip(names, values, strict=True)
        ]
        for name, array in zip(names, given, strict=True):
            for facts in self.facts["ids"].get(name, ()):
                _check_ids(name, array, **facts)
        return given

    def _on_device(self, name: str, array: np.ndarray[Any, Any]) -> jax.Array:
        if name in self.facts["keys"]:
            key: jax.Array = jax.random.wrap_key_data(
                jnp.array(array), impl=self.facts["keys"][name]
            )
            return key
        return jnp.array(array)

    def _stored(self, group: str, own: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        """Arrays as the step has them: axes in its order, those of equal layers rows of one."""
        found: dict[int, list[tuple[int, jax.Array]]] = {}
        for place, array in zip(self.facts["places"][group], own, strict=True):
            moved = jnp.transpose(array, place["order"]) if "order" in place else array
            found.setdefault(place["array"], []).append((place.get("row", -1), moved))
        stored = (sorted(rows, key=lambda row: row[0]) for _, rows in sorted(found.items()))
        return tuple(
            rows[0][1] if rows[0][0] < 0 else jnp.stack([array for _, array in rows])
            for rows in stored
        )

    def _apart(self, group: str, held: tuple[jax.Array, ...]) -> list[jax.Array]:
        """Arrays by themselves, in the order of their names."""
        if group not in self.facts["places"]:
            return list(held)
        found = []
        for place in self.facts["places"][group]:
            array = held[place["array"]]
            own = array[place["row"]] if "row" in place else array
            order = np.argsort(place["order"]).tolist() if "order" in place else None
            found.append(own if order is None else jnp.transpose(own, order))
        return found

    def _dtypes(self) -> Any:
        return jax.enable_x64(self.facts["needs_x64"])


def _read(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """The arrays and the texts of a file, if they are those that were written, by checksums."""
    arrays = load_file(path)
    with safe_open(path, "numpy") as file:
        texts: dict[str, str] = file.metadata()
    if texts.get("checksum") not in (None, _checksum_of_texts(texts)):
        raise _changed(path, "the text in its header")
    for name, checksum in json.loads(texts.get("checksums", "{}")).items():
        if name not in arrays or checksum != _checksum(arrays[name]):
            raise _changed(path, f"what it holds of `{name}`")
    return arrays, texts


def _replace(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _changed(path: Path, what: str) -> ValueError:
    return ValueError(
        f"`{path}` is damaged: {what} is not what was written, by its checksum: take a copy of the "
        "file from elsewhere, or export the model again"
    )


def _checksum(array: np.ndarray[Any, Any]) -> str:
    kind = zlib.crc32(f"{array.dtype}{array.shape}".encode())
    return f"{zlib.crc32(array.reshape(-1).view(np.uint8).data, kind):08x}"


def _checksum_of_texts(texts: dict[str, str]) -> str:
    own = sorted((name, text) for name, text in texts.items() if name != "checksum")
    return f"{zlib.crc32(json.dumps(own).encode()):08x}"


def _listed(values: Any) -> Any:
    return values if isinstance(values, list | tuple) else (values,)


def _check_sizes(types: Any, batch: tuple[Any, ...]) -> None:
    """Raise where a size that the model leaves open, such as that of a batch, is two at once."""
    found: dict[str, tuple[int, str]] = {}
    for (name, wanted), array in zip(types.items(), batch, strict=True):
        for dim, size in zip(map(str, wanted.shape), array.shape, strict=True):
            known, first = found.setdefault(dim, (size, name))
            if dim.isidentifier() and size != known:
                raise ValueError(
                    f"`{name}` must have {dim} = {known}, as `{first}` has, but an array of shape "
                    f"{array.shape} was given"
                )


def _admitted(name: str, value: Any, wanted: Any) -> Any:
    """An array in a dtype and of a shape; what would be changed by that is an error."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"`{name}` is a masked array, whose mask would be lost: fill it first")
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    sizes = [dim if isinstance(dim, int) else None for dim in wanted.shape]
    fits = len(sizes) == array.ndim and all(
        size in (None, found) for size, found in zip(sizes, array.shape, strict=True)
    )
    if not fits:
        shape = tuple(map(str, wanted.shape))
        raise ValueError(
            f"`{name}` is of shape ({', '.join(shape)}), but an array of shape {array.shape} was "
            "given"
        )
    if not array.size and 0 not in sizes:
        raise ValueError(f"`{name}` holds no samples, its shape is {array.shape}")
    if array.dtype == wanted.dtype:
        return array
    old = np.asarray(array)
    is_number = old.dtype.kind in "biufcV" and (old.dtype.kind != "c" or wanted.dtype.kind == "c")
    with np.errstate(invalid="ignore", over="ignore"):
        new = old.astype(wanted.dtype) if is_number else old
    if is_number and np.array_equal(new.astype(old.dtype), old, equal_nan=True):
        return new
    raise TypeError(
        f"`{name}` is of dtype {wanted.dtype}, but the values given are of dtype {old.dtype} and "
        f'would change: convert them by .astype("{wanted.dtype}")'
    )


def _check_ids(
    name: str, array: Any, count: int, ignored: int | None = None, has_mean: bool = False
) -> None:
    """Raise where an id is none of 0 to `count` - 1: the model would take the nearest; and where a
    mean would be taken over none, because all are ignored."""
    if isinstance(array, jax.Array) and {d.platform for d in array.devices()} != {"cpu"}:
        return  # to look at it, it would have to be fetched from the device
    ids = np.asarray(array)
    if has_mean and (ids == ignored).all():
        raise ValueError(f"all of `{name}` is {ignored}, which counts for nothing: leave it out")
    strange = ids[((ids < 0) | (ids >= count)) & (ids != (0 if ignored is None else ignored))]
    if strange.size:
        held = " to ".join(map(str, sorted({int(strange.min()), int(strange.max())})))
        rest = "" if ignored is None else f", or {ignored} for what is to be ignored"
        raise ValueError(f"`{name}` holds {held}: give ids of 0 to {count - 1}{rest}")
