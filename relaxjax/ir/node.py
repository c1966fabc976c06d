"""What every piece of the IR shares: it is frozen, it knows its place, it prints as script."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, wraps
from operator import attrgetter
from typing import Any, TypedDict, TypeVar, Unpack

from .highlight import ScriptText
from .span import Span
from .written_above import written_above

N = TypeVar("N", bound="Node")
C = TypeVar("C")


class ScriptOptions(TypedDict, total=False):
    """What `PrintOptions` explains, and what TVM calls it."""

    name: str
    show_meta: bool
    module_alias: str
    indent_spaces: int
    show_all_types: bool
    syntax_sugar: bool
    provenance: bool
    show_all_ty: bool
    show_all_struct_info: bool
    black_format: bool
    verbose_expr: bool


def also_called(**names: str) -> Callable[[type[C]], type[C]]:
    """Let what a class of nodes holds be given and read by the names that TVM has for it, too."""

    def declare(cls: type[C]) -> type[C]:
        make = cls.__init__
        for theirs, ours in names.items():
            if theirs not in vars(cls):
                setattr(cls, theirs, property(attrgetter(ours)))

        @wraps(make)
        def init(self: Any, *args: Any, **given: Any) -> None:
            make(self, *args, **{names.get(name, name): value for name, value in given.items()})

        cls.__init__ = init  # type: ignore[method-assign]
        return cls

    return declare


def check_part(what: str, value: object, kind: Any, wanted: str) -> None:
    """Refuse a part of a node that is none of its kind: it would be found out far from here."""
    if not isinstance(value, kind):
        raise TypeError(
            f"{what} must be {wanted}, found `{value!r:.80}` of type {type(value).__name__}"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """An immutable piece of IR. `span` says where it was written, and counts in no comparison."""

    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)

    @written_above
    def script(self, **options: Unpack[ScriptOptions]) -> ScriptText:
        """The node as script text.

        Options: name="Module", show_meta=True, module_alias="cls", indent_spaces=4,
        show_all_types=True, syntax_sugar=True, provenance=False. `relaxjax.ir.PrintOptions`
        explains them.
        """
        raise NotImplementedError

    def same_as(self, other: object) -> bool:
        """Whether the other is this very node, as TVM asks it."""
        return self is other

    def show(self, style: str = "ansi", **options: Unpack[ScriptOptions]) -> None:
        """Print the script, in colour on a terminal where pygments is installed.

        As in every view for the eye, big constants are left out unless `show_meta` asks for them,
        and what belongs to a derivative says of which variable, unless `provenance` is False. The
        options are those of `script`.
        """
        options.setdefault("show_meta", False)
        options.setdefault("provenance", True)
        self.script(**options).show(style)

    def __str__(self) -> str:
        return str(self.script())

    def __repr__(self) -> str:
        return str(self.script(show_meta=False))

    def _repr_html_(self) -> str:
        return self.script(show_meta=False, provenance=True).html()

    def __copy__(self: N) -> N:
        return self

    def __deepcopy__(self: N, memo: Any) -> N:
        """What never changes needs no copy: `renew` gives a function its own variables."""
        return self


def replace(node: N, **changes: Any) -> N:
    """`node` with some fields changed; `node` itself where nothing changes."""
    if unchanged(node, changes):
        return node
    kind = type(node)
    names = _init_fields(kind)  # type: ignore[arg-type]  # a class is hashable
    kept = {name: getattr(node, name) for name in names if name not in changes}
    return kind(**kept, **changes)


def unchanged(node: Node, changes: Mapping[str, Any]) -> bool:
    """Whether the fields are these very objects already."""
    for name, value in changes.items():  # noqa: SIM110  # a generator here takes twice as long
        if getattr(node, name) is not value:
            return False
    return True


@cache
def _init_fields(kind: type[Node]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.init)
