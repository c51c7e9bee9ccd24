"""The truth about a training that outlives its pods: an annotation of the JobSet, made of what its pods reported.

A JobSet has one such annotation, about the newest of its attempts. Pods of one attempt are one training, so the pod
that found a wrong size speaks for all of them, until a later pod in the same place says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import orjson

from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import guards, views

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
    def of_pod(cls, document: Document) -> Report | None:
        """Return what the guard in a pod reported; None where it has not spoken."""
        said = guards.read(document)
        if said is None:
            return None
        metadata = views.decoded(document).metadata
        attempt = metadata.labels.get(_ATTEMPT, "0")
        count = int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 7 else 0
        return cls(count, metadata.name, metadata.creation_timestamp, said)

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


class _Written(msgspec.Struct, rename="camel"):
    """The annotation, as far as it is read."""

    schema: Literal["muster.dev/kept-training/v1"]
    world_size: int
    attempt: int
    pod: str
    created: str
    expected: object = None
    steps: int | None = None
    seconds: float | None = None
    verdict: object = None
    sampling: object = None


def parse_report(text: str | None) -> Report | None:
    """Read the annotation; None where it is absent or was not written by Muster in this form."""
    if not text or len(text) > _LONGEST:
        return None
    try:
        found = msgspec.json.decode(text, type=_Written)
    except (msgspec.MsgspecError, RecursionError):
        return None
    said = guards.Guarded(
        found.world_size,
        guards.expected(found.expected),
        found.steps,
        found.seconds,
        guards.verdict(found.verdict),
        guards.sampling(found.sampling),
    )
    return Report(found.attempt, found.pod, found.created, said)
