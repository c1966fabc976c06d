"""What started this process among others on a cluster, as JAX finds it in the environment."""

import os
from collections.abc import Callable, Sequence
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


def _any_of(*names: str) -> Callable[[], bool]:
    return lambda: any(name in os.environ for name in names)


def _on_tpus() -> bool:
    """Whether this is a machine of a Cloud TPU that can tell of others beside it.

    Those of Kubernetes are told by variables. Any other asks its cloud, where JAX does that, too.
    """
    # JAX has no public names for it.
    from jax._src.cloud_tpu_init import running_in_cloud_tpu_vm
    from jax._src.clusters import GceTpuCluster

    if not running_in_cloud_tpu_vm:
        return False
    if _any_of("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")():
        return True
    if "TPU_SKIP_MDS_QUERY" in os.environ:
        return False
    _check_package(_TPU)
    try:
        return bool(GceTpuCluster.is_env_present())
    except Exception as error:  # of the network, in the classes of another package
        raise InputError(
            f"this is a machine of a Cloud TPU, but its cloud does not tell of others: {error}; "
            f"{_MENDS}"
        ) from error


@dataclass(frozen=True)
class _Kind:
    """What starts processes, and the variables that it sets.

    One of `counts` is 1 where it started only one process. JAX takes the number and the place of
    the others from what it `needs`.
    """

    name: str
    is_here: Callable[[], bool]
    counts: Sequence[str] = ()
    needs: Sequence[str] = ()
    module: str | None = None
    hint: str = ""


_TPU = _Kind("a Cloud TPU", _on_tpus, module="requests")

# In the order in which JAX looks for them.
_KINDS = (
    _Kind(
        "Open MPI",
        is_here=_any_of("OMPI_COMM_WORLD_SIZE"),
        counts=["OMPI_COMM_WORLD_SIZE"],
        needs=["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_MCA_orte_hnp_uri"],
        hint=" (since Open MPI 5 it does not set the last one)",
    ),
    _Kind(
        "Slurm",
        is_here=_any_of("SLURM_STEP_ID", "SLURM_STEP_NODELIST"),
        counts=["SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"],
        needs=[
            *("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS"),
            *("SLURM_PROCID", "SLURM_LOCALID"),
        ],
    ),
    _TPU,
    _Kind(
        "Kubernetes",
        is_here=_any_of("JOB_COMPLETION_INDEX"),
        needs=["KUBERNETES_SERVICE_HOST"],
        module="kubernetes",
    ),
)


def found_cluster(seconds: int) -> Cluster | None:
    """The processes that this one was started with; None where it was started alone.

    What is there by half is an error: each process would train by itself, in one folder.
    """
    kind = next((one for one in _KINDS if one.is_here()), None)
    if kind is None or any(os.environ.get(name) == "1" for name in kind.counts):
        return None
    missing = [name for name in kind.needs if name not in os.environ]
    if missing:
        raise InputError(
            f"{kind.name} started this process, but JAX cannot find the others without "
            f"{', '.join(missing)}{kind.hint}: {_MENDS}"
        )
    _check_package(kind)
    address, count, number = _told_by_jax(kind, seconds)
    if count == 1:
        return None
    host, _, port = address.rpartition(":")
    return Cluster(kind.name, host, int(port), number, count)


def _check_package(kind: _Kind) -> None:
    if kind.module is not None and find_spec(kind.module) is None:
        raise InputError(
            f"{kind.name} started this process, but JAX cannot find the others without the "
            f"package `{kind.module}`: install it, or {_MENDS}"
        )


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
