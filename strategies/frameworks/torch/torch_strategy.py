"""The torch strategy: the rendezvous, the process count, and a note about what it cannot enforce.

torchrun already reads everything that Trainer injects, so its commands stay as they are. A user's own program is never
rewritten: it gets the same rendezvous, and a note where nobody sees whether its launch starts all processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import plans
from muster.strategies.documents import names
from muster.strategies.documents.findings import OPEN, Finding, error, note, warning
from muster.strategies.frameworks.torch import trainer_sections, tune_launches
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import (
    capabilities,
    counts,
    meetings,
    members,
    networks,
    pod_endings,
    quotes,
    rendezvous,
    shared_memory,
    sites,
    topologies,
    variables,
)
from muster.strategies.launches.launches import Launcher

__all__ = ["TorchFamily", "TorchStrategy", "unenforced"]


class TorchFamily:
    """What every framework on torch.distributed shares: env, process count, checks of the runtime."""

    framework = "torch"
    version = "1"

    def prepare(self, job: Job, changes: Changes) -> None:
        """Give a TrainJob its `spec.trainer` and the right process count, before its launch is read."""
        trainer_sections.ensure(job, changes, self.framework)
        trainer_sections.pin_processes(job, changes, self.framework)

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Add the rendezvous env to a JobSet."""
        rendezvous.enforce(job, changes, self.framework)

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add the claims that were asked for; the process count above already follows them."""
        plans.enforce(job, changes, self.framework)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check the runtime against its label, and the launch against pods, devices and the rendezvous."""
        yield from self.check_surroundings(job)
        yield from counts.check_counts(job)

    def check_surroundings(self, job: Job) -> Iterator[Finding]:
        """Check all but the launch itself, for a strategy that replaces it."""
        yield from members.check(job)
        yield from _runtime_disagrees(job, self.framework)
        yield from _dropped_claims(job, self.framework)
        yield from trainer_sections.check_slices(job, self.framework)
        yield from meetings.check_meetings(job)
        yield from networks.check(job)
        yield from networks.check_ports(job)
        yield from pod_endings.check(job)
        yield from variables.check(job)
        yield from capabilities.check(job)
        yield from shared_memory.check(job)
        yield from pod_endings.check_restarts(job)


class TorchStrategy(TorchFamily):
    """Serves `trainer.kubeflow.org/framework: torch`."""

    framework = "torch"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Rewrite nothing; report a launch that cannot start all of the job's processes."""
        self.prepare(job, changes)
        site = sites.find_site(job)
        if site is not None and job.owner is None:
            for finding in unenforced(site, topologies.read_topology(job), self.framework):
                changes.report(finding)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check what every framework of the family has, and the launches of `tune run`."""
        yield from super().validate(job)
        yield from tune_launches.check(job, frozenset())
        yield from tune_launches.check_names(job)


def unenforced(site: sites.Site, topology: topologies.Topology, framework: str) -> Iterator[Finding]:
    """Note what Muster cannot see of a launch that it does not read.

    A right job of a user's own program or of another project's launcher cannot do anything about that, so it is a
    warning only where the launch is known to start too little.
    """
    reading, size = site.reading, topology.size
    launch = reading.training
    if launch is not None and launch.launcher not in (Launcher.PYTHON, Launcher.OTHER):
        return  # counted, or said to be unknown, by the check of counts
    if launch is not None and any(each.launcher is Launcher.RAY for each in reading.launches):
        return  # of a cluster of Ray, the check of counts says that it is unknown
    report, message = note, ""
    if site.argv and launch is None and not reading.unread:
        report, message = warning, "this command line starts nothing that trains; write the command of the training"
    elif launch is None and any("\r\n" in word for word in site.argv):
        report = warning
        message = (
            "lines of the shell's text end with CR LF, as on Windows, and the shell takes the CR for a part of the "
            "last word, so it finds no such program or file; save the text with LF alone"
        )
    elif launch is None and reading.visible is not None:
        message = f"{'; '.join(reading.unread)}, so what that does to the launch beside it is not known"
    elif launch is None:
        without = "the job has no command, so the image decides what starts"
        unread = "; ".join(reading.unread) if site.command else without
        message = f"{unread}; {_SET}; whether {size} start is {OPEN}"
    elif topology.processes == 1 or launch.values:
        return  # counted, where the text of the program says how many it starts
    elif launch.module and launch.target in _TRAININGS:
        report = warning
        each, alone = ("", "") if topology.nodes == 1 else (" on each node", ", and each node trains alone")
        message = (
            f"this script of TRL trains in one process{each}, which uses its devices in turn (DataParallel){alone}; "
            f"{_processes(topology)} were asked for; start it with accelerate launch or torchrun"
        )
    elif topology.nodes == 1:
        message = (
            f"this is a plain program in one process: whether it uses all devices (DataParallel, device_map), or "
            f"starts {_processes(topology)} as Lightning does, is {OPEN}"
        )
    else:
        message = (
            f"this is a plain program in one process on each node, and the job asks for {size}; {_SET}; whether "
            f"the program starts the others, as Lightning does, is {OPEN}; torchrun would start them"
        )
    field = f"{site.place}.command" if site.command else f"{site.place}.args"
    yield report(field, quotes.command(site.argv), message, rule=f"{framework}/not-enforced")


_SET = "Muster set only the rendezvous (MASTER_ADDR, MASTER_PORT, PET_*)"
_TRAININGS = frozenset(f"trl.scripts.{name}" for name in ("sft", "dpo", "grpo", "kto", "reward", "rloo"))


def _processes(topology: topologies.Topology) -> str:
    return "several processes" if topology.processes is None else f"{topology.processes} processes"


def _runtime_disagrees(job: Job, framework: str) -> Iterator[Finding]:
    if job.kind != "TrainJob" or job.runtime is None or job.runtime.is_torch:
        return
    policies = ", ".join(job.runtime.policy.sources) or "empty"
    message = (
        f"the runtime is labelled {names.FRAMEWORK_LABEL}: {framework}, but its mlPolicy is "
        f"{policies}, so Trainer injects no PET_* env; give it mlPolicy.torch or another label"
    )
    yield error("spec.runtimeRef.name", job.runtime.name, message, rule=f"{framework}/label-disagrees")


def _dropped_claims(job: Job, framework: str) -> Iterator[Finding]:
    place = job.container
    if job.kind != "TrainJob" or place is None or job.trainer.resources_per_node is None:
        return
    if place.container.resources.claims:
        message = (
            "makes Trainer drop the resource claims of the runtime's container, while the pod still allocates "
            "them, so the container would not see the devices; remove it"
        )
        yield warning("spec.trainer.resourcesPerNode", None, message, rule=f"{framework}/claims-dropped")
