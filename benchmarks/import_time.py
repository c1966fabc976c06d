"""What `import relaxjax` costs over `import jax`, in CPU seconds: at most 0.15 are allowed.

Exits with 1 where it costs more.
"""

import os
import statistics
import subprocess
import sys

LIMIT = 0.15
ROUNDS = 7


def cpu_seconds(statement: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def main() -> int:
    statements = ("import jax", "import relaxjax")
    for statement in statements:
        cpu_seconds(statement)  # writes the bytecode, which is a cost of the first time only
    # In turns, so that a change in the machine's speed meets both.
    seconds = [[cpu_seconds(statement) for statement in statements] for _ in range(ROUNDS)]
    jax, relaxjax = (statistics.median(column) for column in zip(*seconds, strict=True))
    print(f"import jax       {jax:.3f} s")
    print(f"import relaxjax  {relaxjax:.3f} s")
    print(f"extra            {relaxjax - jax:.3f} s of at most {LIMIT} s")
    return int(relaxjax - jax > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
