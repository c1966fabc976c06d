"""Processes that a cluster started: found in the environment, joined, or a clear error."""

import argparse
import re
from dataclasses import replace
from typing import Any

import jax
import pytest
from jax._src import cloud_tpu_init
from jax._src.clusters import cloud_tpu_cluster

from relaxjax.cli import cluster as found_in
from relaxjax.cli import launch as launching
from relaxjax.cli.cluster import Cluster, found_cluster
from relaxjax.cli.failure import InputError
from relaxjax.cli.launch import joined, launch

SLURM = {
    "SLURM_JOB_ID": "4097",
    "SLURM_STEP_NODELIST": "node[007-008],other",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
}
ON_KUBERNETES = {
    "TPU_WORKER_HOSTNAMES": "localhost,worker-1,worker-2",
    "TPU_WORKER_ID": "2",
    "MEGASCALE_COORDINATOR_ADDRESS": "localhost:8080",
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_SLICE_ID": "1",
}
KUBERNETES = {"JOB_COMPLETION_INDEX": "0", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets what the tests themselves may be started by."""
    told = {*SLURM, *OPEN_MPI, *KUBERNETES, *ON_KUBERNETES, "TPU_PROCESS_ADDRESSES"}
    for name in {*told, "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "TPU_SKIP_MDS_QUERY"}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("JAX_COORDINATOR_PORT", raising=False)


def environment(patch: pytest.MonkeyPatch, *variables: dict[str, str]) -> None:
    for name, value in (pair for given in variables for pair in given.items()):
        patch.setenv(name, value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (SLURM, Cluster("Slurm", "node007", 61441, 1, 2)),
        (OPEN_MPI, Cluster("Open MPI", "10.96.0.1", 62624, 3, 4)),
    ],
    ids=["Slurm", "Open MPI"],
)
def test_what_started_the_process_is_found(
    given: dict[str, str], expected: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(monkeypatch, given)
    assert found_cluster(1) == expected
    environment(monkeypatch, {"JAX_COORDINATOR_PORT": "1234"})
    assert found_cluster(1) == replace(expected, port=1234)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {**SLURM, "SLURM_NTASKS": "1"},
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # a script of sbatch
        {"OMPI_COMM_WORLD_SIZE": "1"},
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
    ],
)
def test_a_process_by_itself(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, given)
    assert found_cluster(1) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {**SLURM, "SLURM_PROCID": "", "SLURM_STEP_ID": "0"},
            "Slurm started this process, but JAX cannot find the others: invalid literal for int",
        ),
        ({**SLURM, "SLURM_PROCID": "2"}, "find the others: this would be process 2 of 2; give"),
        (
            {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_JOB_ID": "1"},
            "without SLURM_STEP_NODELIST, SLURM_LOCALID: give --coordinator HOST:PORT, --processes",
        ),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
            "OMPI_MCA_orte_hnp_uri (since Open MPI 5 it does not set the last one): give",
        ),
        ({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "7.0;udp"}, "Could not parse coordinator IP"),
        ({"JOB_COMPLETION_INDEX": "0"}, "without KUBERNETES_SERVICE_HOST: give"),
    ],
)
def test_half_of_an_environment_is_an_error(
    given: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(monkeypatch, given)
    with pytest.raises(InputError, match=re.escape(expected)):
        found_cluster(1)


def test_kubernetes_takes_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_in, "find_spec", lambda name: None)
    environment(monkeypatch, KUBERNETES)
    match = "Kubernetes started this process, .* without the package `kubernetes`: install it, or"
    with pytest.raises(InputError, match=match):
        found_cluster(1)


def test_the_processes_are_joined_as_jax_finds_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """JAX is told nothing but how long to wait: it knows which devices belong to which process."""
    environment(monkeypatch, SLURM, {"SLURM_PROCID": "0", "JAX_COORDINATOR_PORT": "1234"})
    calls = list[Any]()
    monkeypatch.setattr(launching, "meet", lambda *args: calls.append(args[:4]))
    monkeypatch.setattr(jax.distributed, "initialize", lambda *a, **k: calls.append((a, set(k))))
    monkeypatch.setattr(jax.distributed, "shutdown", lambda: calls.append("shutdown"))
    args = argparse.Namespace(cpu_devices=None, coordinator=None, processes=None)
    with joined(args):
        assert args.processes == 2  # which the mesh of all devices goes by
    waits = {"initialization_timeout", "heartbeat_timeout_seconds"}
    assert calls == [("node007", 1234, 0, 2), ((None,) * 3, waits), "shutdown"]
    assert capsys.readouterr().out == "Slurm started 2 processes, which met at node007:1234\n"


def test_processes_are_not_started_by_those_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, SLURM)
    match = "--processes 3 starts processes here, but Slurm started this one, as process 1 of 2: "
    with pytest.raises(InputError, match=match):
        launch(argparse.Namespace(processes=3, given=["train"]))


def on_tpus(patch: pytest.MonkeyPatch, told: dict[str, str] | None) -> None:
    """The machine becomes one of a Cloud TPU; `told` is what the cloud says when JAX asks it."""

    def answer(key: str) -> tuple[str, int]:
        if told is None:
            raise ConnectionError("no route to the cloud")
        return told.get(key, ""), 200 if key in told else 404

    for module in (cloud_tpu_init, cloud_tpu_cluster):
        patch.setattr(module, "running_in_cloud_tpu_vm", True)
    patch.setattr(cloud_tpu_cluster, "get_metadata", answer)
    patch.setattr(found_in, "find_spec", lambda name: name)


def test_a_cloud_tpu_of_kubernetes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the job of Kubernetes that it stands in, and by each of several slices."""
    on_tpus(monkeypatch, {})
    environment(monkeypatch, ON_KUBERNETES, {"JOB_COMPLETION_INDEX": "5"})
    assert found_cluster(1) == Cluster("a Cloud TPU", "localhost", 8482, 5, 6)


def test_a_cloud_tpu_is_found_by_what_its_cloud_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"agent-worker-number": "1", "worker-network-endpoints": "a:0:127.0.0.1,b:1:10.0.0.2"}
    on_tpus(monkeypatch, told)
    assert found_cluster(1) == Cluster("a Cloud TPU", "127.0.0.1", 8482, 1, 2)
    on_tpus(monkeypatch, {"agent-worker-number": "0", "worker-network-endpoints": "localhost"})
    assert found_cluster(1) is None  # one machine has all of it
    on_tpus(monkeypatch, {})
    assert found_cluster(1) is None  # none of those that Google gives
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    on_tpus(monkeypatch, None)
    assert found_cluster(1) is None  # which is not to ask


def test_a_cloud_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    on_tpus(monkeypatch, None)
    match = "its cloud does not tell of others: no route to the cloud; give --coordinator"
    with pytest.raises(InputError, match=match):
        found_cluster(1)
    environment(monkeypatch, {"TPU_WORKER_HOSTNAMES": "localhost,other"})
    with pytest.raises(InputError, match="a Cloud TPU started this process, but JAX cannot find"):
        found_cluster(1)
    monkeypatch.setattr(found_in, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="without the package `requests`: install it, or give"):
        found_cluster(1)
