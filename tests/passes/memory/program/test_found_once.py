"""Properties that are found once."""

from dataclasses import dataclass

from relaxjax.passes.memory.program.found_once import found_once


@dataclass(frozen=True, eq=False)
class _Sum:
    numbers: list[int]

    @found_once
    def value(self) -> int:
        """What they add up to."""
        return sum(self.numbers)


def test_what_is_found_stays() -> None:
    """A property is computed when it is first asked for, and for each object by itself."""
    first, second = _Sum([1, 2]), _Sum([3])
    assert first.value == 3
    first.numbers.append(4)
    second.numbers.append(5)
    assert (first.value, second.value) == (3, 8)


def test_a_class_has_the_property_itself() -> None:
    """The class shows what documents the property."""
    assert isinstance(_Sum.value, found_once)
    assert _Sum.value.__doc__ == "What they add up to."
