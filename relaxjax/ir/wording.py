"""How messages and texts write names, counts and sequences."""

from collections.abc import Iterable, Sequence


def quoted(names: Iterable[object]) -> str:
    """Names one after the other: `a`, `b`, `c`; no text where there are none."""
    return ", ".join(f"`{name}`" for name in names)


def listed(names: Iterable[object]) -> str:
    """Names as a sentence has them: `a`, `b` and `c`."""
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def first_few(names: Sequence[str], most: int = 3) -> str:
    """Names, and how many there are beside the first of them: "a, b, c, and 2 more"."""
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def a_kind(value: object) -> str:
    """The kind of a value with its article: "an ndarray", "a tuple", and "None" alone."""
    if value is None:
        return "None"
    name = type(value).__name__
    begins_open = name.startswith((*"aeioAEIO", "ndarray"))  # which is read as "en-dee"
    return f"{'an' if begins_open else 'a'} {name}"


def tuple_text(items: Iterable[str]) -> str:
    """The items in round brackets, as a Python tuple."""
    texts = list(items)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
