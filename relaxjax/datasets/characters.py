"""Text as numbers, one for each character, and its windows to train on."""

from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# What the manual of each Python is written in; a few typographic signs are written plainly.
PRINTABLE = "\n" + "".join(map(chr, range(32, 127)))
PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
        **dict.fromkeys("\u2013\u2014", "-"),
        "\u2026": "...",
    }
)
TEST_SHARE = 10  # one part in so many is for testing


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Characters as int32, split into a training and a test part; `vocabulary[i]` is number i."""

    train: Array
    test: Array
    vocabulary: str

    def encode(self, text: str) -> Array:
        """The numbers of a text's characters."""
        numbers = {character: number for number, character in enumerate(self.vocabulary)}
        if strange := sorted(set(text) - set(numbers)):
            raise ValueError(
                f"the vocabulary has no {', '.join(map(repr, strange))}: leave them out, or make "
                "the vocabulary of a text that has them"
            )
        return np.array([numbers[character] for character in text], np.int32)

    def decode(self, numbers: Any) -> str:
        """The text of such numbers."""
        array, count = np.asarray(numbers), len(self.vocabulary)
        is_row = array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)
        if not is_row or (array < 0).any() or (array >= count).any():
            raise ValueError(
                f"a text is a row of integers from 0 to {count - 1}, one for each character, but "
                f"`{numbers!r:.50}` was given"
            )
        return "".join(self.vocabulary[number] for number in array.tolist())


def text(path: str | Path | None = None) -> Text:
    """A text to learn to write: what Python's `help` knows, over 400000 characters; or a file's.

    Without a file the vocabulary is the 96 printable characters of ASCII with the line's end, on
    every Python, though each release has changed a few sentences. That of a file is what it uses.
    """
    if path is None:
        whole = "\n".join(topics[name] for name in sorted(topics)).translate(PLAIN)
        content, vocabulary = "".join(c for c in whole if c in PRINTABLE), PRINTABLE
    else:
        try:
            content = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text: {error}") from error
        vocabulary = "".join(sorted(set(content)))
    if len(content) < TEST_SHARE:
        raise ValueError(
            f"{path} has {len(content)} characters, but a part for training and one for testing "
            f"need at least {TEST_SHARE}: give a longer text"
        )
    numbers = Text(np.array([], np.int32), np.array([], np.int32), vocabulary).encode(content)
    split = len(numbers) - len(numbers) // TEST_SHARE
    return Text(numbers[:split], numbers[split:], vocabulary)


def windows(numbers: Array, length: int, start: int = 0) -> tuple[Array, Array]:
    """Each `length` numbers in a row, and for each of them the number that follows it.

    The windows stand side by side from `start` on: another start cuts the text elsewhere. Both
    arrays are of shape (count, length), such as `batches` takes.
    """
    if getattr(numbers, "ndim", None) != 1:
        raise TypeError(
            "windows are cut from one row of numbers, such as `text().train`, but "
            f"`{numbers!r:.50}` was given"
        )
    if length < 1:
        raise ValueError(f"a window must have at least 1 character, but `length` is {length}")
    count = (len(numbers) - 1 - start) // length
    if start < 0 or count < 1:
        raise ValueError(
            f"there is no window of {length} characters and the one after them in a text of "
            f"{len(numbers)} from {start} on: make them smaller, but `start` not negative"
        )
    end = start + count * length
    shape = (count, length)
    return numbers[start:end].reshape(shape), numbers[start + 1 : end + 1].reshape(shape)
