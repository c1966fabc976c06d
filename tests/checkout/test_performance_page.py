"""What docs/performance.md and the pages beside it name of the code and of the tests is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("performance*.md"))
NAMES = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", "".join(page.read_text() for page in PAGES))


def test_files_and_tests_are_there() -> None:
    missing = []
    for name, test in NAMES:
        path = ROOT / "tests" / name if test else ROOT / name
        if not path.exists() or f"def {test}" not in path.read_text():
            missing.append((name, test))
    assert NAMES
    assert missing == []
