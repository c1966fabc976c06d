"""Arguments by their names."""

from typing import Any

import pytest

from relaxjax.ir.arguments import by_name


def test_positions_come_before_names() -> None:
    assert by_name("f", ["x", "y", "z"], (1,), {"z": 3}) == {"x": 1, "z": 3}


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((1, 2, 3), {}, "f(size, axis) takes 2 options, but 3 were given"),
        ((), {"axes": 1}, "f(size, axis) has no option `axes`; did you mean `axis`?"),
        ((1,), {"size": 2}, "f(size, axis): the option `size` is given twice"),
        ((), {"axis": 2}, "f(size, axis): the option `size` is missing"),
    ],
)
def test_what_does_not_fit(args: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        by_name("f", ["size", "axis"], args, named, ["size"], "option")
    assert str(caught.value) == message
