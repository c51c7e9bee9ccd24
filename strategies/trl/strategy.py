"""The trl strategy: a training that spans its nodes, or a clear word why it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from strategies import registry, sites, topologies
from strategies.changes import Changes
from strategies.documents import pods
from strategies.findings import Finding, error, warning
from strategies.jobs import Job
from strategies.launches import Launch, Launcher
from strategies.torch.strategy import TorchFamily, unenforced
from strategies.trl import flags, invocations, plans, validation

__all__ = ["TRLStrategy"]


@registry.strategy
class TRLStrategy(TorchFamily):
    """Serves `trainer.kubeflow.org/framework: trl`."""

    framework = "trl"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Rewrite the launches that cannot span the job's processes; leave a user's own program alone."""
        self.prepare(job, changes)
        site = sites.of(job)
        if site is None:
            return
        found = invocations.read(site, job)
        topology = topologies.of(job)
        if found is None:
            if job.owner is None and not _passes_through(site.launch):
                for finding in unenforced(site, topology, self.framework):
                    changes.report(finding)
            return
        plan = plans.plan(found, topology, subdomain=bool(job.network.get("subdomain")))
        if isinstance(plan, plans.Plan):
            _write(changes, site, found, plan)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check the runtime, the launch, and the script's own arguments."""
        yield from super().validate(job)
        site = sites.of(job)
        if site is None or job.owner is not None:
            return
        found = invocations.read(site, job)
        if found is None:
            return
        topology = topologies.of(job)
        plan = plans.plan(found, topology, subdomain=bool(job.network.get("subdomain")))
        if isinstance(plan, plans.Refused):
            yield error(site.place, " ".join(site.argv[:3]), plan.message, rule="trl/launch")
        yield from validation.check(found, site, topology)


def _passes_through(launch: Launch) -> bool:
    return launch.launcher is Launcher.TRL and launch.target in flags.passthrough()


def _write(changes: Changes, site: sites.Site, found: invocations.Invocation, plan: plans.Plan) -> None:
    rule = f"trl/{plan.rule}"
    command, args = _split(site, plan)
    site.write(changes, command, args, rule=rule, reason=plan.reason)
    for name, value in plan.env.items():
        present = pods.find_env(site.env, name)
        if present is None:
            reason = "part of the accelerate preset that the launch named"
            changes.append((*site.path, "env"), {"name": name, "value": value}, rule=rule, reason=reason)
        elif present.get("value") != value:
            message = f"kept as the job sets it; the accelerate preset would have set {value!r}"
            changes.report(warning(f"{site.place}.env[{name}]", present.get("value"), message, rule=rule))
    if plan.caveat:
        changes.report(warning(f"{site.place}.args", found.method, plan.caveat, rule=rule))


def _split(site: sites.Site, plan: plans.Plan) -> tuple[Sequence[str], Sequence[str]]:
    """Divide the new words into command and args such that args which did not change are not written."""
    kept = len(plan.args) - len(site.args)
    if kept >= 0 and plan.args[kept:] == site.args:
        return (*plan.head, *plan.args[:kept]), site.args
    return plan.head, plan.args
