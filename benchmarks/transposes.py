"""The gradient of a layer's weights, a^T b, on a CPU: with the transpose written out, and as it is.

    python benchmarks/transposes.py            # --rounds 60 for steadier medians

A row is a product of so many rows, sums of so many products, and columns. Both forms run in a loop
inside of one call, so that calling costs nothing. The ratio is of times, written out by as it is;
the last column says what `relaxjax/lowering/products.py` makes of such a product.
"""

import argparse
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from surroundings import surroundings
from timing import in_turns, table

from relaxjax.ir.module import IRModule
from relaxjax.passes import LegalizeOps
from relaxjax.script import from_source

SIZES = [
    (784, 64, 128),
    (784, 64, 512),
    (512, 64, 512),
    (256, 128, 256),
    (784, 128, 128),
    (128, 1024, 128),
    (512, 128, 512),
    (512, 256, 512),
    (256, 1024, 256),
    (256, 1024, 1024),
    (1024, 1024, 256),
]
WORK = 4e7  # multiplications of a call


def as_it_is(a: Any, b: Any) -> Any:
    return lax.dot_general(a, b, (((0,), (0,)), ((), ())))


def written_out(a: Any, b: Any) -> Any:
    return lax.dot(lax.optimization_barrier(a.T), b)


def repeated(product: Callable[[Any, Any], Any], a: Any, b: Any, times: int) -> Callable[[], Any]:
    """A call that computes so many products, each of which waits for the one before."""

    def body(_: Any, given: Any) -> Any:
        a, b = given
        some = product(a, b)[0, 0] * 1e-9
        return a.at[0, 0].set(some), b.at[0, 0].set(some)

    run = jax.jit(lambda a, b: lax.fori_loop(0, times, body, (a, b)))
    return lambda: jax.block_until_ready(run(a, b))


def is_written_out(rows: int, inner: int, columns: int) -> bool:
    """What a program gets."""
    a, b = (f'R.Tensor(({inner}, {size}), "float32")' for size in (rows, columns))
    function: Any = from_source(f"""
@R.function
def main(a: {a}, b: {b}):
    with R.dataflow():
        y = R.matmul(R.permute_dims(a), b)
        R.output(y)
    return y
""")
    legal = LegalizeOps("cpu")(IRModule({"main": function}))
    return "barrier" in legal.script()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    print(", ".join(f"{key} {value}" for key, value in surroundings().items()))
    rows = []
    for size in SIZES:
        count = max(1, round(WORK / math.prod(size)))
        a, b = jnp.ones((size[1], size[0])), jnp.ones((size[1], size[2]))
        forms = {"is": as_it_is, "written": written_out}
        times = in_turns({k: repeated(f, a, b, count) for k, f in forms.items()}, rounds)
        low, ratio, high = times["written"].quartiles(times["is"])
        by_cpu = times["written"].ratio(times["is"], "cpu")
        name = f"{size[0]} x {size[1]} x {size[2]}, 2^{math.log2(math.prod(size)):.1f}"
        chosen = "written out" if is_written_out(*size) else "as it is"
        micros = f"{times['is'].median() / count * 1e6:,.0f}"
        rows.append(
            (name, micros, f"{ratio:.2f}", f"{low:.2f}-{high:.2f}", f"{by_cpu:.2f}", chosen)
        )
    print(table(("product", "as it is, us", "ratio", "quartiles", "by CPU time", "chosen"), rows))


if __name__ == "__main__":
    main()
