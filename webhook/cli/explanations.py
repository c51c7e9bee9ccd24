"""Everything that explains one decision, as one value of JSON's types, which all formats of `muster explain` show.

It says what a job will really run, as Muster read it, and how many ranks that makes. It ends with one sentence, so that
nobody takes silence for consent. *right*: nothing that Muster judges is open; what Kubernetes validates is left to the
API server (docs/internals/decisions/0048). *open*: Muster cannot see something that decides whether the job is right,
or does not check it, and the sentence says what that means. *mend*: there are errors to mend or warnings to read.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict, cast

from muster.audit import scanner
from muster.strategies.changes import restores
from muster.strategies.changes.changes import Change, Changes
from muster.strategies.changes.restores import APPLIED_RULE
from muster.strategies.documents import decoding, names, trainjobs
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.paths import Absent
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies, worlds
from muster.strategies.launches.guard_additions import LEFT_ALONE
from muster.strategies.launches.launches import Launch
from muster.strategies.launches.sites import Site
from muster.strategies.launches.worlds import World
from muster.strategies.trainer import predictions
from muster.webhook.admission import admission_context, policies
from muster.webhook.admission.policies import Mode
from muster.webhook.cli import findings_report, problems
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cluster.readers import Ref

__all__ = ["Ending", "Explanation", "ending", "explain"]

Explanation: TypeAlias = Mapping[str, Any]
"""One value of JSON's types, an item of `muster.dev/explain/v1`."""


def explain(case: Case, setup: Setup, before: Explanation | None = None) -> Explanation:
    """Return the explanation of a case, of JSON's types; missing parts are None.

    Args:
        case: the job with its decisions.
        setup: the input of the command.
        before: the explanation of the job before; a predicted JobSet follows from that TrainJob.
    """
    document, decision, registered = case.source.document, case.mutated, case.mutated.strategy
    chosen, job = registered.strategy if registered else None, _job(case, setup)
    world, earlier = _measured(job), restores.applied(document)
    line = _described(job) if job else None
    explained = {
        **{key: value for key, value in findings_report.place_of(case.source.origin).items() if key != "line"},
        "object": case.title,
        "apiVersion": document["apiVersion"],
        "kind": case.source.kind,
        "namespace": case.namespace,
        "name": decoding.member(document, "metadata").get("name"),
        "predicted": predictions.made_by(decision.governor.runtime) if case.predicted else None,
        "notes": list(case.notes),
        "runtime": _runtime(case, setup),
        "framework": decision.governor.framework,
        "strategy": chosen
        and registered
        and {"framework": chosen.framework, "version": chosen.version, "origin": registered.origin},
        "mode": {"value": decision.mode.value, "because": _because(case, setup)},
        "launch": scanner.text(line) if line else line,
        "world": world
        and {
            "nodes": world.nodes,
            "processesPerNode": world.processes,
            "worldSize": world.world_size,
            "mayStartMore": world.own,
        },
        "earlier": {key: earlier.get(key) for key in ("strategy", "version")} | {"fields": list(earlier["fields"])}
        if earlier
        else None,
        "decision": decision.verdict,
        "refused": case.refused,
        "changes": [_change(change) for change in decision.changes],
        "unchanged": _NO_SEARCH if case.trials else _unchanged(case),
        "findings": findings_report.findings(case),
        "failure": case.failure or None,
        "ending": _ending(case, setup, job, before if case.predicted else None),
    }
    # Without tokens of a known form: a terminal is often shown to others, and the log of CI to everybody.
    return cast("dict[str, Any]", scanner.value(explained))


def ending(case: Case, setup: Setup) -> Ending:
    """Return how the explanation of a case ends that is no prediction."""
    return _ending(case, setup, _job(case, setup))


def _runtime(case: Case, setup: Setup) -> dict[str, object] | None:
    runtime = case.mutated.governor.runtime
    if runtime is None:
        return None
    if runtime.source in ("label", "launch"):
        return {"kind": None, "name": None, "source": runtime.source, "file": None}
    ref = Ref(runtime.kind, case.namespace if runtime.kind == "TrainingRuntime" else "", runtime.name)
    if runtime.source == "snapshot":
        owner = decoding.member(case.mutated.governor.owner, "metadata")
        ref = Ref("RuntimeSnapshot", case.namespace, str(owner.get("name", "")))
    source = setup.cluster.kept.get(ref)
    file = str(source.origin) if source else None
    return {"kind": runtime.kind, "name": runtime.name, "source": runtime.source, "file": file}


def _because(case: Case, setup: Setup) -> str:
    governor = case.mutated.governor
    label = governor.namespace_label
    if label is not None and policies.is_mode(label):
        return f"label {names.MODE_LABEL} of namespace {case.namespace}"
    named, mode = (governor.granted, *governor.chosen), case.mutated.mode
    of = next((each for each in named if setup.policy.framework(each).mode is mode), None)
    return "the global mode" if of is None else f"the configuration of framework {of}"


def _job(case: Case, setup: Setup) -> Job | None:
    """Return the job (or first trial) as its strategy sees it after mutation; None where its launch is not known."""
    case = case.trials[0] if case.trials else case
    governor = case.mutated.governor
    unknown = case.source.kind == "TrainJob" and governor.runtime is None
    if case.mutated.strategy is None or case.misfits or unknown:
        return None
    context = admission_context.of(case.mutated.request, setup.policy, governor)
    return context.job(Changes(case.document), governor)


def _change(change: Change) -> dict[str, object]:
    """Return a change for JSON; `before` or `after` is missing when there was, or is, no value."""
    out: dict[str, object] = {"op": change.op, "path": change.field, "pointer": change.path}
    if not isinstance(change.before, Absent):
        out["before"] = change.before
    if not isinstance(change.after, Absent):
        out["after"] = change.after
    return {**out, "rule": change.rule, "reason": change.reason}


_NO_SEARCH = "Muster changes no OptimizationJob; it changes the TrainJob of each trial"


def _unchanged(case: Case) -> str | None:
    """Return why nothing changes; None when something changes."""
    decision = case.mutated
    if decision.verdict == "patched":
        return None
    if case.failure:
        return "no decision could be made, so nothing was changed"
    if decision.verdict == "skipped":
        return "Muster is off for this job"
    if case.misfits:
        return "members have the wrong type: nothing was changed, and the API server will refuse the object"
    if len(decision.changes):
        follows = "only warns" if decision.mode is Mode.WARN else "only records"
        return f"Muster {follows} here; the changes listed are what it would do"
    return _nothing_to_do(case)


def _nothing_to_do(case: Case) -> str:
    governor, strategy = case.mutated.governor, case.mutated.strategy
    framework, owner, runtime = governor.framework, governor.owner, governor.runtime
    if framework is not None and not case.is_unlabelled:
        if strategy is not None and strategy.strategy.framework != framework:
            return f"framework {framework} has no strategy; the job runs as it would without Muster"
        return f"there is nothing to change{'; correct the errors below' if case.errors else ''}"
    if owner is not None:
        what = f"TrainJob {owner['metadata']['name']}, which owns it, or the runtime of that TrainJob"
        return f"{what} is not in the files; give both with -f"
    if case.source.kind != "TrainJob":
        return f"it has no label {names.FRAMEWORK_LABEL} and no TrainJob owns it, so no strategy applies"
    kind, name = trainjobs.runtime_ref(case.source.document)
    if runtime is None:
        return f"{kind} {name or '(no name)'} was not found, so its framework is not known; see --runtimes"
    return f"{kind} {name} has no label {names.FRAMEWORK_LABEL}, so no strategy applies"


_OWN = (
    "this is a program of your own: Muster gives each node its rank and the coordinator's address by env; whether the "
    "program uses them is open: "
)

_UNREAD = "Muster cannot read what this launch starts, and sets the rendezvous by env; what meets is open: "
_MEASURED = {
    True: "it is measured at the start",
    False: "guard.inject in Muster's configuration has it measured at the start (docs/guard.md)",
}


_OF_TRIALS = (
    "launch, ranks and devices of the first and of the last trial are right; `muster explain` shows the changes of a "
    "trial"
)
_RIGHT = "launch, ranks and devices are right {}; check --cluster asks about the pods"


class Ending(TypedDict):
    """The kind of an ending, and its sentence."""

    kind: Literal["right", "open", "mend"]
    text: str


def _ending(case: Case, setup: Setup, job: Job | None, before: Explanation | None = None) -> Ending:
    """Return how the explanation of a case ends.

    Args:
        case: the job with its decisions.
        setup: the input of the command.
        job: as its strategy sees it, None where that is not known.
        before: the explanation of the TrainJob from which a predicted JobSet follows.
    """
    todo = _todo(case)
    if todo:
        return Ending(kind="mend", text=todo)
    unseen = _unseen(case)
    if unseen:
        return Ending(kind="open", text=unseen)
    changed = any(change.rule != APPLIED_RULE for change in case.mutated.changes)
    right = Ending(kind="right", text=_RIGHT.format("with the changes above" if changed else "as they are"))
    if case.trials:
        right = Ending(kind="right", text=_OF_TRIALS)
    owner = case.mutated.governor.owner
    if owner is not None:  # the launch of a JobSet that Trainer makes is judged where its author reads it
        if before is None:
            judged = f"TrainJob {decoding.member(owner, 'metadata').get('name')}, from which Trainer made this JobSet"
            return Ending(kind="open", text=f"nothing is wrong here; the launch is judged at {judged}")
        text = "see the end of the TrainJob above; this JobSet adds nothing to it"
        return right if before["ending"]["kind"] == "right" else Ending(kind=before["ending"]["kind"], text=text)
    if job is None:
        return right
    world = _measured(job)
    said = _UNREAD if _is_unread(job) else _OWN if world is not None and world.must_meet else ""
    return Ending(kind="open", text=f"{said}{_MEASURED[_has_guard(job, setup)]}") if said else right


def _has_guard(job: Job, setup: Setup) -> bool:
    """Whether the training of an open job is measured: by the guard in its image, or the one that its JobSet gets."""
    own = job.container and job.container.container.env_value(names.GUARD)
    is_off = job.metadata.labels.get(names.GUARD_LABEL) == "off"
    return own not in (None, "", "off") or (setup.policy.guard.inject != "never" and not is_off)


def _todo(case: Case) -> str:
    """Return what there is to mend or to read, "" for nothing."""
    errors, warnings = len(case.errors), len(case.warnings)
    to_read = f"{problems.plural(warnings, 'warning')} to read"
    if case.failure:
        return "no decision could be made; see the failure above"
    if errors:
        told = f"{problems.plural(errors, 'error')} to mend{f' and {to_read}' if warnings else ''}"
        passes = "its missing label" if case.is_unlabelled else f"mode {case.mutated.mode.value}"
        return f"{told}; {'the cluster refuses this job' if case.refused else f'{passes} lets this job pass'}"
    if case.mutated.verdict != "patched" and any(each.rule != APPLIED_RULE for each in case.mutated.changes):
        return f"mode {case.mutated.mode.value} makes none of the changes above, so the job runs without them"
    return f"{to_read}; the job passes" if warnings else ""


def _unseen(case: Case) -> str:
    """Return what Muster cannot see or does not check, "" where it saw everything."""
    framework, registered = case.mutated.governor.framework, case.mutated.strategy
    unchecked = "so its launch was not checked, only what holds for every job"
    if case.mutated.verdict == "skipped":
        return "Muster is off for this job, so nothing was checked"
    if framework is None:
        return f"its framework is not known, {unchecked}"
    if registered is None or registered.strategy.framework != framework:
        return f"framework {framework} has no strategy, {unchecked}"
    if any(each.severity is Severity.NOTE and each.rule != LEFT_ALONE for each in case.findings):
        return "nothing that Muster can see is wrong; what it cannot see is in the notes above"
    return ""


_DIGITS = 9
_SHOWN = 3  # launches of one shell text


def _described(job: Job) -> str | None:
    """Return the launch of a job after mutation with its size; None for a job without a command line."""
    site = sites.find_site(job)
    if site is None or not site.argv:
        return None
    return f"{_read_words(site)}{_size(job, site)}"


def _measured(job: Job | None) -> World | None:
    """Return what the launch of a job makes, None where that is not known."""
    return worlds.find_world(job) if job is not None and _counts(job) else None


def _is_unread(job: Job) -> bool:
    """Whether Muster cannot read what a launch starts: an image, a program or a text that it does not know."""
    site = sites.find_site(job)
    return site is not None and _counts(job) and (bool(site.reading.unread) or not site.reading.launches)


def _read_words(site: Site) -> str:
    """Return the launches that were read inside a wrapper or a shell, else the command line itself."""
    inside = [launch for launch in site.reading.launches if launch.through]
    if not inside:
        return shlex.join(site.argv)
    told = [f"{_launch_line(launch)}{'' if launch.certain else ', perhaps'}" for launch in inside[:_SHOWN]]
    more = f"; and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
    return f"{'; '.join(told)}{more} (through {', '.join(inside[0].through)})"


def _launch_line(launch: Launch) -> str:
    module = ("-m",) if launch.module else ()
    target = (launch.target,) if launch.target else ()
    return shlex.join((*launch.head, *launch.options, *module, *target, *launch.rest))


def _size(job: Job, site: Site) -> str:
    if not _counts(job):
        return ""
    world = worlds.find_world(job)
    if world is not None:
        return f" ({_sized(world, topologies.pods_of(job))})"
    reading = site.reading
    why = reading.unread[0] if reading.unread else "" if reading.launches else "the image decides what it starts"
    return f" (its size is not known: {why or 'the launches differ'})"


def _sized(world: World, pods: int) -> str:
    if world.fault or world.waits:
        return "it cannot run as the job asks; see below"
    if world.own and world.nodes is None:
        each = "1 node" if pods == 1 else f"each of {pods} nodes"
        return f"1 process on {each}; the program may start more"
    if world.nodes is None and world.processes is None:
        return f"its size is not known: {world.unknown}" if world.unknown else "its size is not known"
    processes = "an unknown number of processes"
    if world.processes is not None:
        processes = f"{world.processes} process{'' if world.processes == 1 else 'es'}"
    return f"{_nodes(world)} x {processes}{'; the program may start more' if world.may_start_more else ''}"


def _nodes(world: World) -> str:
    low, colon, high = world.launch.values.get("nnodes", "").partition(":")
    if world.nodes is None and colon and low.isdecimal() and high.isdecimal():
        return f"{low[:_DIGITS]} to {high[:_DIGITS]} nodes"
    return "an unknown number of nodes" if world.nodes is None else problems.plural(world.nodes, "node")


def _counts(job: Job) -> bool:
    """Whether the job trains by torch.distributed, so that its size can be told."""
    if job.kind == "JobSet" and job.owner is None:
        return job.runtime is None or job.runtime.is_torch
    return job.runtime is not None and job.runtime.is_torch
