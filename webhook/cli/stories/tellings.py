"""Tellings: from the objects of one job to its story."""

from __future__ import annotations

from collections.abc import Iterator

from muster.strategies.documents import names
from muster.webhook.cli.stories import seats, whys, words, worlds
from muster.webhook.cli.stories.gathered import Document, Gathered, containers, seconds_since
from muster.webhook.cli.stories.told import Decided, Gateway, Happened, PodTold, Story

__all__ = ["GATEWAY", "MANAGED_BY", "TERM", "tell"]

MANAGED_BY = ("app.kubernetes.io/managed-by", "muster-sessions")
"""Label of what a Gateway of RL sessions makes (`sessions.platforms.manifests`, which nothing here may import)."""
GATEWAY = "muster.dev/gateway"
"""Label with the name of the Gateway."""
TERM = "muster.dev/term"
"""Annotation of the JobSet, which each process of the Gateway counts up when it takes the engines."""

_DECISIONS = 20  # the newest ones


def tell(found: Gathered) -> Story:
    """Return the story of a job."""
    world = worlds.world(found)
    told = whys.why(found, world)
    made = ((found.job or {}).get("metadata") or {}).get("creationTimestamp")
    return Story(
        namespace=found.namespace,
        name=found.name,
        kind=found.kind,
        phase=told.phase,
        why=told,
        age=seconds_since(made, found.now) if made else None,
        world=world,
        conditions=(*_conditions("TrainJob", found.trainjob), *_conditions("JobSet", found.jobset)),
        pods=tuple(_pod(each) for each in found.pods),
        seats=seats.seated(found),
        decisions=_decisions(found),
        unread=tuple(found.unread),
        gateway=_gateway(found),
    )


def _gateway(found: Gathered) -> Gateway | None:
    metadata = (found.jobset or {}).get("metadata") or {}
    labels = metadata.get("labels") or {}
    key, value = MANAGED_BY
    if found.trainjob is not None or labels.get(key) != value or GATEWAY not in labels:
        return None
    term = str((metadata.get("annotations") or {}).get(TERM, ""))[:18]
    return Gateway(words.quoted(labels[GATEWAY], 80), int(term) if term.isascii() and term.isdigit() else None)


def _conditions(kind: str, document: Document | None) -> Iterator[Happened]:
    for each in ((document or {}).get("status") or {}).get("conditions") or ():
        if each.get("status") == "True":
            said = (each.get("type"), each.get("reason"), each.get("message"), each.get("lastTransitionTime"))
            yield Happened(kind, *(words.quoted(part) for part in said))


def _pod(pod: Document) -> PodTold:
    status, statuses = pod.get("status") or {}, list(containers(pod))
    return PodTold(
        name=pod["metadata"]["name"],
        phase="Terminating" if pod["metadata"].get("deletionTimestamp") else str(status.get("phase") or "Pending"),
        reason=_reason(pod, statuses),
        restarts=sum(int(each.get("restartCount") or 0) for each in statuses),
        node=words.quoted((pod.get("spec") or {}).get("nodeName"), 80),
        words=next(_words(statuses), ""),
    )


def _reason(pod: Document, statuses: list[Document]) -> str:
    """Return the reason in one word, as `kubectl get pods` does."""
    for each in statuses:
        state = each.get("state") or {}
        held = state.get("waiting") or state.get("terminated") or {}
        if (reason := held.get("reason")) and reason != "Completed":
            code = held.get("exitCode")
            return words.quoted(reason if code is None else f"{reason} ({code})", 80)
    status = pod.get("status") or {}
    unmet = (each.get("reason") for each in status.get("conditions") or () if each.get("status") == "False")
    return words.quoted(status.get("reason") or (next(unmet, "") if status.get("phase") == "Pending" else ""), 80)


def _words(statuses: list[Document]) -> Iterator[str]:
    """Yield the last words of the containers that failed."""
    for each in statuses:
        for state in ("state", "lastState"):
            ended = (each.get(state) or {}).get("terminated") or {}
            if ended.get("exitCode") and (said := words.last_words(ended.get("message"))):
                yield said


def _decisions(found: Gathered) -> tuple[Decided, ...]:
    decided = [*_noted(found), *_evented(found), *_recorded(found)]
    return tuple(sorted(decided, key=lambda each: each.time)[-_DECISIONS:])


def _noted(found: Gathered) -> Iterator[Decided]:
    """Yield what Muster noted on the objects that it changed when they were created."""
    for kind, document in (("TrainJob", found.trainjob), ("JobSet", found.jobset)):
        metadata = (document or {}).get("metadata") or {}
        if names.APPLIED_ANNOTATION in (metadata.get("annotations") or {}):
            text = f"Muster changed the {kind} when it was created"
            yield Decided("object", str(metadata.get("creationTimestamp") or ""), "patched", text, "")


def _evented(found: Gathered) -> Iterator[Decided]:
    for each in found.events:
        if (each.get("source") or {}).get("component") == "muster":
            moment = str(each.get("lastTimestamp") or each["metadata"].get("creationTimestamp") or "")
            yield Decided("event", moment, words.quoted(each.get("reason"), 80), words.quoted(each.get("message")), "")


def _recorded(found: Gathered) -> Iterator[Decided]:
    for record in found.records:
        told = [(each["field"], each["message"], each["rule"]) for each in record["findings"]]
        told += [(each["field"], each["reason"], each["rule"]) for each in record["changes"]]
        what, moment = f"{record['object']['kind']} {record['operation']}", record["time"]
        for field, text, rule in told or [("", record.get("message") or "nothing was found", "")]:
            said = words.quoted(f"{what}: {field}: {text}" if field else f"{what}: {text}")
            yield Decided("audit", moment, record["decision"], said, words.quoted(rule, 80))
