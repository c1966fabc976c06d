"""Source text: where a script stands in it, and how the text of a Python object is found."""

import ast
import inspect
import io
import linecache
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeAlias

from relaxjax.ir.span import Span

from .errors import ScriptError

Definition: TypeAlias = ast.FunctionDef | ast.ClassDef
Place: TypeAlias = tuple[
    str, int
]  # a name, and the first line of its definition, decorators included

_OWN_PACKAGE = __name__.rpartition(".")[0]
_MOST_TEXTS = 256  # texts without a file, whose lines are kept for error messages


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of one file, or of a text that stands for one."""

    file: str
    lines: Sequence[str]

    def span(self, node: ast.AST) -> Span:
        """Where a piece of syntax stands. Python counts columns in bytes, a span in characters."""
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]  # expressions, statements, parameters have them
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]  # as above
        return Span(
            self.file, line, self._column(line, start), end_line, self._column(end_line, end)
        )

    def error(self, node: ast.AST, message: str, mend: str | None = None) -> ScriptError:
        return ScriptError(message, self.span(node), mend)

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


@dataclass(frozen=True, slots=True)
class _File:
    """A parsed file, and its definitions by place; methods lead to their classes too."""

    source: Source
    definitions: dict[Place, Definition]
    class_of_method: dict[Place, ast.ClassDef]


_files: dict[str, tuple[list[str], _File]] = {}
_texts: OrderedDict[str, None] = OrderedDict()


def text_source(text: str, file: str | None = None) -> Source:
    """A text as a source. Its lines are kept where error messages look for them."""
    lines = io.StringIO(text, newline=None).readlines()  # at the ends of lines that Python knows
    checksum = zlib.crc32(text.encode(errors="replace"))
    name = file or f"<script {checksum:08x}>"
    if file is None or linecache.getlines(file) != lines:
        linecache.cache[name] = (len(text), None, lines, name)
        _texts[name] = None
        _texts.move_to_end(name)
        if len(_texts) > _MOST_TEXTS:
            linecache.cache.pop(_texts.popitem(last=False)[0], None)
    return Source(name, lines)


def parse_text(source: Source, text: str) -> ast.Module:
    """The syntax of a text. Where it is none of Python's, the error is Python's own."""
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ScriptError("the text has a null character", Span(source.file, line))
    try:
        return ast.parse(text, filename=source.file)
    except (RecursionError, MemoryError):
        message = "the text is nested too deeply to be read"
        raise ScriptError(message, Span(source.file, 1)) from None
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        message = "the text has half of a surrogate pair, which is no character"
        raise ScriptError(message, Span(source.file, line)) from None


def function_source(function: FunctionType) -> tuple[Source, ast.FunctionDef]:
    """The syntax of a Python function."""
    if function.__name__ == "<lambda>" or inspect.iscoroutinefunction(function):
        span = Span(function.__code__.co_filename, function.__code__.co_firstlineno)
        message = f"`{function.__name__}` is no plain function"
        raise ScriptError(message, span, "Write `def`, under @R.function.")
    file = _parsed_file(function.__code__.co_filename, function.__globals__)
    node = None if file is None else file.definitions.get(_place(function))
    if file is None or not isinstance(node, ast.FunctionDef):
        raise _no_source(function.__name__)
    return file.source, node


def class_source(cls: type, caller: FrameType) -> tuple[Source, ast.ClassDef]:
    """The syntax of a class, found by any of its methods; of one without methods, by its line."""
    methods = [value for value in vars(cls).values() if isinstance(value, FunctionType)]
    for method in methods:
        file = _parsed_file(method.__code__.co_filename, method.__globals__)
        node = None if file is None else file.class_of_method.get(_place(method))
        if file is not None and node is not None and node.name == cls.__name__:
            return file.source, node
    file = _parsed_file(caller.f_code.co_filename, caller.f_globals)
    node = None if file is None else _class_at(file, cls.__name__, caller.f_lineno)
    if file is None or node is None:
        raise _no_source(cls.__name__)
    return file.source, node


def calling_frame() -> FrameType:
    """The innermost frame that is not of this package: where the user stands."""
    frame = inspect.currentframe()
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    assert frame is not None, "somebody outside this package must have called it"
    return frame


def captured_names(*functions: FunctionType) -> dict[str, Any]:
    """What the text of definitions can name: globals, the locals around them, their closures.

    The locals are those of the frame that the text stands in, wherever the decorator is called.
    """
    names: dict[str, Any] = {}
    for function in functions:
        names.update(function.__globals__)
    around = _frame_around(functions)
    if around is not None:
        names.update({**around.f_globals, **around.f_locals})
    for function in functions:
        for name in function.__code__.co_freevars:
            names.pop(name, None)  # what is outside of a local variable that is still empty
        names.update(_closure(function))
    return names


def in_class_body(function: FunctionType) -> bool:
    """Whether a function is a method, to be read with its whole class."""
    outer = function.__qualname__.rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def _frame_around(functions: Sequence[FunctionType]) -> FrameType | None:
    """The frame that runs the code in which functions are defined, None where it has ended."""
    frame: FrameType | None = calling_frame()
    codes = {id(function.__code__) for function in functions}
    while frame is not None and codes and not _holds(frame.f_code, codes):
        frame = frame.f_back
    return frame


def _holds(code: CodeType, wanted: Set[int]) -> bool:
    """Whether the code of a definition, by its identity, is part of some code."""
    inner = [item for item in code.co_consts if isinstance(item, CodeType)]
    return any(id(item) in wanted or _holds(item, wanted) for item in inner)


def _is_own(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name == _OWN_PACKAGE or name.startswith(f"{_OWN_PACKAGE}.")


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the cell is still empty: its variable is assigned later
            continue


def _place(function: FunctionType) -> Place:
    return function.__name__, function.__code__.co_firstlineno


def _parsed_file(name: str, module_globals: dict[str, Any]) -> _File | None:
    linecache.checkcache(name)
    lines = linecache.getlines(name, module_globals)
    if not lines:
        return None
    known = _files.get(name)
    if known is None or known[0] != lines:
        known = _files[name] = (lines, _index(Source(name, lines)))
    return known[1]


def _index(source: Source) -> _File:
    file = _File(source, {}, {})
    for node in ast.walk(ast.parse("".join(source.lines), filename=source.file)):
        if isinstance(node, Definition):
            file.definitions[node.name, _first_line(node)] = node
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    file.class_of_method[child.name, _first_line(child)] = node
    return file


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _class_at(file: _File, name: str, line: int) -> ast.ClassDef | None:
    """The class of that name whose decorators or first line are at `line`."""
    for (known, first), node in file.definitions.items():
        if known == name and isinstance(node, ast.ClassDef) and first <= line <= node.lineno:
            return node
    return None


def _no_source(name: str) -> ScriptError:
    return ScriptError(
        f"the source of `{name}` cannot be found, so it cannot be read as a script",
        mend="Write it in a file or a notebook, or give its text to relaxjax.script.from_source.",
    )
