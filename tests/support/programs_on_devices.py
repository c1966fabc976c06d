"""Programs that each device of a mesh runs, and what they compute where there is one device.

What several devices compute stands in tests/lowering/test_local_view.py.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy_references_functions import PROGRAMS, Program
from operator_samples import Array, floats, integers

_TEXT = """
@R.function(private=True)
def part(x: R.Tensor(SHAPE, "DTYPE")):
    y = CALL
    return y

@R.function
def main(x: R.Tensor(SHAPE, "DTYPE")):
    y = R.dist.call_local_view(
        Module.part, (x,), R.device_mesh((1,), [0]), in_placements=["R"], out_placements=["OUT"]
    )
    return y
"""

_CALLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "relax.ccl.allreduce": ("R.ccl.allreduce(x)", np.asarray),
    "relax.ccl.allgather": ("R.ccl.allgather(x, 1, axis=-1)", np.asarray),
    "relax.ccl.reduce_scatter": ("R.ccl.reduce_scatter(x, 1, -1)", np.asarray),
    "relax.ccl.all_to_all": ("R.ccl.all_to_all(x, 1, -1, 0)", np.asarray),
    "relax.ccl.broadcast_from_worker0": ("R.ccl.broadcast_from_worker0(x)", np.asarray),
    "relax.ccl.reduce_to_worker0": ("R.ccl.reduce_to_worker0(x)", np.asarray),
    "relax.ccl.scatter_from_worker0": ("R.ccl.scatter_from_worker0(x, 1)", np.asarray),
    "relax.ccl.gather_to_worker0": ("R.ccl.gather_to_worker0(x, 1)", np.asarray),
    "relax.ccl.permute": ("R.ccl.permute(x, [])", np.zeros_like),
    "relax.dist.redistribute_replica_to_shard": (
        "R.dist.redistribute_replica_to_shard(x, 1, -1)",
        np.asarray,
    ),
    "relax.dist.shard_among_zeros": ("R.dist.shard_among_zeros(x, 1, 0)", np.asarray),
    "relax.dist.call_local_view": ("R.exp(x)", np.exp),
}
_ARGS = (floats(2, 3), floats(4, dtype="bfloat16"), integers(0, 2))


def _program(call: str, arg: Array, reference: Callable[[Any], Any]) -> Program:
    text = _TEXT.replace("CALL", call).replace("SHAPE", str(arg.shape))
    return Program(text.replace("DTYPE", arg.dtype).replace("OUT", "S[0]"), (arg,), reference)


for name, (call, reference) in _CALLS.items():
    PROGRAMS[name] = [_program(call, arg, reference) for arg in _ARGS]
PROGRAMS["relax.dist.call_local_view"][2] = _program("R.negative(x)", _ARGS[2], np.negative)
