"""Which job a record is about: a JobSet that a TrainJob owns is part of that job."""

from __future__ import annotations

from muster.audit.record_schema import Sealed

__all__ = ["job_key", "job_root"]


def job_root(record: Sealed) -> str:
    """Return the name of the job: of the TrainJob that owns the JobSet, or its own; a `generateName` ends in a star."""
    subject, owner = record["object"], record["owner"]
    return owner["name"] if owner else subject["name"] or f"{subject.get('generateName', '')}*"


def job_key(record: Sealed) -> tuple[str, str]:
    """Return namespace and name of the job that a record is about."""
    return record["object"]["namespace"], job_root(record)
