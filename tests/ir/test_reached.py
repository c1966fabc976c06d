"""What items lead to, each once."""

from relaxjax.ir.reached import reached

LEADS_TO = {"a": ["b", "c", "b"], "b": ["a"], "c": ["d"], "e": ["a"]}


def test_all_that_is_led_to_is_found_once_with_what_it_began_with() -> None:
    assert list(reached(["a", "a"], lambda item: LEADS_TO.get(item, []))) == ["a", "c", "d", "b"]
    assert set(reached("be", lambda item: LEADS_TO.get(item, []))) == set("abcde")
    assert list(reached([], lambda item: LEADS_TO[item])) == []
