"""What the package calls public changes only on purpose: docs/compatibility.md says what is due."""

import difflib

from listed_names import FILE, lines


def test_the_public_names_are_those_of_the_list() -> None:
    found = [f"{line}\n" for line in lines()]
    listed = FILE.read_text().splitlines(keepends=True)
    change = "".join(difflib.unified_diff(listed, found, "listed", "found", n=0))
    assert found == listed, (
        f"public names changed:\n{change}\nA name that goes warns for one minor version first. "
        "Then write the list anew: python tests/listed_names.py"
    )
