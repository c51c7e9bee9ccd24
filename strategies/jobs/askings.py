"""Askings: whether annotations ask for claims of a replicated job's pods, and which containers they name.

Muster adds such claims itself, so what a job is taken for may not follow from whether they are there yet: a part that
asks for devices by an annotation holds devices, before and after they are added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.strategies.documents import decoding, model, names

__all__ = ["of_job", "read"]

_NAMES = "containerNames"
_NO_PROFILE = "none"
_Notes = Mapping[str, str]


def of_job(job: model.ReplicatedJob) -> frozenset[str] | None:
    """Return `read` of the replicated job's own annotations, those of its pods first."""
    return read((job.template.spec.template.metadata.annotations, job.template.metadata.annotations))


def read(levels: Iterable[_Notes]) -> frozenset[str] | None:
    """Return the names of containers that the nearest request names, none for all that it leaves open.

    Args:
        levels: annotations, the nearest first.

    Returns:
        None where nothing is asked for.
    """
    for notes in levels:
        profile, claims = notes.get(names.CLAIM_PROFILE_ANNOTATION), notes.get(names.RESOURCE_CLAIMS_ANNOTATION)
        if profile is not None or claims is not None:
            asks = claims is not None or profile != _NO_PROFILE
            return frozenset(_named(claims)) if asks else None
    return None


def _named(claims: str | None) -> Iterator[str]:
    """Yield the containers that claims name; what cannot be read names none, and is reported elsewhere."""
    if claims is None or _NAMES not in claims:
        return
    try:
        entries: Any = json.loads(claims)
    except (ValueError, RecursionError):
        return
    for entry in decoding.mappings(entries):
        yield from (each for each in decoding.sequence(entry.get(_NAMES)) if isinstance(each, str))
