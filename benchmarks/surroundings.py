"""What a table of measurements must name: the machine, the versions, and the day."""

import datetime
import importlib.metadata
import os
import platform
from importlib.util import find_spec
from typing import Any

import jax


def surroundings() -> dict[str, Any]:
    """The device, the processor and its cores, and what was installed."""
    packages = ["jax", "jaxlib", "numpy", *(["torch"] if find_spec("torch") else [])]
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": str(jax.devices()[0].device_kind),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def processor() -> str:
    """The processor's model, as Linux tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            models = [line.partition(":")[2].strip() for line in file if "model name" in line]
    except OSError:
        models = []
    return models[0] if models else platform.processor()


def temp_bytes(compiled: Any) -> int:
    """The bytes that a compiled program needs beside its arguments and results, as XLA says."""
    return int(compiled.memory_analysis().temp_size_in_bytes)
