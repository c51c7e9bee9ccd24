"""Members: findings about which replicated jobs of a JobSet train, and whether all of their pods run at once.

Neighbours: containers in the pod of the training that hold its devices, or launch too.

Kubernetes gives devices to containers, not to pods: a container sees what its own resources ask for. Muster and Trainer
give the rendezvous to one container, so that the launch of another finds no other node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.strategies.documents import names, paths, pods
from muster.strategies.documents.findings import Finding, error, note, warning
from muster.strategies.documents.model import Container
from muster.strategies.jobs import containers, parts
from muster.strategies.jobs.containers import Kind
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import addresses, pod_endings, quotes, readings, sites, topologies
from muster.strategies.launches.launches import Launcher

__all__ = ["check", "check_pod"]


_JOBS = "spec.replicatedJobs"
_SHOWN = 5


def check(job: Job) -> Iterator[Finding]:
    """Check the parts of a JobSet, or those that the runtime of a TrainJob has.

    Args:
        job: the first view of the job, which speaks for all of them.
    """
    if job.part:
        return
    if job.owner is None:
        for view in job.views:
            yield from check_pod(view)
    if job.kind == "TrainJob":
        yield from _of_runtime(job)
    elif job.owner is None:
        yield from _unfound(job)
        yield from _unchecked(job)
        yield from _deviceless(job)
        yield from _waiting(job)
        yield from _behind_servers(job)
        for view in job.views:
            if view.container is not None:
                yield from _pods(view, view.container)


def _unfound(job: Job) -> Iterator[Finding]:
    found, known = job.parts, [each.name for each in job.jobset.replicated_jobs]
    role = "sampler" if job.runtime and job.runtime.framework == "vllm" else "trainer"
    label = f"label the template of the one that is with {names.ROLE_LABEL}: {role}"
    if found.remote:
        message = (
            f"{_starter(job, found.remote)}, so Muster sets no rendezvous and does not know how many processes train"
        )
        yield note(_JOBS, found.remote, message, rule="core/remote-launch")
    elif found.rivals:
        message = (
            f"each of these could be the training, and they do not say that they are one; Muster changed nothing: "
            f"{label}, or all of them if they train together"
        )
        yield warning(_JOBS, _listed(found.rivals), message, rule="core/several-training-jobs")
    elif not found.places and known:
        what = "serves" if role == "sampler" else "trains"
        message = f"Muster found no replicated job that {what}, and changed nothing; {label}"
        yield warning(_JOBS, _listed(known), message, rule="core/no-training-job")
    elif role == "trainer" and len(known) == 1:
        yield from _idle(job)


def _starter(job: Job, remote: str) -> str:
    """Say who starts the processes of a JobSet: the program of one job, or nobody whom the JobSet names."""
    for place in pods.places(job.document, ("spec",)):
        if place.job_name == remote and containers.program(place.container, job.identify).kind >= Kind.LAUNCHER:
            return f"{remote} starts the processes in the other pods itself"
    return f"the pods of {remote} hold a cluster, and something else starts the processes in it"


def _idle(job: Job) -> Iterator[Finding]:
    """Warn about a JobSet whose only program was read and does not train."""
    framework, place, site = job.runtime.framework if job.runtime else None, job.container, sites.find_site(job)
    if place is None or site is None or site.reading.unread:
        return
    program = containers.program(place.container, job.identify)
    if program.launcher == "ray":
        return  # others submit programs to its cluster
    if program.kind <= Kind.IDLE and program.launcher != framework:
        message = f"starts no training, and the JobSet has the label of {framework}; remove the label, or start one"
        where, shown = paths.field(job.document, place.path), quotes.command(place.container.command or ())
        yield warning(f"{where}.command", shown, message, rule="core/no-training-job")


def _unchecked(job: Job) -> Iterator[Finding]:
    """Tell of servers beside the training, whose flags only the strategy of their own framework knows."""
    trains = {place.job_path for place in job.world}
    if job.runtime is None or job.runtime.framework == "vllm" or not trains:
        return
    for place in pods.places(job.document, ("spec",)):
        if place.job_path in trains or containers.program(place.container, job.identify).kind is not Kind.SERVER:
            continue
        message = "is a server beside the training, and its flags were not checked; check it as a JobSet labelled vllm"
        yield note(paths.field(job.document, place.path), place.job_name, message, rule="core/unchecked-part")


def _deviceless(job: Job) -> Iterator[Finding]:
    """Warn about nodes without devices in a training whose other nodes have some."""
    world = job.world
    held = {place.job_name: _holds(job, place) for place in world} if len(world) > 1 else {}
    if not any(held.values()):
        return
    for place in world:
        if not held[place.job_name]:
            message = (
                f"asks for no device, and is a node of the training of {_listed(list(held))}, where others have some; "
                "give it as many, or take it out of the training with another program or role"
            )
            where = f"{paths.field(job.document, place.path)}.resources"
            yield warning(where, None, message, rule="core/uneven-nodes")


def _waiting(job: Job) -> Iterator[Finding]:
    """Report nodes that start when other nodes of the same training have ended, which wait for them."""
    members = {place.job_name for place in job.world}
    for place in job.world:
        for index, each in enumerate(place.job.depends_on):
            if each.status == "Complete" and each.name in members:
                message = (
                    "ends only with the training, of which these pods are nodes, so neither would ever go on; wait for "
                    "status Ready, or remove it"
                )
                where = paths.field(job.document, (*place.job_path, "dependsOn", index))
                yield error(where, each.name, message, rule="core/start-order")


def _behind_servers(job: Job) -> Iterator[Finding]:
    """Report replicated jobs that start when a server has ended, which no server does by itself."""
    every = job.jobset.replicated_jobs
    if not any(each.depends_on for each in every):
        return
    serving = {each.name for each in every if any(_serves_alone(own.argv) for own in each.pod.containers)}
    for number, each in enumerate(every):
        for index, item in enumerate(each.depends_on):
            if item.status == "Complete" and item.name in serving:
                message = "is a server, which never ends by itself, so these pods never start; wait for status Ready"
                where = paths.field(job.document, ("spec", "replicatedJobs", number, "dependsOn", index))
                yield error(where, item.name, message, rule="core/start-order")


def _serves_alone(argv: Sequence[str]) -> bool:
    """Whether a command line runs `vllm serve` and nothing else; a shell may end it, and `vllm run-batch` ends."""
    launch = readings.read(argv).bare
    return launch.launcher is Launcher.VLLM and launch.target == "serve"


def _holds(job: Job, place: pods.Place) -> bool:
    return containers.holds_devices(place.container, place.pod) or (job.supply.asked and job.kind == "JobSet")


def _pods(job: Job, place: pods.Place) -> Iterator[Finding]:
    spec, together = place.job.template.spec, place.job.at_once
    if not place.job.jobs or not together:
        where = _inside(job, place, "completions" if spec.completions == 0 else "parallelism")
        if not place.job.jobs:
            where = f"{paths.field(job.document, place.job_path)}.replicas"
        yield warning(where, 0, "no pod of the training will run; set it to at least 1", rule="core/no-pods")
    elif place.job.takes_turns and topologies.pods_of(job) > 1:
        message = (
            f"only {together} of these pods run at once, so they cannot all be nodes of one training, and Muster set "
            f"no rendezvous; set completions and parallelism to the number of nodes"
        )
        yield warning(_inside(job, place, "completions"), spec.completions, message, rule="core/completions")
    elif spec.completions is None and spec.completion_mode != "NonIndexed" and spec.parallelism is not None:
        message = (
            "is missing, and Kubernetes refuses an indexed Job without it where parallelism is set; set it to the "
            "number of pods"
        )
        yield warning(_inside(job, place, "completions"), None, message, rule="core/completions")


def _inside(job: Job, place: pods.Place, member: str) -> str:
    return paths.field(job.document, (*place.job_path, "template", "spec", member))


def _of_runtime(job: Job) -> Iterator[Finding]:
    """Warn about jobs of a runtime that Trainer does not count among the nodes (`plugins/torch/torch.go`)."""
    if job.runtime is None or not job.runtime.is_torch or job.container is None:
        return
    others = _others(job, job.container)
    if others:
        message = (
            f"the runtime trains in {job.container.job_name}, and in {_listed(others)} too; Trainer gives "
            f"numNodes and PET_* only to {job.container.job_name}, so the others would train alone or wait for ever; "
            "make them one replicated job, and set numNodes"
        )
        yield warning("spec.runtimeRef.name", job.runtime.name, message, rule="core/several-training-jobs")


def _others(job: Job, trains: pods.Place) -> tuple[str, ...]:
    document = job.runtime.document if job.runtime else {}
    return parts.beside(document, ("spec", "template", "spec"), trains.job_path, job.identify)


def _listed(jobs: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
    return ", ".join(jobs[:_SHOWN]) + more


def check_pod(job: Job) -> Iterator[Finding]:
    """Check the other containers of the pod of `job.container`."""
    place = job.container
    if place is not None:
        yield from _holders(job, place)
        yield from _launchers(job, place)
        yield from _servers(job, place)
        yield from _endless(job, place)


def _holders(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Warn where a sidecar holds the devices that the launching container has not."""
    if not topologies.read_topology(job).on_cpu or topologies.sees_others(place.container):
        return
    own = place.container.name
    for other in place.pod.init_containers:
        if other.restart_policy != "Always" and containers.holds_devices(other, place.pod):
            message = (
                f"this init container holds devices, which the pod keeps when it has ended, and {own} asks for none "
                f"and would see none; ask for them in {own}"
            )
            yield warning(_field(job, place), other.name, message, rule="core/neighbour-devices")
    for _, other in _beside(place):
        if containers.holds_devices(other, place.pod) and containers.is_aside(other, job.identify):
            message = (
                f"this container holds the devices of the pod, and {own} asks for none and would see none; move them "
                f"to {own}"
            )
            yield warning(_field(job, place), other.name, message, rule="core/neighbour-devices")


def _launchers(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Warn about launches in other containers, which nobody tells how many nodes there are."""
    own, nodes = place.container.name, topologies.pods_of(job)
    if containers.program(place.container, job.identify).kind < Kind.LAUNCHER:
        return
    for where, other in _beside(place):
        if containers.program(other, job.identify).kind < Kind.LAUNCHER:
            continue
        report, message = note, f"launches too, beside {own}, and Muster did not check it; check it as a job of its own"
        if nodes > 1 and not parts.is_apart(other.name) and not _meets(other):
            report, message = (
                warning,
                (
                    f"launches too, and only {own} gets the rendezvous, so each of the {nodes} nodes would train alone "
                    f"here; launch it in {own}, or in a replicated job of its own"
                ),
            )
        yield report(_at(job, where, ".command"), other.name, message, rule="core/several-launches")


def _servers(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Tell of servers in other containers, whose flags nobody checks."""
    for where, other in _beside(place):
        if containers.program(other, job.identify).kind is Kind.SERVER:
            message = (
                f"is a server beside {place.container.name}, and its flags were not checked; check it as a JobSet "
                "labelled vllm"
            )
            yield note(_at(job, where), other.name, message, rule="core/unchecked-part")


def _endless(job: Job, place: pods.Place) -> Iterator[Finding]:
    """Warn about a container that only waits, beside a training whose end it keeps from being the end of the pod.

    A pod has succeeded when all of its containers have (kubernetes `pkg/kubelet/kubelet_pods.go` getPhase). One
    that shares the processes of the pod may be ended by the training itself.
    """
    if place.pod.share_process_namespace or not place.container.argv:
        return  # the training may end the others, or has no launch that is known to end
    for where, other in _beside(place):
        if pod_endings.of_job(job).never_ends(other.argv):
            message = (
                "waits for ever, and a pod has ended only when all of its containers have, so the job never completes "
                "and keeps its devices; make it an init container with restartPolicy: Always"
            )
            yield warning(_at(job, where, ".command"), other.name, message, rule="core/endless-neighbour")


def _meets(container: Container) -> bool:
    """Whether the command line or the env of a container says itself where its nodes meet, or that it has one node."""
    if any(each.name in _MEETING_ENV for each in container.env):
        return True
    return any(_MEETING & {*each.values, *each.env} for each in readings.read(container.argv).launches)


_MEETING_ENV = frozenset({names.PET_NNODES, names.PET_RDZV_ENDPOINT, names.PET_MASTER_ADDR, "PET_STANDALONE"})
_MEETING = _MEETING_ENV | addresses.OPTIONS | {"nnodes", "standalone", "num_machines", "num_nodes"}


def _beside(place: pods.Place) -> Iterator[tuple[paths.Path, Container]]:
    """Yield the path of each other container of the pod, and the container."""
    every = (((*place.path[:-1], position), each) for position, each in enumerate(place.pod.containers))
    return ((path, each) for path, each in every if path != place.path)


def _at(job: Job, path: paths.Path, inside: str = "") -> str:
    return f"{paths.field(job.document, path)}{inside}" if job.kind == "JobSet" else "spec.runtimeRef.name"


def _field(job: Job, place: pods.Place) -> str:
    return _at(job, place.path, ".resources")
