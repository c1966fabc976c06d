"""The list of slow tests names tests that there are, and the fast part is what it leaves."""

from pathlib import Path

from fast_part import listed, slow_tests, unknown


def test_each_slow_test_is_one_that_there_is() -> None:
    assert not unknown(slow_tests()), "make tests/slow.txt anew, or take these out of it"


def test_the_list_has_what_takes_long_in_the_mean(tmp_path: Path) -> None:
    path = tmp_path / "durations.xml"
    path.write_text("""<testsuites><testsuite>
        <testcase classname="tests.ops.test_a" name="test_long" time="0.5"/>
        <testcase classname="tests.ops.test_a" name="test_one_in_two[0]" time="0.3"/>
        <testcase classname="tests.ops.test_a" name="test_one_in_two[1]" time="0.0"/>
        <testcase classname="tests.ops.test_a" name="test_one_in_two[2]" time="0.6"/>
        <testcase classname="tests.ops.test_a" name="test_longer" time="0.4"/>
        <testcase classname="tests.ops.test_a" name="test_longest" time="0.7"/>
        <testcase classname="tests.ops.test_a" name="test_short[0]" time="0.0003"/>
        <testcase classname="tests.passes.differentiation.test_a" name="test_long" time="0.7"/>
        <testcase classname="tests.test_b" name="test_long" time="0.6"/>
        <testcase classname="tests.test_c" name="test_rather_long" time="0.4"/>
        </testsuite></testsuites>""")
    assert listed(path).splitlines() == [
        "ops/test_a.py test_long test_longer test_longest test_one_in_two",
        "test_b.py test_long",
        "test_c.py test_rather_long",
    ]
