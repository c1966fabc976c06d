"""What `import relaxjax` costs over `import jax`, in CPU seconds: at most 0.15 are allowed.

Exits with 1 where it costs more.
"""

import os
import statistics
import subprocess
import sys
import tempfile

LIMIT = 0.15
ROUNDS = 7


def cpu_seconds(statement: str, bytecode: str) -> float:
    env = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True, env=env)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def measured(*statements: str) -> list[float]:
    """The median of each statement's CPU seconds."""
    with tempfile.TemporaryDirectory() as bytecode:
        for statement in statements:
            cpu_seconds(statement, bytecode)  # compiles, which is a cost of the first time only
        # In turns, so that a change in the machine's speed meets all.
        rounds = [[cpu_seconds(s, bytecode) for s in statements] for _ in range(ROUNDS)]
    return [statistics.median(seconds) for seconds in zip(*rounds, strict=True)]


def main() -> int:
    jax, relaxjax = measured("import jax", "import jax, relaxjax")
    print(f"import jax       {jax:.3f} s")
    print(f"import relaxjax  {relaxjax:.3f} s")
    print(f"extra            {relaxjax - jax:.3f} s of at most {LIMIT} s")
    return int(relaxjax - jax > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
