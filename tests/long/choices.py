"""Gradients of random networks under jit, by JAX and by relaxjax: how many come out wrong.

    python tests/long/choices.py --programs 300

The networks have norms, and what chooses by them: maxima, sorts, pooling. XLA computes such norms
in several kernels, and rounds otherwise in each, so that what is sought by comparing may not be
found. Both are held against the gradient by JAX, equation by equation in float64.
"""

import argparse
from typing import Any

import checkout  # noqa: F401  # finds what follows
import jax
from norm_networks import Loss, random_loss
from surroundings import surroundings
from timing import table

from relaxjax.testing import Way
from relaxjax.testing.compilations import ROUTES
from relaxjax.testing.reference import Reference
from relaxjax.testing.subject import Subject


def by_jax(subject: Subject) -> Any:
    """The loss and its gradients as `jax.grad` has them, under jit."""

    def derived(*floats: Any) -> Any:
        value, pullback = jax.vjp(subject.forward, *floats)
        return value, pullback(subject.u)

    return jax.jit(derived)(*subject.floats)


def by_relaxjax(subject: Subject) -> Any:
    way = Way("value_and_grad")
    return ROUTES[way.route](subject, way.policy).results()


CONTESTANTS = {"jax.jit(jax.grad(loss))": by_jax, "jax.jit(relaxjax.grad(loss))": by_relaxjax}


def wrong(loss: Loss) -> dict[str, str]:
    """What is wrong with the gradients of a loss in float32, for whom it is."""
    with jax.enable_x64(True):
        subject = Subject(loss.module, "main", loss.module["main"], loss.args)
        reference = Reference(subject, "float32")
        found = {name: reference.apart(run(subject)) for name, run in CONTESTANTS.items()}
    return {name: apart for name, apart in found.items() if apart is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    counts = dict.fromkeys(CONTESTANTS, 0)
    for seed in range(options.first, options.first + options.programs):
        for name, apart in wrong(random_loss(seed)).items():
            counts[name] += 1
            print(f"seed {seed}: {name}: {apart}", flush=True)
        if seed % 25 == 0:
            jax.clear_caches()
    print(surroundings())
    rows = [[f"`{name}`", f"{count} of {options.programs}"] for name, count in counts.items()]
    print(table(["gradient", "wrong"], rows))


if __name__ == "__main__":
    main()
