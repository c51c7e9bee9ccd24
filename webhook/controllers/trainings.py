"""The truth about a training that outlives its pods: an annotation of the JobSet, made of what its guard reported.

A JobSet has one such annotation, about the newest of its attempts. Pods of one attempt are one training, so the pod
that found something wrong speaks for all of them, until a later pod in the same place says otherwise. While the
training runs, the status of its TrainJob speaks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec
import orjson

from muster.strategies.changes import restores
from muster.webhook.cluster.readers import Document
from muster.webhook.controllers import guards, views

__all__ = [
    "ANNOTATION",
    "OUTCOMES",
    "PREDICTED",
    "SCHEMA",
    "Outcome",
    "Predicted",
    "Report",
    "chosen",
    "format_report",
    "parse_report",
]

ANNOTATION: Final = "muster.dev/training"
"""The annotation of a JobSet."""
SCHEMA: Final = "muster.dev/kept-training/v1"

Outcome = Literal["as-asked", "not-as-asked", "nothing-asked"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("as-asked", "not-as-asked", "nothing-asked")
Predicted = Literal["right", "open"]
PREDICTED: Final[tuple[Predicted, ...]] = ("right", "open")
"""What Muster foretold: that the documents tell ranks and devices for certain, or that they do not."""
_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
_LONGEST = 2048  # characters of an annotation that is read


@dataclass(frozen=True, slots=True)
class Report:
    """What one pod reported about its training.

    Attributes:
        attempt: how often the JobSet was started again before.
        pod: name of the pod; "" for the status of the TrainJob.
        created: when the pod was created, or the status was written, RFC 3339 in UTC.
        said: what the guard said.
        heard: when Muster kept it, RFC 3339 in UTC; "" where it has not.
        predicted: what Muster foretold when it admitted the job.
    """

    attempt: int
    pod: str
    created: str
    said: guards.Guarded
    heard: str = field(default="", compare=False)
    predicted: Predicted = "open"

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

    @classmethod
    def of_trainjob(cls, document: Document) -> Report | None:
        """Return what a guard posted into the status of a TrainJob; `about` says of which attempt."""
        found = guards.from_status(document)
        return None if found is None else cls(0, "", found[1], found[0])

    def about(self, jobset: views.Object) -> Report:
        """Return it with what its JobSet says of the attempt, and of what Muster foretold."""
        predicted: Predicted = "right" if restores.is_certain(jobset.metadata.annotations) else "open"
        return replace(self, attempt=self.attempt if self.pod else jobset.status.restarts, predicted=predicted)

    @property
    def outcome(self) -> Outcome:
        """Whether it trains, as one training of the size that was asked for, on all devices that it was given."""
        right = False if self.said.verdict in guards.PARTIAL else self.said.is_right
        return "nothing-asked" if right is None else "as-asked" if right else "not-as-asked"

    @property
    def is_settled(self) -> bool:
        """Whether its outcome stays: the training has ended, or does not train as asked."""
        return bool(self.pod) or self.outcome == "not-as-asked"

    @property
    def place(self) -> str:
        """The place of the pod in its Job: its name without the random end."""
        return self.pod.rpartition("-")[0]


def chosen(kept: Report | None, new: Report) -> Report:
    """Return which of two reports speaks for the training."""
    if kept is None or new.attempt != kept.attempt:
        # A status that was written before something was kept of an earlier attempt is about that attempt.
        is_old = kept is not None and (new.attempt < kept.attempt or (not new.pod and new.created <= kept.heard))
        return kept if kept is not None and is_old else new
    if new.place == kept.place:
        return new if new.created >= kept.created else kept
    return new if _weight(new) > _weight(kept) else kept


def _weight(report: Report) -> tuple[bool, ...]:
    """Return how much a report has to say of its training; one rank alone speaks with a sampler."""
    said = report.said
    return report.outcome == "not-as-asked", said.verdict is not None, said.sampling is not None, bool(report.pod)


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
            **({"measured": seen} if (seen := said.measured.written()) else {}),
            "heard": report.heard,
            "predicted": report.predicted,
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
    measured: object = None
    heard: str = ""
    predicted: Predicted = "open"


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
        guards.measured(found.measured),
    )
    return Report(found.attempt, found.pod, found.created, said, found.heard, found.predicted)
