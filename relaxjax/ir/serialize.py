"""Saving IR as JSON, and loading it again, from untrusted sources too.

A document is a flat table of nodes, children before their parents:

    {"format": "relaxjax", "version": 1, "root": 2, "nodes": [
      {"kind": "TensorType", "shape": [2, 3], "dtype": "float32", "ndim": 2},
      {"kind": "Var", "name": "x", "ty": {"ref": 0}},
      {"kind": "Tuple", "fields": [{"ref": 1}, {"ref": 1}]}]}

What stands there twice by reference is one node again when it is loaded, so variables keep their
identity. A list is a tuple; `{"ref": 0}` is the node with that number, which must come before;
`{"attrs": {...}}` are attributes; `{"float": "nan"}` is a float that JSON has no number for.

Loading evaluates nothing. Whatever is wrong with a document is a `ValueError` that says where,
and so is a document that a few bytes make unfold into more than the bounds below.
"""

import json
import math
from typing import Any, NoReturn

from .attrs import PLAIN, Attrs
from .node import Node
from .node_kinds import ENTRIES, KINDS, Entry, Kind, kind_name
from .span import Span
from .types import TensorType
from .wording import a_kind

FORMAT = "relaxjax"
VERSION = 1

MAX_DEPTH = 150  # of nodes inside nodes: what the recursive walks over a program can take
MAX_UNFOLDED = 10_000_000  # nodes, where shared ones count as often as a walk meets them
MAX_VALUE_DEPTH = 32  # of tuples inside tuples in one attribute

_NUMBERS_AND_TEXT = (str, int, float, bool, complex, type(None))
_ENCODED = json.JSONEncoder(allow_nan=False).encode


def save_json(node: Node, spans: bool = True) -> str:
    """`node` as a JSON document, with the places in the user's text unless `spans` is False."""
    saver = _Saver(spans)
    root = saver.save(node)
    head = {"format": FORMAT, "version": VERSION, "root": root}
    table = ",\n".join(saver.records)
    return f'{json.dumps(head)[:-1]}, "nodes": [\n{table}\n]}}'


def load_json(text: str | bytes) -> Node:
    """The node of a JSON document. Anything wrong with the document is a `ValueError`."""
    document = _parsed(text)
    loader = _Loader()
    for record in document["nodes"]:
        loader.load(record)
    root = document["root"]
    if type(root) is not int or not 0 <= root < len(loader.entries):
        raise ValueError(f"`root` must be the number of a node, found {root!r:.50}")
    node = loader.entries[root]
    if not isinstance(node, Node):
        raise ValueError(f"the root must be a node, found {a_kind(node)}")
    return node


def _parsed(text: str | bytes) -> dict[str, Any]:
    """The document, with its head checked."""
    if not isinstance(text, str | bytes):
        raise TypeError(f"`load_json` takes JSON text, but `{text!r:.50}` was given")
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the text is no JSON, or cut off: {error}") from None
    if isinstance(document, dict) and "root_index" in document:
        raise ValueError(
            "the text is JSON of TVM's own, which is not read here: print the module there by "
            "`mod.script(show_meta=True)`, and read that by `from_source`"
        )
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"the text is no saved IR: it must be an object with `format` {FORMAT!r}")
    if document.get("version") != VERSION:
        found = document.get("version")
        raise ValueError(f"`version` must be {VERSION}, the one this reads; found {found!r:.50}")
    for name in document.keys() - {"format", "version", "root", "nodes"}:
        raise ValueError(f"a document has no field `{name:.50}`")
    if not isinstance(document.get("nodes"), list) or "root" not in document:
        raise ValueError("a document must have a `root` and a list of `nodes`")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON: a float that JSON has no number for is written as text")


class _Bounds:
    """How deep and how big each node is when all that is shared is unfolded."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def add(self, children: list[int]) -> None:
        """Enter the next node by its children; one beyond the bounds is an error."""
        sizes = [self.sizes[child] for child in children]
        depth = 1 + max((depth for depth, _ in sizes), default=0)
        unfolded = 1 + sum(unfolded for _, unfolded in sizes)
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} nodes deep")
        if unfolded > MAX_UNFOLDED:
            raise ValueError(f"it unfolds into more than {MAX_UNFOLDED} nodes")
        self.sizes.append((depth, unfolded))


class _Saver:
    """The records so far. Nodes wait on a stack of their own until their children are saved."""

    def __init__(self, spans: bool) -> None:
        self.spans = spans
        self.records: list[str] = []
        self.numbers: dict[int, int] = {}
        self.types: dict[Entry, int] = {}
        self.bounds = _Bounds()

    def save(self, root: Entry) -> int:
        waiting: list[tuple[Entry, dict[str, Any], list[Entry]] | Entry] = [root]
        while waiting:
            one = waiting.pop()
            if isinstance(one, tuple):  # its children are saved
                self._add(*one)
                continue
            if id(one) in self.numbers or self._is_known_type(one):
                continue
            fields, children = KINDS[kind_name(one)].read(one), list[Entry]()
            for value in fields.values():
                _find_entries(value, children)
            waiting.append((one, fields, children))
            waiting.extend(child for child in reversed(children) if id(child) not in self.numbers)
        return self.numbers[id(root)]

    def _add(self, entry: Entry, fields: dict[str, Any], children: list[Entry]) -> None:
        self.bounds.add([self.numbers[id(child)] for child in children])
        self.numbers[id(entry)] = len(self.records)
        if _is_bare_type(entry):
            self.types[entry] = len(self.records)
        self.records.append(self._record(entry, fields))

    def _is_known_type(self, entry: Entry) -> bool:
        """Whether an equal type is saved, which stands for this one, too."""
        known = self.types.get(entry) if _is_bare_type(entry) else None
        if known is not None:
            self.numbers[id(entry)] = known
        return known is not None

    def _record(self, entry: Entry, fields: dict[str, Any]) -> str:
        """The text of an entry's record: written at once, it takes a third of the time."""
        stated = [f'"{name}": {self._text(v)}' for name, v in fields.items() if v is not None]
        span = getattr(entry, "span", None)
        if self.spans and span is not None:
            place = [span.file, span.line, span.column, span.end_line, span.end_column]
            stated.append(f'"span": {_ENCODED(place)}')
        return f'{{"kind": "{kind_name(entry)}"{"".join(f", {one}" for one in stated)}}}'

    def _text(self, value: Any) -> str:
        if type(value) is int:
            return int.__repr__(value)
        if type(value) in (str, bool, type(None)):
            return _ENCODED(value)
        number = self.numbers.get(id(value))
        if number is not None and isinstance(value, ENTRIES):
            return f'{{"ref": {number}}}'
        match value:
            case tuple():
                return f"[{', '.join(map(self._text, value))}]"
            case Attrs():
                items = (f"{_ENCODED(key)}: {self._text(item)}" for key, item in value.items())
                return f'{{"attrs": {{{", ".join(items)}}}}}'
            case int() if not isinstance(value, bool):
                return int.__repr__(value)
            case float() if not math.isfinite(value):
                return f'{{"float": "{float(value)!r}"}}'
            case complex():
                return f'{{"complex": {self._text((value.real, value.imag))}}}'
            case _:
                return _ENCODED(value)


def _is_bare_type(entry: Entry) -> bool:
    """Whether a node is a tensor's type, and all that it says counts where types are compared."""
    return type(entry) is TensorType and entry.span is None and entry.placement is None


def _find_entries(value: Any, found: list[Entry], depth: int = 1) -> None:
    """Add what in a field has a place of its own in the table; what cannot be saved is an error."""
    if depth > MAX_VALUE_DEPTH:
        raise ValueError(f"an attribute is nested more than {MAX_VALUE_DEPTH} deep")
    if type(value) in PLAIN:
        return
    if isinstance(value, ENTRIES):
        found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            _find_entries(item, found, depth + 1)
    elif isinstance(value, Attrs):
        for item in value.values():
            _find_entries(item, found, depth + 1)
    elif not isinstance(value, _NUMBERS_AND_TEXT):
        raise TypeError(f"a value of type {type(value).__name__} cannot be saved: `{value!r}`")


class _Loader:
    """The nodes so far, in the order of the table."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.bounds = _Bounds()
        self._children: list[int] = []

    def load(self, record: Any) -> None:
        where = f"node {len(self.entries)}"
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            raise ValueError(f"{where}: it must be an object with a `kind`")
        name = record["kind"]
        if name not in KINDS:
            raise ValueError(f"{where}: there is no kind of node `{name:.50}`")
        self._children = []
        try:
            entry = self._made(KINDS[name], record)
        except Exception as error:
            # A document from anywhere may make any constructor fail in its own way.
            raise ValueError(f"{where} ({name}): {error!s:.500}") from error
        self.entries.append(entry)

    def _made(self, kind: Kind, record: dict[str, Any]) -> Any:
        for name in record.keys() - kind.rules.keys() - {"kind", "span"}:
            raise ValueError(f"it has no field `{name:.50}`")
        fields = {name: self._field(kind, name, record) for name in kind.rules}
        span = _span(record.get("span"))
        self.bounds.add(self._children)
        return kind.make(**fields) if span is None else kind.make(**fields, span=span)

    def _field(self, kind: Kind, name: str, record: dict[str, Any]) -> Any:
        rule = kind.rules[name]
        value = self._decoded(record.get(name))
        if value is None and not rule.optional:
            raise ValueError(f"its field `{name}` is missing: it must be {rule.text}")
        if value is not None and not rule.accepts(value):
            found = type(value).__name__
            raise ValueError(
                f"its field `{name}` must be {rule.text}, found a value of type {found}"
            )
        return value

    def _decoded(self, value: Any, depth: int = 0) -> Any:
        if not isinstance(value, list | dict):
            return value
        if depth > MAX_VALUE_DEPTH:
            raise ValueError(f"a value is nested more than {MAX_VALUE_DEPTH} deep")
        match value:
            case list():
                return tuple(self._decoded(item, depth + 1) for item in value)
            case {"ref": ref, **rest} if not rest:
                return self._entry(ref)
            case {"attrs": dict() as items, **rest} if not rest:
                return Attrs({key: self._decoded(item, depth + 1) for key, item in items.items()})
            case {"float": "inf" | "-inf" | "nan" as text, **rest} if not rest:
                return float(text)
            case {"complex": [real, imag], **rest} if not rest:
                return complex(self._decoded(real, depth + 1), self._decoded(imag, depth + 1))
            case _:
                raise ValueError(f"there is no value with the fields {list(value)!r:.50}")

    def _entry(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self.entries):
            raise ValueError(
                f"it refers to node {number!r:.50}, but only to nodes before it may it refer"
            )
        self._children.append(number)
        return self.entries[number]


def _span(value: Any) -> Span | None:
    """The place in a source file, None where the file is none that error messages may read."""
    if value is None:
        return None
    match value:
        case [str() as file, int() as line, int() as column, end_line, end_column] if all(
            end is None or isinstance(end, int) for end in (end_line, end_column)
        ):
            readable = file.endswith(".py") or (file.startswith("<") and file.endswith(">"))
            return Span(file, line, column, end_line, end_column) if readable else None
        case _:
            raise ValueError("its `span` must be [file, line, column, end_line, end_column]")
