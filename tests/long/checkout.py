"""Where the checkout lies, and where in it stands what the scripts beside this one import."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

sys.path[1:1] = [str(ROOT / folder) for folder in ("benchmarks", "programs", "tests/support")]
