"""What it costs to start a training: until the first step is made, in a process of its own.

    python benchmarks/starts.py                           # every model of the suite
    python benchmarks/starts.py --only ResNet-18 --quick  # of the smaller size

* plain: `jax.jit` of `jax.value_and_grad` and optax, nothing kept on disk;
* ours: `Trainer.from_jax` of the same loss and optimizer, from an empty cache on disk;
* again: the same in the next process, from what the first one kept there.

Seconds are those of the CPU, of all threads: from the loss, its parameters and a batch in memory
until the loss of the first step is known, less what the second step takes. Imports are not in them,
nor what a process does once: a small model is trained first, with nothing kept.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

WAYS = ("plain", "ours", "again")
RESULTS = Path(__file__).parent / "results" / "starts.json"
WARM_UP = "MLP"


def started(way: str, model: Any) -> float:
    """The CPU seconds until a model has made its first step."""
    import jax
    import jax.numpy as jnp
    import optax
    from models.convnets import ChannelsLast

    from relaxjax.training import Trainer

    is_images = isinstance(model, ChannelsLast)
    params = model.to_plain(model.params) if is_images else model.params
    batch = tuple(model.plain_inputs() if is_images else model.inputs)
    params, batch = jax.tree.map(jnp.array, (params, batch))

    def loss(params: Any, batch: Any) -> Any:
        result = model.plain(*params, *batch)
        return result[0] if isinstance(result, tuple) else result

    tx = optax.adam(1e-3)
    began = time.process_time()
    if way == "plain":

        def step(params: Any, state: Any, batch: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(params, batch)
            updates, state = tx.update(gradients, state, params)
            return optax.apply_updates(params, updates), state, value

        run = jax.jit(step, donate_argnums=(0, 1))
        state: Any = tx.init(params)

        def update() -> Any:
            nonlocal params, state
            params, state, value = run(params, state, batch)
            return value

    else:
        trainer = Trainer.from_jax(loss, params, tx, batch)

        def update() -> Any:
            return trainer.update(batch)

    float(update())
    first = time.process_time() - began
    began = time.process_time()
    float(update())
    return first - (time.process_time() - began)


def child(way: str, name: str, is_quick: bool) -> None:
    import jax
    from models import MODELS, QUICK

    folder = os.environ["RELAXJAX_COMPILATION_CACHE"]
    os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"
    started(way, QUICK[WARM_UP]())
    jax.clear_caches()
    os.environ["RELAXJAX_COMPILATION_CACHE"] = folder
    print(json.dumps(started(way, (QUICK if is_quick else MODELS)[name]())))


def measured(name: str, is_quick: bool, folder: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for way in WAYS:
        command = [sys.executable, __file__, "--child", way, "--only", name]
        environment = os.environ | {
            "RELAXJAX_COMPILATION_CACHE": "off" if way == "plain" else folder
        }
        output = subprocess.run(
            [*command, *(["--quick"] if is_quick else [])],
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        found[way] = float(output.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="MODEL")
    parser.add_argument("--quick", action="store_true", help="smaller models")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.only[0], args.quick)
        return
    from models import MODELS
    from surroundings import surroundings

    results = json.loads(RESULTS.read_text())["models"] if RESULTS.exists() else {}
    for name in args.only or MODELS:
        with TemporaryDirectory() as folder:
            found = measured(name, args.quick, folder)
        plain, ours, again = (found[way] for way in WAYS)
        print(
            f"{name}: plain {plain:.2f}, ours {ours:.2f} ({ours / plain:.2f}), again {again:.2f} "
            f"({again / plain:.2f} of plain, {again / ours:.2f} of ours)",
            flush=True,
        )
        results[name] = found
        kept = {one: results[one] for one in MODELS if one in results}
        where = surroundings() | {"sizes": "quick" if args.quick else "whole"}
        RESULTS.write_text(json.dumps({**where, "models": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
