"""What is compared with TVM, compared with each version of it, in environments of their own.

    python tests/long/tvm_versions.py FOLDER             makes the environments in FOLDER, and tests
    python tests/long/tvm_versions.py FOLDER 0.27        one version

What TVM installs beside itself breaks it at times: the versions that work stand in the table.
"""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
# The packages of an environment, by the version of TVM.
PINS = {
    "0.26": ("apache-tvm==0.26.0", "apache-tvm-ffi==0.1.14.post0", "numpy==2.2.6"),
    "0.27": ("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post0", "numpy==2.2.6"),
}
# Which tests hold for a version: 0.26 does not know the metadata in which 0.27 has big constants,
# and has fewer arguments of `multibox_transform_loc`.
TESTED = {
    "0.26": "not (big and constants) and not nonzero-3 and not multibox and not namesakes",
    "0.27": "",
}
# Whose names `tests/beside_tvm/tvm_names.json` lists.
LISTED = "0.27"


def environment(folder: Path, version: str) -> Path:
    """The interpreter of an environment with a version of TVM, made unless it is there."""
    python = folder / version / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / version)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PINS[version]]
        subprocess.run(command, check=True)
    return python


def compare(folder: Path, version: str) -> int:
    """Run the tests that ask TVM with a version; pytest's exit code."""
    asking = [path for path in TESTS.rglob("test_*.py") if "asked_of_tvm" in path.read_text()]
    if version != LISTED:
        asking = [path for path in asking if path.name != "test_tvm_names.py"]
    given = {**os.environ, "RELAXJAX_TVM_PYTHON": str(environment(folder, version))}
    print(f"=== TVM {version}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-k", TESTED[version]]
    command += map(str, sorted(asking))
    return subprocess.run(command, env=given, check=False, cwd=TESTS.parent).returncode


def main(folder: str, *versions: str) -> int:
    """Compare with the given versions, or with all; 0 where nothing failed."""
    return max(compare(Path(folder), version) for version in versions or tuple(PINS))


def checked(arguments: list[str]) -> list[str]:
    """The arguments, if they name a folder and versions that are in the table."""
    if not arguments or not set(arguments[1:]) <= PINS.keys():
        sys.exit(f"{__doc__}\nThe versions are {', '.join(PINS)}.")
    return arguments


if __name__ == "__main__":
    sys.exit(main(*checked(sys.argv[1:])))
