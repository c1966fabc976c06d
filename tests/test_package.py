"""What holds for the package as a whole, wherever it is installed."""

import doctest
import importlib
import importlib.metadata
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import relaxjax


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh Python holds after one statement."""
    code = f"import json, sys; {statement}; print(json.dumps(list(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return set(json.loads(result.stdout))


def test_importing_relaxjax_imports_little_beside_jax() -> None:
    """`import relaxjax` may cost at most 0.15 s over `import jax`; the rest comes when used.

    benchmarks/import_time.py measures it; seconds would be too fickle for a test.
    """
    new = modules_after("import relaxjax") - modules_after("import jax")
    packages = {name.partition(".")[0] for name in new} - sys.stdlib_module_names
    assert "relaxjax" in packages
    assert packages <= {"jax", "relaxjax"}
    late = ("passes", "script", "lowering", "training", "losses", "optim")
    assert not [name for name in new if name.startswith(tuple(f"relaxjax.{n}" for n in late))]


def test_what_is_imported_late_is_there() -> None:
    """In a fresh Python, because here most of it has been imported."""
    names = sorted({*relaxjax._HOMES, *relaxjax._PACKAGES})
    asked = "; ".join(f"relaxjax.{name}" for name in names)
    assert "relaxjax.training" in modules_after(f"import relaxjax; {asked}")
    assert set(names) <= set(dir(relaxjax))


def test_a_star_imports_all_of_the_face() -> None:
    names: dict[str, object] = {}
    exec("from relaxjax import *", names)
    assert {"Function", "const", "op", *relaxjax._HOMES, *relaxjax._PACKAGES} <= names.keys()
    assert not {"Any", "TYPE_CHECKING", "import_module"} & names.keys()


def test_a_name_that_the_face_lacks_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'relaxjax' has no attribute 'Trainr'"):
        relaxjax.Trainr  # noqa: B018  # asking is what is tested


def test_the_version() -> None:
    assert "__version__" in dir(relaxjax)
    assert re.fullmatch(r"\d+\.\d+.*", relaxjax.__version__)


def test_a_checkout_that_is_not_installed_does_not_know_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    assert relaxjax.__version__ == "0+unknown"


def test_type_checkers_may_trust_the_package() -> None:
    assert (Path(relaxjax.__file__).parent / "py.typed").is_file()


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(relaxjax.__path__, "relaxjax.")
    return [importlib.import_module(item.name) for item in found if "__main__" not in item.name]


def doctests() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for module in modules() for test in finder.find(module) if test.examples]


@pytest.mark.parametrize("example", doctests(), ids=lambda test: str(test.name))
def test_examples_in_docstrings_are_true(example: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=report.append)
    assert not report, "".join(report)
