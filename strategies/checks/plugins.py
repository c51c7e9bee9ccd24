"""Plugins: what Trainer's plugins of MPI, JAX and XGBoost need of a runtime, and what a TrainJob says against them.

Source: trainer v2.3.0 `pkg/runtime/framework/plugins/{mpi,jax,xgboost,plainml}` EnforceMLPolicy, mpi Validate, and
`pkg/runtime/core/trainingruntime.go` newRuntimeInfo. Variables of a job win over those that the plugins write
(`plugins/jobset/builder.go` Trainer); what the plugins refuse is in `jobs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from strategies.documents import names, pods
from strategies.documents.findings import Finding, error, warning
from strategies.documents.quantities import whole
from strategies.jobs.jobs import Job
from strategies.jobs.templates import list_templates
from strategies.launches import coordinators, topologies

__all__ = ["check"]

_LAUNCHER = "launcher"
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0)(?::\d+)?")
_COUNTING = ("torch", "mpi", "flux")
_FIRST = {"jax": "JAX_COORDINATOR_ADDRESS", "xgboost": "DMLC_TRACKER_URI"}


def check(job: Job) -> Iterator[Finding]:
    """Check a TrainJob whose runtime has another policy than torch."""
    runtime = job.runtime
    if job.kind != "TrainJob" or runtime is None or runtime.is_torch or job.container is None:
        return
    policy = runtime.ml_policy
    if (runtime.document.get("spec") or {}).get("mlPolicy") is None and job.trainer.get("resourcesPerNode"):
        message = "Trainer does not read it with a runtime that has no mlPolicy; add mlPolicy to the runtime"
        yield warning("spec.trainer.resourcesPerNode", None, message, rule="core/plugin")
    if isinstance(policy.get("mpi"), dict):
        yield from _mpi(job, policy)
    several = topologies.pods_of(job) > 1
    if policy.get("jax") is not None and job.trainer.get("env"):
        yield from _jax(job, topologies.pods_of(job))
    for plugin in _FIRST if several else ():
        if policy.get(plugin) is not None and not coordinators.is_trainers(job):
            message = (
                f"Trainer sets {_FIRST[plugin]} to the address of a replicated job called node, without the subdomain "
                "of the runtime, and no pod has that name, so the nodes never meet; rename the job, or remove the "
                "subdomain"
            )
            yield _of_runtime(job, message, error)
    processes = job.trainer.get("numProcPerNode")
    if processes is not None and processes > 1 and not any(policy.get(each) is not None for each in _COUNTING):
        among = ", ".join(each for each in policy if each != "numNodes") or "no plugin"
        message = f"Trainer does not read it in a runtime of {among}, so nothing starts as many; remove it"
        yield warning("spec.trainer.numProcPerNode", processes, message, rule="core/ignored-number")


def _of_runtime(job: Job, message: str, report: Any) -> Finding:
    name = job.runtime.name if job.runtime is not None else None
    found: Finding = report("spec.runtimeRef.name", name, message, rule="core/plugin")
    return found


def _mpi(job: Job, policy: Mapping[str, Any]) -> Iterator[Finding]:
    mpi, held = policy["mpi"], {each.job.get("name") for each in list_templates(job)}
    nodes = job.trainer.get("numNodes") or 1
    if mpi.get("mpiImplementation", "OpenMPI") == "":
        message = "Trainer knows no implementation of MPI but OpenMPI, and makes no JobSet; write OpenMPI"
        yield _of_runtime(job, f"mlPolicy.mpi.mpiImplementation is empty: {message}", error)
    if nodes > 1 and mpi.get("runLauncherAsNode") and not {_LAUNCHER, names.CONTAINER_NODE} <= held:
        message = (
            "the runtime says runLauncherAsNode and lacks a replicated job launcher or node, so Trainer refuses more "
            "than 1; lower it, or use another runtime"
        )
        yield error("spec.trainer.numNodes", nodes, message, rule="core/plugin")
    elif job.container is not None and job.container.job_name != _LAUNCHER:
        message = (
            f"the training runs in the replicated job {job.container.job_name}, and Trainer mounts the host file of MPI "
            "in one called launcher alone, so mpirun would find no other node; rename it"
        )
        yield _of_runtime(job, message, warning)
    elif names.CONTAINER_NODE not in held and nodes > 1:
        message = "the runtime has no replicated job node, so there is no pod beside the launcher; lower it, or add one"
        yield error("spec.trainer.numNodes", nodes, message, rule="core/plugin")
    count = policy.get("numNodes")
    if type(count) is int and count > 1:
        message = (
            f"mlPolicy.numNodes is {count}, and in a runtime of MPI Trainer makes as many launchers, each of which "
            "starts the whole training; set it to 1, and numNodes in the TrainJob"
        )
        yield _of_runtime(job, message, warning)


def _jax(job: Job, nodes: int) -> Iterator[Finding]:
    """Judge the variables of JAX that a job writes over Trainer's."""
    for name in sorted(names.SET_BY["jax"]):
        entry = pods.find_env(job.trainer.get("env"), name)
        if entry is None or entry.get("valueFrom") is not None:
            continue
        text = str(entry.get("value") or "")
        field, number = f"spec.trainer.env[{name}]", whole(text)
        if name == "JAX_NUM_PROCESSES" and number != nodes and "$" not in text:
            message = (
                f"wins over Trainer's {nodes}, which is the number of nodes, so the processes never agree; remove it"
            )
            yield error(field, text, message, rule="core/plugin")
        elif name == "JAX_PROCESS_ID" and number is not None and nodes > 1:
            message = f"is the same on all {nodes} nodes, and wins over the number that Trainer gives each; remove it"
            yield error(field, text, message, rule="core/plugin")
        elif name == "JAX_COORDINATOR_ADDRESS" and nodes > 1 and (not text or _LOOPBACK.fullmatch(text)):
            message = "is an address of the pod itself, and wins over Trainer's, so the nodes never meet; remove it"
            yield error(field, text, message, rule="core/plugin")
