"""Pipelines as text: `Gradient{func_name=main},DeadCodeElimination`, read and written.

    pipeline = [pass {"," pass}] [","]
    pass     = name ["{" [option {"," option}] [","] "}"]
    option   = name "=" value
    value    = number | amount | "True" | "False" | "None" | word | string | list | mapping
    list     = "[" [value {"," value}] [","] "]"
    mapping  = "{" [option {"," option}] [","] "}"

A word is a string without quotes: letters, digits, `_`, `.` and `-`, a letter or `_` first. So is
an amount: a number with its unit, such as 8GiB or 50%.
An option's name may be shortened as long as one option only begins with it.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from relaxjax.ir.expr import GlobalVar
from relaxjax.ir.registry import did_you_mean
from relaxjax.ir.wording import quoted

from .base import FACTORIES
from .kinds import Pass
from .named import import_packaged
from .sequential import Sequential

T = TypeVar("T")

# What a name stands for: called with options, it gives a pass.
Maker: TypeAlias = Callable[..., Pass]
_NONE: Mapping[str, Maker] = MappingProxyType({})

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:inf|nan|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)(?![\w.%-]))
      | (?P<amount>\d+\.?\d*(?:%|[KMGT]?i?B)(?![\w.%-]))
      | (?P<word>[A-Za-z_][\w.-]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*" | '[^'\n]*')
      | (?P<sign>[{}\[\],=])
    )""",
    re.VERBOSE,
)
_WORDS: dict[str, Any] = {"True": True, "true": True, "False": False, "false": False, "None": None}


class PipelineError(ValueError):
    """The text of a pipeline is wrong; the message shows where."""


def parse_pipeline(text: str, own: Mapping[str, Maker] = _NONE) -> Sequential:
    """The passes that `text` names, in order.

    A name stands for one of `own`, which give passes when they are called, or for a declared pass.
    """
    return Sequential(_Reader(text, own).pipeline())


def pipeline_text(pipeline: Pass | Sequence[Pass]) -> str:
    """The text that `parse_pipeline` reads back as the same passes, nested sequences laid flat."""
    if isinstance(pipeline, Pass):
        return ",".join(_pass_texts(pipeline))
    return ",".join(text for item in pipeline for text in _pass_texts(item))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    def __str__(self) -> str:
        return f"`{self.text}`" if self.text else "the end of the text"


class _Reader:
    """A recursive-descent reader; `position` is where the next token begins."""

    def __init__(self, text: str, own: Mapping[str, Maker]) -> None:
        self.text = text
        self.own = own
        self.tokens = list(self._tokens())
        self.position = 0

    def pipeline(self) -> list[Pass]:
        passes = self.items(self.one_pass, "")
        self.expect("")
        return passes

    def one_pass(self) -> Pass:
        token = self.take("word", "the name of a pass")
        maker = self.maker(token)
        known = list(inspect.signature(maker).parameters)
        options: dict[str, Any] = {}
        if self.next.text == "{":
            self.expect("{")
            self.items(lambda: self.option(token.text, known, options), "}")
            self.expect("}")
        try:
            return maker(**options)
        except TypeError as error:
            raise self.error(str(error), token) from None

    def maker(self, token: _Token) -> Maker:
        """What makes the pass of a name."""
        if token.text not in FACTORIES and token.text not in self.own:
            import_packaged()
        makers: dict[str, Maker] = {**FACTORIES, **self.own}
        if token.text in makers:
            return makers[token.text]
        hint = did_you_mean(token.text, makers)
        raise self.error(f"there is no pass `{token.text}`{hint}", token)

    def option(self, of: str, known: list[str], options: dict[str, Any]) -> None:
        token = self.take("word", f"the name of an option of `{of}`")
        name = self.option_name(of, known, token)
        if name in options:
            raise self.error(f"the option `{name}` of `{of}` is given twice", token)
        self.expect("=")
        options[name] = self.value()

    def option_name(self, of: str, known: list[str], token: _Token) -> str:
        """The option that a name, or the beginning of one, means."""
        if token.text in known:
            return token.text
        meant = [name for name in known if name.startswith(token.text)]
        if len(meant) == 1:
            return meant[0]
        listed = quoted(meant or known)
        if meant:
            raise self.error(f"`{token.text}` could be any of the options {listed}", token)
        options = f"its options are {listed}" if known else "it has none"
        hint = did_you_mean(token.text, known)
        raise self.error(f"`{of}` has no option `{token.text}`: {options}{hint}", token)

    def value(self) -> Any:
        token = self.next
        if token.text == "[":
            return self.enclosed("[", self.value, "]")
        if token.text == "{":
            return dict(self.enclosed("{", self.entry, "}"))
        if token.kind not in ("number", "amount", "word", "string"):
            raise self.error(f"expected a value, found {token}", token)
        self.position += 1
        if token.kind == "amount":
            return token.text
        if token.kind == "word":
            return _WORDS.get(token.text, token.text)
        return _number(token.text) if token.kind == "number" else self.string(token)

    def entry(self) -> tuple[str, Any]:
        token = self.next
        if token.kind not in ("word", "string"):
            raise self.error(f"expected a name, found {token}", token)
        self.position += 1
        self.expect("=")
        return self.string(token) if token.kind == "string" else token.text, self.value()

    def string(self, token: _Token) -> str:
        if token.text.startswith("'"):
            return token.text[1:-1]
        try:
            return str(json.loads(token.text))
        except json.JSONDecodeError as error:
            raise self.error(f"the string {token.text} is malformed: {error.msg}", token) from None

    def enclosed(self, opening: str, item: Callable[[], T], closing: str) -> list[T]:
        self.expect(opening)
        found = self.items(item, closing)
        self.expect(closing)
        return found

    def items(self, item: Callable[[], T], closing: str) -> list[T]:
        """Items with commas between them, up to the sign that closes them."""
        found: list[T] = []
        while self.next.text != closing:
            found.append(item())
            if self.next.text == closing:
                break
            self.expect(",", closing)
        return found

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def expect(self, *signs: str) -> None:
        token = self.next
        if token.text != signs[0]:
            wanted = " or ".join(f"`{sign}`" if sign else "the end of the text" for sign in signs)
            raise self.error(f"expected {wanted}, found {token}", token)
        self.position += 1

    def take(self, kind: str, expected: str) -> _Token:
        token = self.next
        if token.kind != kind:
            raise self.error(f"expected {expected}, found {token}", token)
        self.position += 1
        return token

    def _tokens(self) -> Iterator[_Token]:
        position = 0
        while match := _TOKEN.match(self.text, position):
            kind = str(match.lastgroup)
            yield _Token(kind, match[kind], match.start(kind))
            position = match.end()
        position += len(self.text[position:]) - len(self.text[position:].lstrip())
        if position < len(self.text):
            raise self.unknown(position)
        yield _Token("end", "", position)

    def unknown(self, position: int) -> PipelineError:
        """What stands at `position` is no token at all."""
        start = self.text[position]
        if start in "\"'":
            token = _Token("string", start, position)
            return self.error(f"the string that begins with {token} has no end", token)
        run = re.match(r"[\w.+-]+", self.text[position:])
        token = _Token("unknown", run[0] if run else start, position)
        return self.error(f"{token} has no meaning in a pipeline", token)

    def error(self, problem: str, token: _Token) -> PipelineError:
        start = self.text.rfind("\n", 0, token.start) + 1
        line = self.text[start:].partition("\n")[0]
        caret = " " * (token.start - start) + "^" * max(1, len(token.text))
        return PipelineError(f"{problem}\n    {line}\n    {caret}")


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def _pass_texts(item: Pass) -> Iterator[str]:
    if isinstance(item, Sequential):
        if item.info.opt_level > 0 or item.info.required:
            raise PipelineError(
                f"the sequence `{item.info.name}` has an opt level or requirements of its own, "
                "which the text of a pipeline cannot say"
            )
        for inner in item.passes:
            yield from _pass_texts(inner)
        return
    factory = FACTORIES.get(item.info.name)
    if factory is None or factory.info is not item.info:
        raise PipelineError(
            f"the pass `{item.info.name}` is not declared with `pass_factory`: "
            "the text of a pipeline cannot name it"
        )
    options = [
        f"{name}={_value_text(value, f'`{name}` of `{factory.name}`')}"
        for name, value in item.options.items()
        if not _is_default(value, factory.parameters[name].default)
    ]
    yield f"{factory.name}{{{','.join(options)}}}" if options else factory.name


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _value_text(value: Any, option: str) -> str:
    match value:
        case None | bool() | int() | float():
            return repr(value)
        case GlobalVar(name=name):
            return _value_text(name, option)
        case str():
            bare = re.fullmatch(r"[A-Za-z_][\w.-]*", value, re.ASCII) and value not in _RESERVED
            return value if bare else json.dumps(value)
        case list() | tuple():
            return f"[{','.join(_value_text(item, option) for item in value)}]"
        case Mapping() if all(isinstance(key, str) for key in value):
            entries = (
                f"{_value_text(k, option)}={_value_text(v, option)}" for k, v in value.items()
            )
            return f"{{{','.join(entries)}}}"
    raise PipelineError(
        f"the option {option} holds {value!r} of type {type(value).__name__}, "
        "which has no text form"
    )


_RESERVED = frozenset({*_WORDS, "inf", "nan"})
