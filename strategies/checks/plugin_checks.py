"""Plugins: what Trainer's plugins of MPI, JAX and XGBoost need of a runtime, and what a TrainJob says against them.

Source: trainer `pkg/runtime/framework/plugins/{mpi,jax,xgboost,plainml}` EnforceMLPolicy, mpi Validate, and
`pkg/runtime/core/trainingruntime.go` newRuntimeInfo. Variables of a job win over those that the plugins write
(`plugins/jobset/builder.go` Trainer); what the plugins refuse is in `jobs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents import loose, names
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import list_templates
from muster.strategies.launches import coordinators, sites, topologies

__all__ = ["check"]

_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0)(?::\d+)?")
_COUNTING = ("torch", "mpi", "flux")
_FIRST = {"jax": "JAX_COORDINATOR_ADDRESS", "xgboost": "DMLC_TRACKER_URI"}


def check(job: Job) -> Iterator[Finding]:
    """Check a TrainJob against the plugin of its runtime."""
    runtime = job.runtime
    if job.kind != "TrainJob" or runtime is None or job.container is None:
        return
    policy = runtime.ml_policy
    if policy.get("torch") is not None:
        if policy["torch"] and loose.mapping(policy["torch"]).get("envInjection") is not None:
            yield from _targets(job, loose.mapping(policy["torch"])["envInjection"])
        return
    if isinstance(policy.get("mpi"), dict):
        yield from _mpi(job, policy)
    if policy.get("flux") is not None:
        yield from _flux(job)
    if policy.get("jax") is not None:
        yield from _jax(job, topologies.pods_of(job))
    yield from _unread(job, policy)
    yield from _first(job, policy)


def _unread(job: Job, policy: Mapping[str, Any]) -> Iterator[Finding]:
    """Report members of a TrainJob that nothing reads."""
    runtime = job.runtime
    spec = loose.mapping(runtime.document.get("spec")) if runtime is not None else {}
    if spec.get("mlPolicy") is None and job.raw_trainer.get("resourcesPerNode"):
        message = "Trainer does not read it with a runtime that has no mlPolicy; add mlPolicy to the runtime"
        yield warning("spec.trainer.resourcesPerNode", None, message, rule="core/plugin")
    processes = job.trainer.num_proc_per_node
    if isinstance(processes, int) and processes > 1 and not any(policy.get(each) is not None for each in _COUNTING):
        among = ", ".join(each for each in policy if each != "numNodes") or "no plugin"
        message = f"Trainer does not read it in a runtime of {among}, so nothing starts as many; remove it"
        yield warning("spec.trainer.numProcPerNode", processes, message, rule="core/ignored-number")


def _first(job: Job, policy: Mapping[str, Any]) -> Iterator[Finding]:
    """Report nodes whose first one has another name than Trainer tells the others."""
    several = topologies.pods_of(job) > 1 and not coordinators.is_trainers(job)
    for plugin in _FIRST if several else ():
        if policy.get(plugin) is not None:
            message = (
                f"Trainer sets {_FIRST[plugin]} to the address of a replicated job called node, without the subdomain "
                "of the runtime, and no pod has that name, so the nodes never meet; rename the job, or remove the "
                "subdomain"
            )
            yield _of_runtime(job, message, error)


def _targets(job: Job, injection: Any) -> Iterator[Finding]:
    """Report targets of PET_* that the runtime lacks (`plugins/torch/torch.go` validateEnvInjectionTargets)."""
    held = {
        (str(each.raw.get("name")), str(container.get("name")))
        for each in list_templates(job)
        for member in ("containers", "initContainers")
        for container in each.raw_spec.get(member) or ()
    }
    for target in loose.items(injection, "targets"):
        for container in loose.sequence(target.get("containerNames")):
            if (str(target.get("jobName")), str(container)) not in held:
                message = (
                    f"mlPolicy.torch.envInjection of the runtime names container {container} of replicated job "
                    f"{target.get('jobName')}, which it lacks, so Trainer refuses the job; correct the runtime"
                )
                yield _of_runtime(job, message, error)


def _flux(job: Job) -> Iterator[Finding]:
    """Report the init container whose name Trainer keeps for itself (`plugins/flux/flux.go` Validate)."""
    for template in list_templates(job):
        every = template.raw_spec.get("initContainers") or ()
        if template.raw.get("name") == names.CONTAINER_NODE and any(each.get("name") == _INSTALLER for each in every):
            message = (
                f"the runtime has an init container {_INSTALLER}, which Trainer adds itself, so it refuses the job"
            )
            yield _of_runtime(job, f"{message}; rename it", error)


_INSTALLER = "flux-installer"


def _of_runtime(job: Job, message: str, report: Any) -> Finding:
    name = job.runtime.name if job.runtime is not None else None
    found: Finding = report("spec.runtimeRef.name", name, message, rule="core/plugin")
    return found


def _mpi(job: Job, policy: Mapping[str, Any]) -> Iterator[Finding]:
    mpi, held = policy["mpi"], {each.raw.get("name") for each in list_templates(job)}
    nodes = job.trainer.num_nodes or 1
    if mpi.get("mpiImplementation", "OpenMPI") == "":
        message = "Trainer knows no implementation of MPI but OpenMPI, and makes no JobSet; write OpenMPI"
        yield _of_runtime(job, f"mlPolicy.mpi.mpiImplementation is empty: {message}", error)
    if nodes > 1 and mpi.get("runLauncherAsNode") and not {names.LAUNCHER, names.CONTAINER_NODE} <= held:
        message = (
            "the runtime says runLauncherAsNode and lacks a replicated job launcher or node, so Trainer refuses more "
            "than 1; lower it, or use another runtime"
        )
        yield error("spec.trainer.numNodes", nodes, message, rule="core/plugin")
    elif nodes > 1 and job.container is not None and job.container.job_name != names.LAUNCHER:
        message = (
            f"the training runs in the replicated job {job.container.job_name}, and Trainer mounts the host file of "
            "MPI in one called launcher alone, so mpirun would find no other node; rename it"
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
    """Judge the variables of JAX that a job, or a shell in it, writes over Trainer's."""
    site = sites.find_site(job)
    launch = site.reading.training if site is not None else None
    shell = launch.env if launch is not None else {}
    entries = {str(entry.get("name")): entry for entry in job.raw_trainer.get("env") or ()}
    for name in sorted((_OF_JAX & shell.keys()) | (_OF_JAX & entries.keys())):
        where = f"spec.trainer.env[{name}]"
        if name in shell and site is not None and launch is not None:
            text, where = shell[name], site.locate_option(launch, "")
        else:
            text = None if entries[name].get("valueFrom") is not None else str(entries[name].get("value") or "")
        if text is None or "$" in text:
            continue
        for report, message, rule in _of_jax(job, name, text, nodes):
            yield report(where, text, message, rule=rule)


_DEVICES = "CUDA_VISIBLE_DEVICES"
_PLATFORMS = frozenset({"JAX_PLATFORMS", "JAX_PLATFORM_NAME"})
_OF_JAX = names.SET_BY["jax"] | _PLATFORMS | {_DEVICES}


def _of_jax(job: Job, name: str, text: str, nodes: int) -> Iterator[tuple[Any, str, str]]:
    """Yield the severity, the message and the rule of what is wrong with one variable."""
    number, idle = whole(text), "core/idle-devices"
    if name == "JAX_NUM_PROCESSES" and number != nodes:
        message = f"wins over Trainer's {nodes}, which is the number of nodes, so the processes never agree; remove it"
        several = number is not None and number > nodes and number % nodes == 0  # a script may start those of its node
        yield warning if several else error, message, "core/plugin"
    elif name == "JAX_PROCESS_ID" and number is not None and nodes > 1:
        message = f"is the same on all {nodes} nodes, and wins over the number that Trainer gives each; remove it"
        yield error, message, "core/plugin"
    elif name == "JAX_COORDINATOR_ADDRESS" and nodes > 1 and (not text or _LOOPBACK.fullmatch(text)):
        message = "is an address of the pod itself, and wins over Trainer's, so the nodes never meet; remove it"
        yield error, message, "core/plugin"
    count = topologies.read_topology(job).devices.count
    if name in _PLATFORMS and text == "cpu" and count:
        # JAX configuration options, jax_platforms
        yield warning, f"lets JAX use the processor alone, and the {count} GPUs of each node are idle; remove it", idle
    seen = topologies.visible(count, {name: text}) if name == _DEVICES else None
    if seen is not None and count is not None and seen < count:
        message = f"shows {seen} of the {count} GPUs of each node, whose one process of JAX uses no others; remove it"
        yield warning, message, idle
