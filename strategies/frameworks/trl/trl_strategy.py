"""The trl strategy: a training that spans its nodes, or a finding that says why it cannot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import model, names
from muster.strategies.documents.findings import Finding, Severity, error, note, warning
from muster.strategies.frameworks.torch import trainer_sections
from muster.strategies.frameworks.torch.torch_strategy import TorchFamily, unenforced
from muster.strategies.frameworks.trl import conflicts, flags, invocations, launch_plans, validation
from muster.strategies.frameworks.trl.invocations import Form
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import coordinators, counts, guesses, meetings, quotes, sites, topologies, worlds
from muster.strategies.launches.launches import Launch, Launcher

__all__ = ["TRLStrategy"]

_CURE = "torchrun -m trl.scripts.<method>"
_COMMANDS = guesses.Guesses(flags.methods() | flags.passthrough(), 0.5)


class TRLStrategy(TorchFamily):
    """Serves `trainer.kubeflow.org/framework: trl` where no sampler stands beside the training."""

    framework = "trl"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Rewrite a launch that cannot start all of the job's processes; leave a user's own program alone."""
        _keep_one_per_node(job, changes)
        self.prepare(job, changes)
        site = _settle(job, changes)
        if site is None:
            return
        found = invocations.read(site, job)
        if found is None:
            if job.owner is None:
                for finding in unenforced(site, topologies.read_topology(job), self.framework):
                    changes.report(finding)
            return
        plan = _plan(found, site, job)
        if isinstance(plan, launch_plans.LaunchPlan):
            _write(changes, sites.find_site(job) or site, site, found, plan)

    def _stopped(self, job: Job, site: sites.Site) -> Iterator[Finding]:
        """Refuse now what would be refused of the launch that Muster writes instead: it keeps options of the author's.

        A job comes here before Muster changed it where nothing is enforced, or where somebody only asks.
        """
        planned = Changes(job.document)
        later = replace(job, changes=planned, memory={})
        TRLStrategy.enforce_command(self, later, planned)
        field = f"{site.place}.{'command' if site.command else 'args'}"
        for finding in counts.check_counts(later):
            if finding.severity is Severity.ERROR:
                yield dataclasses.replace(finding, field=field)
        said = {(each.field, each.message) for each in meetings.check_meetings(job)}
        for finding in meetings.check_meetings(later):
            if finding.severity is Severity.ERROR and (finding.field, finding.message) not in said:
                yield finding

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check the runtime, the launch, and the script's own arguments."""
        site = sites.find_site(job) if job.owner is None else None
        found = invocations.read(site, job) if site else None
        plan = _plan(found, site, job) if site and found and not job.is_untouched else None
        yield from self.check_surroundings(job)
        unknown = [] if site is None or found else list(_command_findings(job, site.launch, site))
        if plan is None and not unknown:  # else Muster replaces the launch, or it is refused with a reason of its own
            yield from counts.check_counts(job)
        if site is None:
            return
        if isinstance(plan, launch_plans.LaunchPlan):
            yield from self._stopped(job, site)
        yield from _method_findings(job, site, found)
        yield from unknown
        if found is None:
            yield from _unchanged(job, site)
            return
        if isinstance(plan, launch_plans.Refused):
            place = f"{site.place}.{'args' if site.args else 'command'}"
            yield error(place, quotes.command(site.argv), plan.message, rule="trl/launch")
        parsed = flags.parse(found.method, found.args)
        yield from conflicts.check(found, parsed, site, job)
        around = replace(_circumstances(job, site), brings_keys=_brings_keys(job))
        yield from validation.check(found, parsed, site, around)
        word = parsed.places.get("output_dir", 0) + len(site.argv) - len(found.args)
        yield from validation.check_output(job, parsed.values.get("output_dir"), site.locate(word))


def _unchanged(job: Job, site: sites.Site) -> Iterator[Finding]:
    """Check trainings that Muster cannot rewrite: in a shell, behind a wrapper, or started from a file of TRL's."""
    yield from validation.check_server(job, site)
    for launch in site.reading.launches:
        found = invocations.within(launch)
        if found is None:
            continue
        if launch == site.launch:
            parsed = flags.parse(found.method, found.args)
            yield from conflicts.check(found, parsed, site, job)
        around = _circumstances(job, site, launch)
        report = error if launch.certain else warning
        if found.form is Form.TORCHRUN_TRL and around.topology.is_distributed:
            message = "torchrun around trl starts a launcher in every rank, and the job hangs; start the script with it"
            yield report(f"{site.place}.command", f"trl {found.method}", f"{message}: {_CURE}", rule="trl/launch")
        for finding in validation.check_within(found, site, around):
            doubtful = finding.severity is Severity.ERROR and not launch.certain
            yield dataclasses.replace(finding, severity=Severity.WARNING) if doubtful else finding


def _settle(job: Job, changes: Changes) -> sites.Site | None:
    """Return the site to plan with; where TRL would take the runtime's words instead of the job's, they are removed."""
    site = sites.find_site(job)
    if site is None:
        return None
    settled = conflicts.settle(site, job)
    if settled.needed:
        site.write(changes, settled.site.command, settled.site.args, rule="trl/overridden", reason=settled.reason)
        return sites.find_site(job)
    return settled.site


def _plan(
    found: invocations.Invocation, site: sites.Site, job: Job
) -> launch_plans.LaunchPlan | launch_plans.Refused | None:
    topology = topologies.launched(topologies.read_topology(job), invocations.launched(site))
    return launch_plans.plan(found, topology, subdomain=not coordinators.is_trainers(job))


def _circumstances(job: Job, site: sites.Site, launch: Launch | None = None) -> validation.Circumstances:
    pod = job.container.pod if job.container else model.PodSpec()
    return validation.Circumstances(
        topology=topologies.launched(topologies.read_topology(job), launch or invocations.launched(site)),
        ranks=lambda: _ranks(job),
        own_image=job.brings_image,
        alone=len(pod.containers) + len(pod.init_containers) < 2,
    )


def _brings_keys(job: Job) -> bool:
    """Whether a whole ConfigMap or Secret, or a volume of keys, may give the training a key of a service."""
    if job.container is None or job.container.container.env_from:
        return True
    return any({"secret", "projected", "csi"} & each.sources.keys() for each in job.container.pod.volumes)


def _ranks(job: Job) -> int | None:
    """Return how many processes train, None where that is not known."""
    world = worlds.find_world(job) if job.container is not None else None
    return world.world_size if world is not None else None


def _keep_one_per_node(job: Job, changes: Changes) -> None:
    """Pin one process per node on CPU, as `trl` and python start it; Trainer would count one per CPU."""
    site = sites.find_site(job) if job.kind == "TrainJob" else None
    found = invocations.read(site, job) if site else None
    if found is None or found.form not in (Form.TRL, Form.MODULE) or not topologies.read_topology(job).on_cpu:
        return
    trainer_sections.ensure(job, changes, "trl")
    reason = "this launch starts one process per node on CPU; Trainer would count one process per CPU"
    trainer_sections.pin(job, changes, 1, rule="trl", reason=reason)


def _method_findings(job: Job, site: sites.Site, found: invocations.Invocation | None) -> Iterator[Finding]:
    annotated = job.annotation(names.TRL_METHOD_ANNOTATION)
    known = ", ".join(sorted(flags.methods()))
    if annotated is not None and annotated[0] not in flags.methods():
        field = f"metadata.annotations[{names.TRL_METHOD_ANNOTATION}]"
        message = f"is not a method of trl {flags.version()} ({annotated[1]}); the methods are {known}"
        yield error(field, annotated[0], message, rule="trl/method")
    elif annotated is not None and found is not None and annotated[0] != found.method:
        yield from _fighting_methods(job, site, found, annotated)


def _command_findings(job: Job, launch: Launch, site: sites.Site) -> Iterator[Finding]:
    """Refuse `trl` with a command that it does not have, or with none, with which it trains nothing.

    Without a command it prints its help and ends with 0 (`trl/cli/main.py`). The image of a user may hold
    another version; there a command that is not known is a warning.
    """
    known = ", ".join(sorted(flags.methods()))
    if launch.launcher is not Launcher.TRL or launch.target in flags.methods() | flags.passthrough():
        return
    if launch.target:
        meant = _COMMANDS.closest(launch.target.lower()[:40])
        hint = f"; did you mean {meant}?" if meant else f"; the methods are {known}"
        report = warning if job.brings_image else error
        message = f"is not a command of trl {flags.version()}, which stops at its start{hint}"
        yield report(site.locate(len(launch.head)), launch.target, message, rule="trl/method")
    elif not invocations.asks_for_help(launch):
        message = f"has no method, so that it prints its help, ends with 0 and trains nothing; add one of {known}"
        yield error(site.locate(len(launch.head) - 1), quotes.command(site.argv), message, rule="trl/method")


def _fighting_methods(
    job: Job, site: sites.Site, found: invocations.Invocation, annotated: tuple[str, str]
) -> Iterator[Finding]:
    """Refuse an annotation of the job against a method that the job itself writes; its runtime's is only a default."""
    own_args = job.kind == "JobSet" or job.trainer.args is not None
    own = own_args if found.said_by == "first argument" else site.own_command
    if own and not annotated[1].startswith("runtime"):
        field = f"metadata.annotations[{names.TRL_METHOD_ANNOTATION}]"
        where = "first argument" if found.said_by else "command"
        message = f"is not the method of the job's {where}, {found.method}, which would run; remove one of the two"
        yield error(field, annotated[0], message, rule="trl/method")


def _write(
    changes: Changes,
    site: sites.Site,
    settled: sites.Site,
    found: invocations.Invocation,
    plan: launch_plans.LaunchPlan,
) -> None:
    rule = f"trl/{plan.rule}"
    command, args = _split(settled, found, plan)
    site.write(changes, command, args, rule=rule, reason=plan.reason)
    for name, value in plan.env.items():
        present = site.values.get(name, "")
        if name not in site.values:
            reason = "this variable is part of the accelerate preset that the launch names"
            changes.append((*site.path, "env"), {"name": name, "value": value}, rule=rule, reason=reason)
        elif present != value:
            message = f"kept as the job sets it; the accelerate preset would have set {value!r}"
            changes.report(warning(f"{site.place}.env[{name}]", present, message, rule=rule))
    if plan.caveat:
        changes.report(note(f"{site.place}.args", found.method, plan.caveat, rule=rule))


def _split(
    site: sites.Site, found: invocations.Invocation, plan: launch_plans.LaunchPlan
) -> tuple[Sequence[str], Sequence[str]]:
    """Divide the new words into command and args so that unchanged args are not written.

    A launch that is in the args alone stays there: the image's entrypoint runs it, and may prepare more.
    """
    if not site.command and found.form is not Form.IMPLIED:
        return (), (*plan.head, *plan.args)
    kept = len(plan.args) - len(site.args)
    if kept >= 0 and plan.args[kept:] == site.args:
        return (*plan.head, *plan.args[:kept]), site.args
    return plan.head, plan.args
