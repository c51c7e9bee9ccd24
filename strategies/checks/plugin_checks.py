"""Plugins: what Trainer's plugins of MPI, JAX and XGBoost need of a runtime, and what a TrainJob says against them.

Source: trainer `pkg/runtime/framework/plugins/{mpi,jax,xgboost,plainml}` EnforceMLPolicy, mpi Validate, and
`pkg/runtime/core/trainingruntime.go` newRuntimeInfo. Variables of a job win over those that the plugins write
(`plugins/jobset/builder.go` Trainer); what the plugins refuse is in `jobs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.model import EnvInjection, MLPolicy, MPIPolicy, Resources
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import list_templates
from muster.strategies.launches import coordinators, sites, topologies

__all__ = ["check"]

_LOOPBACK = r"(?:localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0)(?::\d+)?"
_COUNTING = frozenset({"torch", "mpi", "flux"})
_FIRST = {"jax": "JAX_COORDINATOR_ADDRESS", "xgboost": "DMLC_TRACKER_URI"}


def check(job: Job) -> Iterator[Finding]:
    """Check a TrainJob against the plugin of its runtime."""
    runtime = job.runtime
    if job.kind != "TrainJob" or runtime is None or job.container is None:
        return
    policy = runtime.policy
    if policy.torch is not None:
        yield from _targets(job, policy.torch.env_injection)
        return
    if policy.mpi is not None:
        yield from _mpi(job, policy.mpi, policy.num_nodes)
    if policy.flux is not None:
        yield from _flux(job)
    if policy.jax is not None:
        yield from _jax(job, topologies.pods_of(job))
    yield from _unread(job, policy)
    yield from _first(job, policy)


def _unread(job: Job, policy: MLPolicy) -> Iterator[Finding]:
    """Report members of a TrainJob that nothing reads."""
    if policy == MLPolicy() and job.trainer.resources_per_node not in (None, Resources()):
        message = "Trainer does not read it with a runtime that has no mlPolicy; add mlPolicy to the runtime"
        yield warning("spec.trainer.resourcesPerNode", None, message, rule="core/plugin")
    processes = job.trainer.num_proc_per_node
    if isinstance(processes, int) and processes > 1 and _COUNTING.isdisjoint(policy.sources):
        among = ", ".join(policy.sources) or "no plugin"
        message = f"Trainer does not read it in a runtime of {among}, so nothing starts as many; remove it"
        yield warning("spec.trainer.numProcPerNode", processes, message, rule="core/ignored-number")


def _first(job: Job, policy: MLPolicy) -> Iterator[Finding]:
    """Report nodes whose first one has another name than Trainer tells the others."""
    several = topologies.pods_of(job) > 1 and not coordinators.is_trainers(job)
    for plugin in _FIRST.keys() & policy.sources if several else ():
        message = (
            f"Trainer sets {_FIRST[plugin]} to the address of a replicated job called node, without the subdomain of "
            "the runtime, and no pod has that name, so the nodes never meet; rename the job, or remove the subdomain"
        )
        yield _of_runtime(job, message, error)


def _targets(job: Job, injection: EnvInjection) -> Iterator[Finding]:
    """Report targets of PET_* that the runtime lacks (`plugins/torch/torch.go` validateEnvInjectionTargets)."""
    held = {
        (each.job.name, container.name)
        for each in list_templates(job)
        for container in (*each.pod.containers, *each.pod.init_containers)
    }
    for target in injection.targets:
        for container in target.container_names:
            if (target.job_name, container) not in held:
                message = (
                    f"mlPolicy.torch.envInjection of the runtime names container {container} of replicated job "
                    f"{target.job_name}, which it lacks, so Trainer refuses the job; correct the runtime"
                )
                yield _of_runtime(job, message, error)


def _flux(job: Job) -> Iterator[Finding]:
    """Report the init container whose name Trainer keeps for itself (`plugins/flux/flux.go` Validate)."""
    for template in list_templates(job):
        own = (each.name for each in template.pod.init_containers)
        if template.job.name == names.CONTAINER_NODE and _INSTALLER in own:
            message = (
                f"the runtime has an init container {_INSTALLER}, which Trainer adds itself, so it refuses the job"
            )
            yield _of_runtime(job, f"{message}; rename it", error)


_INSTALLER = "flux-installer"


def _of_runtime(job: Job, message: str, report: Any) -> Finding:
    name = job.runtime.name if job.runtime is not None else None
    found: Finding = report("spec.runtimeRef.name", name, message, rule="core/plugin")
    return found


def _mpi(job: Job, mpi: MPIPolicy, count: int | None) -> Iterator[Finding]:
    held = {each.job.name for each in list_templates(job)}
    nodes = job.trainer.num_nodes or 1
    if mpi.mpi_implementation == "":
        message = "Trainer knows no implementation of MPI but OpenMPI, and makes no JobSet; write OpenMPI"
        yield _of_runtime(job, f"mlPolicy.mpi.mpiImplementation is empty: {message}", error)
    if nodes > 1 and mpi.run_launcher_as_node and not {names.LAUNCHER, names.CONTAINER_NODE} <= held:
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
    if count is not None and count > 1:
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
    entries = {entry.name: entry for entry in job.trainer.env}
    for name in sorted((_OF_JAX & shell.keys()) | (_OF_JAX & entries.keys())):
        where = f"spec.trainer.env[{name}]"
        if name in shell and site is not None and launch is not None:
            text, where = shell[name], site.locate_option(launch, "")
        else:
            text = entries[name].literal
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
    elif name == "JAX_COORDINATOR_ADDRESS" and nodes > 1 and (not text or re.fullmatch(_LOOPBACK, text)):
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
