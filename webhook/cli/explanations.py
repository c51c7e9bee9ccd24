"""Explanations: everything that explains one decision, as one value of JSON's types.

The table and the JSON of `muster explain` both show it, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.audit import scanner
from muster.strategies.changes import restores
from muster.strategies.changes.changes import Change, Changes
from muster.strategies.documents import loose, names, trainjobs
from muster.strategies.documents.paths import Absent
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import kinds
from muster.strategies.trainer import predictions
from muster.webhook.admission import policies
from muster.webhook.admission.policies import Mode
from muster.webhook.cli import endings, launchlines, wording
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cli.endings import Ending
from muster.webhook.cluster.readers import Ref

__all__ = ["ending", "explain"]


def explain(case: Case, setup: Setup, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the explanation of a case, of JSON's types; missing parts are None.

    Args:
        case: the job with its decisions.
        setup: the input of the command.
        before: the explanation of the job before; a predicted JobSet follows from that TrainJob.
    """
    origin, document, decision = case.source.origin, case.source.document, case.mutated
    metadata, job = loose.member(document, "metadata"), _job(case, setup)
    world = launchlines.measure(job) if job else None
    return {
        "file": origin.file,
        "document": origin.document,
        "item": origin.item or None,
        "object": case.title,
        "apiVersion": document["apiVersion"],
        "kind": case.source.kind,
        "namespace": case.namespace,
        "name": metadata.get("name"),
        "predicted": predictions.made_by(decision.governor.runtime) if case.predicted else None,
        "notes": list(case.notes),
        "runtime": _runtime(case, setup),
        "framework": decision.governor.framework,
        "strategy": _strategy(case),
        "mode": {"value": decision.mode.value, "because": _because(case, setup)},
        "launch": _launch(job) if job else None,
        "world": launchlines.shown(world),
        "earlier": _earlier(document),
        "decision": decision.verdict,
        "refused": case.refused,
        "changes": [_change(change) for change in decision.changes],
        "unchanged": _unchanged(case),
        "findings": wording.findings(case),
        "failure": case.failure or None,
        "ending": _ending(case, job, before if case.predicted else None),
    }


def ending(case: Case, setup: Setup) -> Ending:
    """Return how the explanation of a case ends that is no prediction."""
    return _ending(case, _job(case, setup))


def _ending(case: Case, job: Job | None, before: Mapping[str, Any] | None = None) -> Ending:
    world = launchlines.measure(job) if job else None
    return endings.end(case, world, before, unread=bool(job and launchlines.unread(job)))


def _runtime(case: Case, setup: Setup) -> dict[str, Any] | None:
    runtime = case.mutated.governor.runtime
    if runtime is None:
        return None
    if runtime.source in ("label", "launch"):
        return {"kind": None, "name": None, "source": runtime.source, "file": None}
    owner = (case.mutated.governor.owner or {}).get("metadata") or {}
    namespace = case.namespace if runtime.kind == "TrainingRuntime" else ""
    ref = Ref(runtime.kind, namespace, runtime.name)
    if runtime.source == "snapshot":
        ref = Ref("RuntimeSnapshot", case.namespace, str(owner.get("name", "")))
    origin = setup.cluster.origins.get(ref)
    return {
        "kind": runtime.kind,
        "name": runtime.name,
        "source": runtime.source,
        "file": str(origin) if origin else None,
    }


def _strategy(case: Case) -> dict[str, str] | None:
    registered = case.mutated.strategy
    if registered is None:
        return None
    chosen = registered.strategy
    return {"framework": chosen.framework, "version": chosen.version, "origin": registered.origin}


def _because(case: Case, setup: Setup) -> str:
    governor = case.mutated.governor
    label = governor.namespace_label
    if label is not None and policies.is_mode(label):
        return f"label {names.MODE_LABEL} of namespace {case.namespace}"
    if setup.policy.framework(governor.framework).mode is not None:
        return f"the configuration of framework {governor.framework}"
    return "the global mode"


def _launch(job: Job) -> str | None:
    """Return the launch line, without tokens of a known form."""
    line = launchlines.describe(job)
    return scanner.text(line) if line else line


def _job(case: Case, setup: Setup) -> Job | None:
    """Return the job as its strategy sees it after mutation; None where its launch is not known."""
    governor, document = case.mutated.governor, case.document
    is_trainjob = case.source.kind == "TrainJob"
    if case.mutated.strategy is None or case.misfits or (is_trainjob and governor.runtime is None):
        return None
    kind = "TrainJob" if is_trainjob else "JobSet"
    return Job(
        kind=kind,  # type: ignore[arg-type]  # one of the two
        changes=Changes(document),
        namespace=case.namespace,
        runtime=governor.runtime,
        owner=governor.owner,
        claim_devices=governor.claim_devices,
        settings=setup.policy.framework(governor.framework).settings,
        supply=governor.supply,
        roles=setup.policy.roles,
        identify=kinds.identify,
    )


def _earlier(document: Mapping[str, Any]) -> dict[str, Any] | None:
    note = restores.applied(document)
    if not note:
        return None
    return {"strategy": note.get("strategy"), "version": note.get("version"), "fields": list(note["fields"])}


def _change(change: Change) -> dict[str, Any]:
    """Return a change for JSON; `before` or `after` is missing when there was, or is, no value."""
    out: dict[str, Any] = {"op": change.op, "path": change.field, "pointer": change.path}
    if not isinstance(change.before, Absent):
        out["before"] = change.before
    if not isinstance(change.after, Absent):
        out["after"] = change.after
    return {**out, "rule": change.rule, "reason": change.reason}


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
    framework, strategy = case.mutated.governor.framework, case.mutated.strategy
    if framework is None or case.is_unlabelled:
        return _unlabelled(case)
    if strategy is not None and strategy.strategy.framework != framework:
        return f"framework {framework} has no strategy; the job runs as it would without Muster"
    if case.errors:
        return "there is nothing to change; correct the errors below"
    return "there is nothing to change"


def _unlabelled(case: Case) -> str:
    owner = case.mutated.governor.owner
    if owner is not None:
        name = owner["metadata"]["name"]
        return f"TrainJob {name}, which owns it, or the runtime of that TrainJob is not in the files; give both with -f"
    if case.source.kind != "TrainJob":
        return f"it has no label {names.FRAMEWORK_LABEL} and no TrainJob owns it, so no strategy applies"
    kind, name = trainjobs.runtime_ref(case.source.document)
    if case.mutated.governor.runtime is None:
        return f"{kind} {name or '(no name)'} was not found, so its framework is not known; see --runtimes"
    return f"{kind} {name} has no label {names.FRAMEWORK_LABEL}, so no strategy applies"
