"""The truth about a training that outlives its pods: an annotation of the JobSet, made of what its pods reported.

A JobSet has one such annotation, about the newest of its attempts. Pods of one attempt are one training, so the pod
that found a wrong size speaks for all of them, until a later pod in the same place says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from muster.webhook.controllers import guards

__all__ = ["ANNOTATION", "OUTCOMES", "SCHEMA", "Outcome", "Report", "chosen", "format_report", "parse_report"]

ANNOTATION: Final = "muster.dev/training"
"""The annotation of a JobSet."""
SCHEMA: Final = "muster.dev/kept-training/v1"

Outcome = Literal["as-asked", "not-as-asked", "nothing-asked"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("as-asked", "not-as-asked", "nothing-asked")
_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
_LONGEST = 2048  # characters of an annotation that is read


@dataclass(frozen=True, slots=True)
class Report:
    """What one pod reported about its training.

    Attributes:
        attempt: how often the JobSet was started again before.
        pod: name of the pod.
        created: when it was created, RFC 3339 in UTC.
        said: what the guard said.
    """

    attempt: int
    pod: str
    created: str
    said: guards.Guarded

    @classmethod
    def of_pod(cls, document: Mapping[str, Any]) -> Report | None:
        """Return what the guard in a pod reported; None where it has not spoken."""
        said = guards.read(document)
        if said is None:
            return None
        metadata = document["metadata"]
        attempt = (metadata.get("labels") or {}).get(_ATTEMPT, "0")
        count = int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 7 else 0
        return cls(count, metadata["name"], metadata.get("creationTimestamp") or "", said)

    @property
    def outcome(self) -> Outcome:
        """Whether the size is the one that was asked for."""
        right = self.said.is_right
        return "nothing-asked" if right is None else "as-asked" if right else "not-as-asked"

    @property
    def place(self) -> str:
        """The place of the pod in its Job: its name without the random end."""
        return self.pod.rpartition("-")[0]


def chosen(kept: Report | None, new: Report) -> Report:
    """Return which of two reports speaks for the training."""
    if kept is None or new.attempt != kept.attempt:
        return new if kept is None or new.attempt > kept.attempt else kept
    if new.place == kept.place:
        return new if new.created >= kept.created else kept
    return new if _weight(new.said) > _weight(kept.said) else kept


def _weight(said: guards.Guarded) -> tuple[bool, bool, bool]:
    """Return how much a pod has to say of its training; one rank alone speaks with a sampler."""
    return said.is_right is False, said.verdict is not None, said.sampling is not None


def format_report(report: Report) -> str:
    """Return the annotation."""
    said = report.said
    return orjson.dumps(
        {
            "schema": SCHEMA,
            "outcome": report.outcome,
            "worldSize": said.size,
            "expected": str(said.expected) if said.expected else None,
            "attempt": report.attempt,
            "pod": report.pod,
            "created": report.created,
            "steps": said.steps,
            "seconds": said.seconds,
            **({"verdict": said.verdict} if said.verdict else {}),
            **({"sampling": said.sampling.written()} if said.sampling else {}),
        }
    ).decode()


def parse_report(text: object) -> Report | None:
    """Read the annotation; None where it is absent or was not written by Muster in this form."""
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    size, attempt = found.get("worldSize"), found.get("attempt")
    pod, created = found.get("pod"), found.get("created")
    if type(size) is not int or type(attempt) is not int or not isinstance(pod, str) or not isinstance(created, str):
        return None
    said = guards.Guarded(
        size,
        guards.expected(found.get("expected")),
        _of(found, "steps"),
        _of(found, "seconds"),
        guards.verdict(found.get("verdict")),
        guards.sampling(found.get("sampling")),
    )
    return Report(attempt, pod, created, said)


def _of(found: Mapping[str, Any], key: str) -> Any:
    value = found.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
