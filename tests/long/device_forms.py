"""What tests/long/on_device.py times beside whole models.

These are long attention and losses of many words, steps by rows of tables, updates in several
forms, and residuals that wait on the host.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import long_sequences
import table_rows
import update_share
from contestants import CONTESTANTS, Contestant, Training, by_us, our_adam
from long_cases import FAMILIES, attention
from models import MODELS, QUICK
from operator_case import Case
from timing import in_turns

from relaxjax.ops.nn.accelerated_attention import VARIABLE, gpu_here
from relaxjax.ops.platform import default_device

Row = dict[str, Any]

ROUNDS, QUICK_ROUNDS = 7, 2
OFFLOADED = ("MLP of 64 layers", "ResNet-50", "U-Net", "GPT of 8 layers")
UPDATED = ("ResNet-18", "GPT of 8 layers")
QUICK_LONG = "loss: 512 tokens, 16384 words, width 256"
QUICK_TABLE = "10000 rows, SGD"

# In half precision, once by our form and once by cuDNN's.
_HALF = [
    attention("causal", 4096, heads=16, dtype="bfloat16"),
    attention("full", 4096, heads=16, dtype="bfloat16"),
    attention("causal", 16384, heads=16, window=512, dtype="bfloat16"),
]
BY_CUDNN = {f"attention by cuDNN: {case.name}": case for case in _HALF}
LONG: dict[str, Case] = {
    **{f"{family}: {case.name}": case for family, cases in FAMILIES.items() for case in cases},
    **{f"attention: {case.name}": case for case in _HALF},
    **BY_CUDNN,
}
_TABLES: dict[str, Callable[[], table_rows.Case]] = {
    "1000000 rows": partial(table_rows.one_table, 1_000_000),
    "recommender": table_rows.recommender,
    "10000 rows": partial(table_rows.one_table, 10_000),
}
TABLES = {
    f"{name}, {optimizer}": (case, optimizer)
    for name, case in _TABLES.items()
    for optimizer in table_rows.OPTIMIZERS
}


def rounds(quick: bool) -> int:
    return QUICK_ROUNDS if quick else ROUNDS


def long_row(name: str, quick: bool) -> Row:
    """A case of long attention or many words beside plain JAX, forward and with its adjoints."""
    with _cudnn_asked_for(name in BY_CUDNN):
        found = list(long_sequences.measured(name.partition(":")[0], LONG[name], rounds(quick)))
    return {"directions": {row["direction"]: row for row in found}}


@contextmanager
def _cudnn_asked_for(asked: bool) -> Iterator[None]:
    """Inside, cuDNN computes attention, or it is an error where it cannot."""
    before = os.environ.get(VARIABLE, "off")
    os.environ[VARIABLE] = "on" if asked else "off"
    try:
        if asked and gpu_here() is None:
            raise AssertionError("there is no GPU of NVIDIA's here")
        yield
    finally:
        os.environ[VARIABLE] = before


def table_row(name: str, quick: bool) -> Row:
    """Steps by rows of tables, and as plain JAX and optax make them, of whole gradients."""
    case, optimizer = TABLES[name]
    ours, dense = table_rows.OPTIMIZERS[optimizer]
    found = table_rows.compared(case(), ours, dense, rounds(quick))
    return {
        "rows": {
            way: dict(zip(table_rows.HEAD[1:], row, strict=True)) for way, row in found.items()
        }
    }


def update_row(name: str, quick: bool) -> Row:
    """The update by Adam: in groups of parameters, with narrow states, and in whole steps."""
    model = (QUICK if quick else MODELS)[name]()
    tables = (update_share.alone, update_share.narrow, update_share.shares)
    return {"tables": [make(model, rounds(quick)) for make in tables]}


def offload_row(name: str, quick: bool) -> Row:
    """A step whose residuals wait on the host, beside the same that keeps them."""
    if default_device().platform == "cpu":
        raise AssertionError("a CPU has no memory beside the host's")
    model = (QUICK if quick else MODELS)[name]()
    offloaded = Contestant(by_us(policy="offload"), our_adam, is_stored=True)
    kinds = {"ours": CONTESTANTS["ours"], "offload": offloaded}
    steps = {kind: Training(contestant, model) for kind, contestant in kinds.items()}
    return beside(steps, rounds(quick))


def beside(steps: Mapping[str, Any], count: int) -> Row:
    """Two trainings of one model in turns: times and memory, if they give the same losses."""
    times = in_turns(steps, count)
    first, other = (float(step.loss) for step in steps.values())
    if not abs(first - other) <= 1e-3 * max(1.0, abs(first)):
        raise AssertionError(f"the losses are {first} and {other} after as many steps")
    return {
        name: {"seconds": times[name].median(), "temp_bytes": step.temp_bytes}
        for name, step in steps.items()
    }
