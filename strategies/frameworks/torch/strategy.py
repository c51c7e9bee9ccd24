"""The torch strategy: the rendezvous, the process count, and a warning about what it cannot enforce.

torchrun already reads everything that Trainer injects, so its commands stay as they are. A user's own program is never
rewritten: it gets the same rendezvous, and a warning where its launch cannot start all processes that the job asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strategies.changes.changes import Changes
from strategies.claims import additions
from strategies.documents import names
from strategies.documents.findings import Finding, error, note, warning
from strategies.frameworks.torch import trainer_sections, tune_launches
from strategies.jobs.jobs import Job
from strategies.launches import (
    capabilities,
    counts,
    endings,
    meetings,
    members,
    networks,
    ports,
    quotes,
    rendezvous,
    sites,
    topologies,
    variables,
)
from strategies.launches.launches import Launcher
from strategies.plugins import registry

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
        additions.enforce(job, changes, self.framework)

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
        yield from ports.check(job)
        yield from endings.check(job)
        yield from variables.check(job)
        yield from capabilities.check(job)


@registry.strategy
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
    """Tell what Muster cannot see of a launch that may not start all processes that the job asks for.

    On one node it is a note: a program may use several devices with one process. On several nodes it is a warning, but
    for what stands beside a launch that is seen: it could change that only by its env.
    """
    reading, size = site.reading, topology.size
    launch = reading.training
    if launch is not None and launch.launcher not in (Launcher.PYTHON, Launcher.OTHER):
        return  # counted, or said to be unknown, by the check of counts
    if launch is not None and any(each.launcher is Launcher.RAY for each in reading.launches):
        return  # of a cluster of Ray, the check of counts says that it is unknown
    report = warning if topology.nodes > 1 else note
    if site.argv and launch is None and not reading.unread:
        report, message = warning, "this command line starts nothing that trains; write the command of the training"
    elif not site.command and launch is None:
        message = f"the job has no command, so the image decides whether {size} start; Muster set only the rendezvous"
    elif launch is None and reading.visible is not None:
        report, message = note, f"{'; '.join(reading.unread)}, so what that does to the launch beside it is not known"
    elif launch is None:
        unread = "; ".join(reading.unread) or "the program is not one that Muster reads"
        message = f"{unread}, so Muster set the rendezvous but cannot know whether {size} start"
    elif topology.processes == 1:
        return
    elif topology.nodes == 1 and launch.module and launch.target in _TRAININGS:
        report, message = (
            warning,
            (
                f"this script of TRL trains in one process, which uses its devices in turn (DataParallel), and "
                f"{_processes(topology)} were asked for; start it with accelerate launch or torchrun"
            ),
        )
    elif topology.nodes == 1:
        message = (
            f"this is a plain program in one process: it may use all devices by itself (DataParallel, device_map), or "
            f"start {_processes(topology)} itself as Lightning does; Muster cannot see that"
        )
    else:
        message = (
            f"this is a plain program in one process on each node, and the job asks for {size}: unless it starts the "
            "others itself, as Lightning does, they do not run; start it with torchrun"
        )
    field = f"{site.place}.command" if site.command else f"{site.place}.args"
    yield report(field, quotes.command(site.argv), message, rule=f"{framework}/not-enforced")


_TRAININGS = frozenset(f"trl.scripts.{name}" for name in ("sft", "dpo", "grpo", "kto", "reward", "rloo"))


def _processes(topology: topologies.Topology) -> str:
    return "several processes" if topology.processes is None else f"{topology.processes} processes"


def _runtime_disagrees(job: Job, framework: str) -> Iterator[Finding]:
    if job.kind != "TrainJob" or job.runtime is None or job.runtime.is_torch:
        return
    policies = [name for name in job.runtime.ml_policy if name != "numNodes"]
    message = (
        f"the runtime is labelled {names.FRAMEWORK_LABEL}: {framework}, but its mlPolicy is "
        f"{', '.join(policies) or 'empty'}, so Trainer injects no PET_* env; give it mlPolicy.torch or another label"
    )
    yield error("spec.runtimeRef.name", job.runtime.name, message, rule=f"{framework}/label-disagrees")


def _dropped_claims(job: Job, framework: str) -> Iterator[Finding]:
    place = job.container
    if job.kind != "TrainJob" or place is None or job.trainer.get("resourcesPerNode") is None:
        return
    if (place.container.get("resources") or {}).get("claims"):
        message = (
            "makes Trainer v2.3.0 drop the resource claims of the runtime's container, while the pod still allocates "
            "them, so the container would not see the devices; remove it"
        )
        yield warning("spec.trainer.resourcesPerNode", None, message, rule=f"{framework}/claims-dropped")
