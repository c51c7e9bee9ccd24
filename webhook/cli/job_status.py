"""The status of a job: all that is said about it as one value of JSON's types, and that value as lines for people.

The value is an item of `muster.dev/status/v1`, to which members are only ever added; seconds are whole where they count
waiting, and None is what nobody said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from muster.audit import scanner
from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.decoding import items, member
from muster.webhook.cli import diagnosis, problems, terminal
from muster.webhook.cli.diagnosis import last_words, listed, quoted
from muster.webhook.cli.observed import Observed, containers, seconds_since
from muster.webhook.cli.problems import age
from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import guards

__all__ = ["GATEWAY", "MANAGED_BY", "TERM", "Status", "brief", "has_ended", "is_wrong", "lines", "of", "summary"]

MANAGED_BY = ("app.kubernetes.io/managed-by", "muster-sessions")
"""Label of what a Gateway of RL sessions makes (`sessions/platforms/manifests.py`, which nothing here may import)."""
GATEWAY = "muster.dev/gateway"
"""Label with the name of the Gateway."""
TERM = "muster.dev/term"
"""Annotation of the JobSet, which each process of the Gateway counts up when it takes the engines."""

_METRICS, _METRIC = 8, 64  # metrics of a training in one line, and characters of one

Status: TypeAlias = Mapping[str, Any]
"""The status, or a part of it."""
_DECISIONS, _HOLDERS, _PODS = 20, 20, 20  # the newest, those for longest, those with a problem


def of(found: Observed) -> Status:
    """Return the status of a job, without tokens of a known form."""
    row = diagnosis.diagnose(found)
    made = member(found.job, "metadata").get("creationTimestamp")
    said = found.report.said if found.report else None
    status = {
        "namespace": found.namespace,
        "name": found.name,
        "kind": found.kind,
        "phase": row.phase,
        "why": {"code": row.code, "text": row.text},
        "ageSeconds": int(seconds_since(made, found.now)) if made else None,
        "world": {
            "asked": str(found.asked) if found.asked else None,
            "reached": said and said.size,
            "right": found.is_right,
            "source": _source(found),
            "predicted": found.predicted if found.jobset else None,
            "pod": (found.report and found.report.pod) or None,
            "steps": said and said.steps,
            "seconds": said and said.seconds,
        },
        "verdict": said and said.verdict,
        "measured": said.measured.written() if said else {},
        "problem": said and guards.problem(said),
        "sampling": said.sampling.written() if said and said.sampling else None,
        "progress": _progress(found.trainjob),
        "gateway": _gateway(found),
        "conditions": [*_conditions("TrainJob", found.trainjob), *_conditions("JobSet", found.jobset)],
        "pods": [_pod(each) for each in found.pods],
        "seats": [*_seats(found)],
        "decisions": sorted(_decisions(found), key=lambda each: each["time"] or "")[-_DECISIONS:],
        "unread": list(found.unread),
    }
    return cast("Status", scanner.value(status))


def is_wrong(status: Status) -> bool:
    """Whether the job failed or was refused, or does not train, as one training, on all that was asked for."""
    partial = status["world"]["right"] is False or status["verdict"] in guards.PARTIAL
    return status["phase"] in {"Failed", "Refused"} or partial


def has_ended(status: Status) -> bool:
    """Whether nothing more will happen to it by itself."""
    return status["phase"] in {"Failed", "Refused", "Finished"}


def _source(found: Observed) -> str | None:
    """Return where the report of the training stands."""
    if found.report is None:
        return None
    return "kept" if found.report == found.kept else "pod" if found.report.pod else "trainjob"


def _progress(trainjob: Document) -> Status | None:
    """Return what the training posted of itself (KEP-2779), without what the guard posted, which is told elsewhere."""
    posted = decoding.read(member(trainjob, "status", "trainerStatus"), model.TrainerStatus)
    if not posted.last_updated_time:
        return None
    own = (each for each in posted.metrics if not each.name.startswith("muster.dev/"))
    return {
        "percent": posted.progress_percentage,
        "remainingSeconds": posted.estimated_remaining_seconds,
        "metrics": {quoted(each.name, _METRIC): quoted(each.value, _METRIC) for each in own},
        "updated": quoted(posted.last_updated_time, _METRIC),
    }


def _gateway(found: Observed) -> Status | None:
    """Return the Gateway of RL sessions whose engines a JobSet is, and how many of its processes have had them."""
    labels = member(found.jobset, "metadata", "labels")
    if found.trainjob or labels.get(MANAGED_BY[0]) != MANAGED_BY[1] or GATEWAY not in labels:
        return None
    term = str(member(found.jobset, "metadata", "annotations").get(TERM, ""))[:18]
    return {"name": quoted(labels[GATEWAY], 80), "term": int(term) if term.isascii() and term.isdigit() else None}


def _conditions(kind: str, document: Document) -> Iterator[dict[str, str]]:
    members = {"type": "type", "reason": "reason", "message": "message", "since": "lastTransitionTime"}
    for each in items(member(document, "status"), "conditions"):
        if each.get("status") == "True":
            yield {"object": kind, **{name: quoted(each.get(key)) for name, key in members.items()}}


def _pod(pod: Document) -> Status:
    status, statuses = member(pod, "status"), containers(pod)
    ended = (member(each, state, "terminated") for each in statuses for state in ("state", "lastState"))
    words = (last_words(each.get("message")) for each in ended if each.get("exitCode"))
    return {
        "name": pod["metadata"]["name"],
        "phase": "Terminating" if pod["metadata"].get("deletionTimestamp") else str(status.get("phase") or "Pending"),
        "reason": _reason(status, statuses) or None,
        "restarts": sum(int(each.get("restartCount") or 0) for each in statuses),
        "node": quoted(member(pod, "spec").get("nodeName"), 80) or None,
        "lastWords": next(filter(None, words), None),
    }


def _reason(status: Document, statuses: Sequence[Document]) -> str:
    """Return the reason in one word, as `kubectl get pods` does."""
    for each in statuses:
        held = member(each, "state", "waiting") or member(each, "state", "terminated")
        if (reason := held.get("reason")) and reason != "Completed":
            code = held.get("exitCode")
            return quoted(reason if code is None else f"{reason} ({code})", 80)
    unmet = (each.get("reason") for each in items(status, "conditions") if each.get("status") == "False")
    return quoted(status.get("reason") or (next(unmet, "") if status.get("phase") == "Pending" else ""), 80)


def _seats(found: Observed) -> Iterator[Status]:
    """Yield the shared claims that the job's pods name: who has their seats, and which pods wait."""
    wanted = {name for pod in found.pods for name in diagnosis.claims(pod)}
    for claim in found.claims:
        name = claim["metadata"]["name"]
        if name in wanted:
            waiting = [
                {
                    "pod": pod["metadata"]["name"],
                    "seconds": int(seconds_since(pod["metadata"].get("creationTimestamp"), found.now)),
                }
                for pod in found.live_pods
                if diagnosis.is_gated(pod) and diagnosis.waits_for(pod, claim)
            ]
            holders = [each._asdict() for each in diagnosis.holders(found, claim)[:_HOLDERS]]
            yield {"claim": name, "holders": holders, "waiting": waiting}


def _decisions(found: Observed) -> Iterator[Status]:
    """Yield what Muster noted on objects that it changed, its Events, and the audit records."""
    for kind, document in (("TrainJob", found.trainjob), ("JobSet", found.jobset)):
        if names.APPLIED_ANNOTATION in member(document, "metadata", "annotations"):
            text = f"Muster changed the {kind} when it was created"
            yield _decided("object", document["metadata"].get("creationTimestamp"), "patched", text)
    for event in found.events:
        if member(event, "source").get("component") == "muster":
            moment = event.get("lastTimestamp") or event["metadata"].get("creationTimestamp")
            yield _decided("event", moment, quoted(event.get("reason"), 80), quoted(event.get("message")))
    for record in found.records:
        said = [(each["field"], each["message"], each["rule"]) for each in record["findings"]]
        said += [(each["field"], each["reason"], each["rule"]) for each in record["changes"]]
        what = f"{record['object']['kind']} {record['operation']}"
        for field, text, rule in said or [("", record.get("message") or "nothing was found", "")]:
            text = quoted(f"{what}: {field}: {text}" if field else f"{what}: {text}")  # noqa: PLW2901  # the same, shown
            yield _decided("audit", record["time"], record["decision"], text, quoted(rule, 80))


def _decided(source: str, time: object, decision: str, text: str, rule: str = "") -> Status:
    return {"source": source, "time": str(time or "") or None, "decision": decision, "text": text, "rule": rule or None}


def lines(status: Status, width: int) -> Iterator[str]:
    """Yield the status, section by section; no line is longer than the width, and none has control characters."""
    old = f", {age(status['ageSeconds'])} old" if status["ageSeconds"] is not None else ""
    yield problems.one_line(f"{status['kind']} {status['namespace']}/{status['name']}: {status['phase']}{old}")
    yield from (f"  {line}" for line in terminal.wrap(problems.one_line(status["why"]["text"]), width - 2))
    yield ""
    yield problems.one_line(_engines(status["gateway"]) if status["gateway"] else _world(status["world"]))
    if seen := _seen(status["measured"]):
        yield from terminal.wrap(f"SEEN {seen}", width)
    if status["progress"]:
        yield from terminal.wrap(f"PROGRESS {_posted(status['progress'])}", width)
    if status["problem"]:
        yield from terminal.wrap(f"WRONG {status['problem']}", width)
    if status["sampling"]:
        yield from terminal.wrap(f"SAMPLING {_sampling(status['sampling'])}", width)
    pods = sorted(status["pods"], key=lambda each: not (each["lastWords"] or each["reason"] or each["restarts"]))
    more = [(f"and {len(pods) - _PODS} more", *[" "] * 5)] if len(pods) > _PODS else []
    sections: Sequence[tuple[str, Sequence[Sequence[object]]]] = (
        ("OBJECT,CONDITION,REASON,MESSAGE,SINCE", [tuple(each.values()) for each in status["conditions"]]),
        ("POD,PHASE,REASON,RESTARTS,NODE,LAST WORDS", [*(tuple(each.values()) for each in pods[:_PODS]), *more]),
        ("CLAIM,HELD BY,WAITING", [_seat(each) for each in status["seats"]]),
        (
            "DECIDED,BY,DECISION,WHAT,RULE",
            [tuple(each[key] for key in _DECIDED) for each in status["decisions"]],
        ),
    )
    for headers, rows in sections:
        if rows:
            yield ""
            cells = [["-" if cell in (None, "") else str(cell) for cell in row] for row in rows]
            yield from terminal.layout(headers.split(","), cells, width)
    for each in status["unread"]:
        yield from ("", f"muster: you may not list {each} here, so nothing is told about them")


_DECIDED = ("time", "source", "decision", "text", "rule")


def summary(found: Sequence[Status], width: int, *, spaces: bool) -> Iterator[str]:
    """Yield one table of all jobs; `spaces` adds the namespace."""
    headers = (*(["NAMESPACE"] if spaces else []), "NAME", "KIND", "PHASE", "WORLD", "AGE", "WHY")
    rows = [
        (
            *([each["namespace"]] if spaces else []),
            each["name"],
            "Gateway" if each["gateway"] else each["kind"],
            each["phase"],
            "-" if each["gateway"] else _ranks(each["world"]),
            "-" if each["ageSeconds"] is None else age(each["ageSeconds"]),
            each["why"]["text"],
        )
        for each in found
    ]
    yield from terminal.layout(headers, rows, width)


def brief(status: Status) -> str:
    """Return the status in one line, which changes only when something happened."""
    what = "engines of a Gateway" if status["gateway"] else f"world {_ranks(status['world'])}"
    return problems.one_line(
        f"{status['namespace']}/{status['name']}: {status['phase']}, {what}: {status['why']['text']}"
    )


def _ranks(world: Status) -> str:
    """Return `asked/reached`, with `?` for what nobody said."""
    mark = " (wrong)" if world["right"] is False else ""
    return f"{world['asked'] or '?'}/{'?' if world['reached'] is None else world['reached']}{mark}"


def _engines(gateway: Status) -> str:
    had = f", of which process {gateway['term']} has them" if gateway["term"] else ""
    return f"GATEWAY engines of the Gateway {gateway['name']}{had}"


def _world(world: Status) -> str:
    asked = f"{world['asked']} asked for" if world["asked"] else "nobody said how many ranks there should be"
    foretold = f"; foretold: {world['predicted']}" if world["predicted"] else ""
    if world["reached"] is None:
        return f"WORLD  {asked}; the guard has not reported{foretold}"
    where = "as Muster kept it" if world["source"] == "kept" else "in its status"
    by = f"pod {world['pod']}" if world["pod"] else "the TrainJob"
    steps = f", after {world['steps']} steps in {world['seconds']:g} s" if world["steps"] and world["seconds"] else ""
    right = {True: ": as asked", False: ": NOT as asked", None: ""}[world["right"]]
    return f"WORLD  {asked}; {world['reached']} reported by {by}, {where}{steps}{right}{foretold}"


def _posted(progress: Status) -> str:
    metrics = [f"{name} {value}" for name, value in progress["metrics"].items()]
    left = progress["remainingSeconds"]
    parts = [
        f"{progress['percent']} %" if progress["percent"] is not None else "",
        f"about {age(left)} left" if left is not None else "",
        ", ".join(metrics[:_METRICS]) + (f" and {len(metrics) - _METRICS} more" if len(metrics) > _METRICS else ""),
        f"posted at {progress['updated']}",
    ]
    return "; ".join(filter(None, parts))


def _seen(found: Status) -> str:
    """Return what the guard measured of a training."""
    said = (
        ("{} nodes", "nodes"),
        ("{} devices used", "devices"),
        ("{} shared", "devicesShared"),
        ("{} idle", "devicesIdle"),
        ("gradients {}", "gradients"),
        ("{} files saved by several nodes", "writes"),
        ("first step after {:g} s", "firstStepSeconds"),
        ("{:g} steps/s", "stepsPerSecond"),
        ("{:g} tokens/s", "tokensPerSecond"),
    )
    return "; ".join(text.format(found[key]) for text, key in said if found.get(key))


def _sampling(found: Status) -> str:
    """Return what a training by reinforcement learning said of its samples."""
    took = f", {found['syncSeconds']:g} s each" if "syncSeconds" in found else ""
    said = (
        ("reward {:g}", "reward"),
        ("weights sent {} times" + took, "syncs"),
        ("log probabilities differ by {:.2g}", "difference"),
        ("importance ratio {:g}", "ratio"),
        ("{:g} versions behind", "staleness"),
        ("{} samples dropped", "dropped"),
    )
    return "; ".join(text.format(found[key]) for text, key in said if key in found)


def _seat(seat: Status) -> tuple[str, ...]:
    held = [f"{each['name']}{diagnosis.seats(each['seats'], '')} {age(each['seconds'])}" for each in seat["holders"]]
    waiting = [f"{each['pod']} {age(each['seconds'])}" for each in seat["waiting"]]
    return seat["claim"], ", ".join(held) or "-", listed(waiting) or "-"
