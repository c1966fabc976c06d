"""Things in classes, joined two at a time."""

from relaxjax.passes.partition.classes import Classes


def test_things_joined_have_one_leader_and_others_their_own() -> None:
    classes = Classes[int]()
    classes.join(1, 2)
    classes.join(3, 4)
    assert [classes.leader(item) for item in range(5)] == [0, 1, 1, 3, 3]
    classes.join(4, 2)
    assert [classes.leader(item) for item in range(5)] == [0, 3, 3, 3, 3]


def test_a_thing_joined_with_its_own_class_stays_in_it() -> None:
    classes = Classes[str]()
    classes.join("a", "b")
    classes.join("b", "a")
    assert [classes.leader(item) for item in "ab"] == ["a", "a"]
