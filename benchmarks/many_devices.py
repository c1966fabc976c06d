"""What a GPT takes to compile for many devices by fsdp, and what each device then holds.

    python benchmarks/many_devices.py
    python benchmarks/many_devices.py --layers 12 --devices 8 64 --record
    python benchmarks/many_devices.py --samples 4096 --write gpt.py
    relaxjax plan gpt.py --devices 4096 --hardware h100 --policy none

Nothing is run: the devices are virtual ones of the CPU, in a process of their own for each number.
The batch is the same for all. Compile time is that of everything until the step could be made:
SetupTrainer, tracing and XLA, in CPU seconds, which other programs on the machine change little.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from timing import table

RESULTS = Path(__file__).parent / "results" / "many_devices.json"
_PROBE = "--as-process"


def compiled(layers: int, width: int, samples: int, devices: int) -> dict[str, Any]:
    """The CPU seconds until a step is compiled for so many devices, and the bytes of each."""
    os.environ["RELAXJAX_COMPILATION_CACHE"] = "off"
    from depth import LENGTH, WORDS, script
    from surroundings import surroundings

    from relaxjax.ir.types import TensorType
    from relaxjax.losses import CrossEntropyLoss
    from relaxjax.optim import Adam
    from relaxjax.passes import SetupTrainer
    from relaxjax.script import from_source
    from relaxjax.training.devices.step_counts import counted

    rows = samples * LENGTH
    types = [TensorType((rows, WORDS), "float32"), TensorType((rows,), "int32")]
    backbone: Any = from_source(script(layers, width, samples))
    around = surroundings()  # starts JAX's devices
    start = time.process_time()
    setup = SetupTrainer(
        CrossEntropyLoss(), Adam(1e-3), types, roll_blocks=True, devices=devices, sharding="fsdp"
    )
    mod = setup(backbone)
    set_up = time.process_time() - start
    found = counted(mod, {"data": devices})
    return {
        "devices": devices,
        "seconds": time.process_time() - start,
        "setup": set_up,
        "held": found.held,
        "temporary": found.temporary,
        "exchanges": {kind: size for (kind, _), size in found.exchanges.items()},
        "surroundings": around,
    }


def write(file: Path, layers: int, width: int, samples: int) -> None:
    """The model as a script, which `relaxjax plan` reads."""
    from depth import script

    file.write_text(script(layers, width, samples))


def in_a_process(given: argparse.Namespace, devices: int) -> dict[str, Any]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    options = ["--layers", given.layers, "--width", given.width, "--samples", given.samples]
    done = subprocess.run(
        [sys.executable, __file__, *map(str, options), "--devices", str(devices), _PROBE],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def shown(found: list[dict[str, Any]]) -> str:
    """A row for each number of devices; what is held would be divided by it if all were split."""
    first = found[0]
    head = ["devices", "CPU seconds", "/ first", "held", "of all", "temporary", "exchanged"]
    rows = [
        [
            str(one["devices"]),
            f"{one['seconds']:.1f}",
            f"{one['seconds'] / first['seconds']:.2f}",
            f"{one['held']:,}",
            f"{one['held'] * one['devices'] / (first['held'] * first['devices']):.3f}",
            f"{one['temporary']:,}",
            ", ".join(f"{size / 1e6:.0f} MB {kind}" for kind, size in one["exchanges"].items()),
        ]
        for one in found
    ]
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--record", action="store_true", help="keep it in results")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the model, and end")
    parser.add_argument(_PROBE, action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write is not None:
        write(given.write, given.layers, given.width, given.samples)
        return
    if given.as_process:
        print(json.dumps(compiled(given.layers, given.width, given.samples, *given.devices)))
        return
    found = [in_a_process(given, devices) for devices in given.devices]
    print(found[0]["surroundings"])
    print(shown(found))
    if given.record:
        sizes = {name: getattr(given, name) for name in ("layers", "width", "samples")}
        RESULTS.write_text(f"{json.dumps({**sizes, 'rows': found}, indent=1)}\n")


if __name__ == "__main__":
    main()
