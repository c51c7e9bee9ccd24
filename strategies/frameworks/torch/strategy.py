"""The torch strategy: the rendezvous, the process count, and a warning about what it cannot enforce.

torchrun already reads everything that Trainer injects, so its commands stay as they are. A user's own program is never
rewritten: it gets the same rendezvous, and a warning where its launch cannot start all processes that the job asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strategies.changes.changes import Changes
from strategies.claims import additions
from strategies.documents import names
from strategies.documents.findings import Finding, error, warning
from strategies.frameworks.torch import trainer_sections
from strategies.jobs.jobs import Job
from strategies.launches import rendezvous, sites, topologies
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
        """Check the runtime against its label, and the launch against the topology."""
        yield from _runtime_disagrees(job, self.framework)
        yield from _dropped_claims(job, self.framework)
        yield from _nodes(job, self.framework)


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


def unenforced(site: sites.Site, topology: topologies.Topology, framework: str) -> Iterator[Finding]:
    """Warn about a program that may not start all processes that the job asks for."""
    launch, rule = site.launch, f"{framework}/not-enforced"
    alone = topology.nodes > 1 and launch.launcher is Launcher.SHELL and "--standalone" in launch.text
    if not topology.is_distributed or (launch.starts_torchrun and not alone):
        return
    size = topology.size
    if not site.command:
        message = f"the job has no command, so the image decides whether {size} start; Muster set only the rendezvous"
    elif launch.launcher is Launcher.PYTHON and topology.processes == 1:
        return
    else:
        message = (
            f"this launch is your own and was not changed; Muster set the rendezvous but cannot make it start {size}"
        )
    field = f"{site.place}.command" if site.command else f"{site.place}.args"
    yield warning(field, " ".join(site.argv[:3]) or None, message, rule=rule)


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


def _nodes(job: Job, framework: str) -> Iterator[Finding]:
    """Compare the number of nodes that torchrun waits for with the number of pods."""
    site = sites.find_site(job)
    if site is None or job.owner is not None or not site.launch.starts_torchrun:
        return
    nodes, values = topologies.read_topology(job).nodes, site.launch.values
    if "standalone" in values and nodes > 1:
        message = f"--standalone makes each of the {nodes} nodes train alone; remove it"
        yield error(_locate(site, "standalone"), "--standalone", message, rule=f"{framework}/standalone")
        return
    low, _, high = values.get("nnodes", "").partition(":")
    field, shown, rule = _locate(site, "nnodes"), f"--nnodes {values.get('nnodes')}", f"{framework}/nnodes"
    if low.isdecimal() and int(low) > nodes:
        message = f"torchrun would wait for {low} nodes, and the job has {nodes}; set numNodes, or remove the flag"
        # Another replicated job of a JobSet may bring the missing ones.
        yield (error if job.kind == "TrainJob" else warning)(field, shown, message, rule=rule)
    elif (high or low).isdecimal() and int(high or low) < nodes:
        message = f"the job has {nodes} nodes, and the others would wait or train alone; remove the flag"
        yield warning(field, shown, message, rule=rule)


def _locate(site: sites.Site, option: str) -> str:
    """Return the field path of a long option in any of its spellings."""
    names_ = [word.lstrip("-").partition("=")[0].replace("-", "_") for word in site.argv]
    return site.locate(next((index for index, name in enumerate(names_) if name and option.startswith(name)), 0))
