"""Askings: whether annotations ask for claims of a replicated job's pods, and which containers they name.

Muster adds such claims itself, so what a job is taken for may not follow from whether they are there yet: a part that
asks for devices by an annotation holds devices, before and after they are added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strategies.documents import names

__all__ = ["of_job", "read"]

_NAMES = "containerNames"
_NO_PROFILE = "none"
_Notes = Mapping[str, Any]


def of_job(job: Mapping[str, Any]) -> frozenset[str] | None:
    """Return `read` of the replicated job's own annotations, those of its pods first."""
    template = _object(job.get("template"))
    pod = _object(_object(template.get("spec")).get("template"))
    return read(_object(_object(each.get("metadata")).get("annotations")) for each in (pod, template))


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


def _named(claims: Any) -> Iterator[str]:
    """Yield the containers that claims name; what cannot be read names none, and is reported elsewhere."""
    if not isinstance(claims, str) or _NAMES not in claims:
        return
    try:
        entries: Any = json.loads(claims)
    except (ValueError, RecursionError):
        return
    for entry in entries if isinstance(entries, list) else ():
        named = _object(entry).get(_NAMES)
        yield from (each for each in (named if isinstance(named, list) else ()) if isinstance(each, str))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
