"""What the names of a script mean, where they are visible, and why some are no longer."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from relaxjax.ir.registry import did_you_mean

_ABSENT = object()


class UnknownNameError(NameError):
    """A name means nothing here; `mend` says why it once did, where it did."""

    def __init__(self, name: str, mend: str | None, known: Iterable[str]) -> None:
        hint = "" if mend else did_you_mean(name, [item for item in known if item[:1] != "_"])
        super().__init__(f"`{name}` is not defined{hint}")
        dimension = (
            f'A symbolic dimension is declared by `{name} = T.int64()`, or is text: "{name}".'
        )
        self.mend = mend or (None if hint else dimension)


class Scope:
    """Frames of names, the innermost last, above what was captured from around the script."""

    def __init__(self, captured: Mapping[str, Any], builtins: Mapping[str, Any]) -> None:
        self.captured = captured
        self.builtins = builtins
        self._frames: list[dict[str, Any]] = [{}]
        self._gone: dict[str, str] = {}

    def fork(self) -> "Scope":
        """A scope of its own that begins with what is visible here now."""
        fork = Scope(self.captured, self.builtins)
        fork._frames = [dict(frame) for frame in self._frames]
        fork._gone = dict(self._gone)
        return fork

    def push(self, names: Mapping[str, Any] | None = None) -> None:
        self._frames.append(dict(names or {}))

    def pop(self, why: str | None = None) -> dict[str, Any]:
        """Leave the innermost frame. `why` is what an error says to who uses its names later."""
        frame = self._frames.pop()
        if why is not None:
            for name in frame:
                self.explain(name, why.format(name=name))
        return frame

    def frames(self) -> tuple[dict[str, Any], ...]:
        """The frames that are visible here, as they are and will be."""
        return tuple(self._frames)

    @contextmanager
    def within(self, frames: Iterable[dict[str, Any]], names: dict[str, Any]) -> Iterator[None]:
        """Inside, names mean what they do where `frames` are visible, and `names` before that."""
        outer, self._frames = self._frames, [*frames, names]
        try:
            yield
        finally:
            self._frames = outer

    def explain(self, name: str, why: str) -> None:
        """Give the hint for whoever uses a name that is not visible."""
        self._gone[name] = why

    def set(self, name: str, value: Any) -> None:
        self._frames[-1][name] = value

    def lookup(self, name: str) -> Any:
        value = self._find(name)
        if value is _ABSENT:
            raise UnknownNameError(name, self._gone.get(name), self.names())
        return value

    def get(self, name: str) -> Any:
        """What a name means; None where it means nothing."""
        value = self._find(name)
        return None if value is _ABSENT else value

    def is_captured(self, name: str) -> bool:
        """Whether a name means what it meant around the script."""
        return name in self.captured and not any(name in frame for frame in self._frames)

    def _find(self, name: str) -> Any:
        for frame in reversed(self._frames):
            if name in frame:
                return frame[name]
        if name in self.captured:
            return self.captured[name]
        return self.builtins.get(name, _ABSENT)

    def names(self) -> list[str]:
        """Every visible name, the builtins left out."""
        return list(
            dict.fromkeys([name for frame in self._frames for name in frame] + [*self.captured])
        )

    def snapshot(self) -> dict[str, Any]:
        """Everything visible now as one mapping."""
        merged = dict(self.captured)
        for frame in self._frames:
            merged.update(frame)
        return merged
