"""What started this process among others on a cluster, as JAX finds it in the environment."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from .failure import InputError

_MENDS = (
    "give --coordinator HOST:PORT, --processes N and --process-id K, or train in this process "
    "alone by --processes 1"
)


@dataclass(frozen=True)
class Cluster:
    """The processes that something started together, and which of them this one is."""

    name: str
    host: str
    port: int
    number: int
    count: int


@dataclass(frozen=True)
class _Kind:
    """What starts processes, and the variables that it sets.

    It is there where one of its `signs` is. One of `counts` is 1 where it started only one process.
    JAX takes the number and the place of the others from what it `needs`.
    """

    name: str
    signs: Sequence[str]
    counts: Sequence[str]
    needs: Sequence[str]
    module: str | None = None
    hint: str = ""


# In the order in which JAX looks for them.
_KINDS = (
    _Kind(
        "Open MPI",
        signs=["OMPI_COMM_WORLD_SIZE"],
        counts=["OMPI_COMM_WORLD_SIZE"],
        needs=["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_MCA_orte_hnp_uri"],
        hint=" (since Open MPI 5 it does not set the last one)",
    ),
    _Kind(
        "Slurm",
        signs=["SLURM_STEP_ID", "SLURM_STEP_NODELIST"],
        counts=["SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"],
        needs=[
            *("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS"),
            *("SLURM_PROCID", "SLURM_LOCALID"),
        ],
    ),
    _Kind(
        "Kubernetes",
        signs=["JOB_COMPLETION_INDEX"],
        counts=[],
        needs=["KUBERNETES_SERVICE_HOST"],
        module="kubernetes",
    ),
)


def found_cluster(seconds: int) -> Cluster | None:
    """The processes that this one was started with; None where it was started alone.

    What is there by half is an error: each process would train by itself, in one folder.
    """
    kind = next((one for one in _KINDS if any(sign in os.environ for sign in one.signs)), None)
    if kind is None or any(os.environ.get(name) == "1" for name in kind.counts):
        return None
    missing = [name for name in kind.needs if name not in os.environ]
    if missing:
        raise InputError(
            f"{kind.name} started this process, but JAX cannot find the others without "
            f"{', '.join(missing)}{kind.hint}: {_MENDS}"
        )
    if kind.module is not None and find_spec(kind.module) is None:
        raise InputError(
            f"{kind.name} started this process, but JAX cannot find the others without the "
            f"package `{kind.module}`: install it, or {_MENDS}"
        )
    address, count, number = _told_by_jax(kind, seconds)
    if count == 1:
        return None
    host, _, port = address.rpartition(":")
    return Cluster(kind.name, host, int(port), number, count)


def _told_by_jax(kind: _Kind, seconds: int) -> tuple[str, int, int]:
    """The address of process 0, the number of all, and that of this one."""
    # JAX has no public way to ask for it before the processes are joined.
    from jax._src.clusters import ClusterEnv

    asked: Any = (None, None, None, None, None, seconds)
    try:
        address, count, number, _ = ClusterEnv.auto_detect_unset_distributed_params(*asked)
        if address is None or count is None or number is None:
            raise LookupError("it finds no other process")
        if not 0 <= number < count:
            raise ValueError(f"this would be process {number} of {count}")
    except Exception as error:
        raise InputError(
            f"{kind.name} started this process, but JAX cannot find the others: {error}; {_MENDS}"
        ) from error
    return address, count, number
