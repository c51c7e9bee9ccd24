"""Who is before an engine: in the line for a seat on its claim, and in that for the device of the claim.

Both are read from annotations of the ResourceClaim: `muster.dev/seats` is written by Muster's controllers, and
`muster.dev/lease` by the agent of the node (docs/sharing.md, docs/sharing.md). What cannot be read is not told; no
engine gets or loses anything by it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Queues", "claim_of", "have_seats", "is_gated"]

_GATE = "muster.dev/seat"
_SEATS, _LEASE = "muster.dev/seats", "muster.dev/lease"
_JOB_SET = "jobset.sigs.k8s.io/jobset-name"
_SHOWN = 4  # holders in a sentence
_LONGEST = 100  # characters of a name

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Queues:
    """What is known of the claim of an engine.

    Attributes:
        claim: the ResourceClaim; None where it is not known.
        pods: those of its profile in the namespace, of whomever; empty where nobody waits for a seat.
        own: names of the pods of this Gateway.
        full: names of its profiles without seats for its engines, where it has several.
    """

    claim: Document | None = None
    pods: Sequence[Document] = ()
    own: frozenset[str] = frozenset()
    full: tuple[str, ...] = ()

    def seat(self, role: str, pod: Document) -> str:
        """Return for what a pod waits that has no seat: its place in the line, and who has the seats.

        Muster seats jobs whole and the oldest first, so the place is that of its job by age. A younger job that fits
        may pass.
        """
        full = f"; profiles without enough free seats: {', '.join(self.full)}" if self.full else ""
        if self.claim is None:
            return f"the {role} waits for a seat on a shared device{full}"
        name, seats = self.claim["metadata"]["name"], _annotation(self.claim, _SEATS)
        held = Counter(_holder(seat) for seat in seats.values() if isinstance(seat, dict))
        line = _line(self.pods, str(name), seats.keys())
        told = f"the {role} waits for a seat on claim {name}"
        if (job := _job(pod)) in line:
            told += f", place {line.index(job) + 1} of {len(line)} in its line"
        return f"{told}; {_those(held)}{full}" if held else f"{told}{full}"

    def turn(self, role: str, pod: Document) -> str:
        """Return for what a pod waits that has a seat: whose turn it is on the device; empty where it does not wait.

        Engines of one Gateway share turns, so while one of them has the device, the other is not said to wait.
        """
        lease = _annotation(self.claim, _LEASE)
        waiting, holder = lease.get("waiting"), lease.get("holder")
        own = pod["metadata"]["name"]
        if self.claim is None or not isinstance(waiting, list) or own not in waiting or holder in self.own:
            return ""
        told = f"the {role} waits for its turn on the device of claim {self.claim['metadata']['name']}"
        told += f", place {waiting.index(own) + 1} of {len(waiting)} by the time at which they asked"
        if not holder:
            return f"{told}; it is being given to the next"
        return f"{told}; {_short(holder)} has had it since {_short(lease.get('since'))}"


def claim_of(pods: Iterable[Document]) -> str | None:
    """Return the name of the first claim that pods share; None where they name none."""
    named = (
        claim.get("resourceClaimName") for pod in pods for claim in (pod.get("spec") or {}).get("resourceClaims") or ()
    )
    return next((str(name) for name in named if name), None)


def have_seats(claim: Document, pods: Iterable[Document]) -> bool:
    """Whether any of these pods has a seat on a claim."""
    seats = _annotation(claim, _SEATS)
    return any(pod["metadata"].get("uid") in seats for pod in pods)


def _annotation(claim: Document | None, name: str) -> dict[str, Any]:
    """Return the object that an annotation holds; an empty one where there is none or another thing."""
    text = ((claim or {"metadata": {}})["metadata"].get("annotations") or {}).get(name)
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _line(pods: Iterable[Document], claim: str, seated: Iterable[str]) -> list[str]:
    """Return the jobs with a pod that waits for a seat on a claim, the oldest first."""
    has_seat = frozenset(seated)
    waiting: dict[str, tuple[str, str]] = {}
    for pod in pods:
        metadata, job = pod["metadata"], _job(pod)
        if claim_of([pod]) != claim or not is_gated(pod) or metadata.get("uid") in has_seat:
            continue
        age = (str(metadata.get("creationTimestamp")), job)
        waiting[job] = min(waiting.get(job, age), age)
    return sorted(waiting, key=waiting.__getitem__)


def is_gated(pod: Document) -> bool:
    """Whether a pod has no seat yet and is not about to go."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(each.get("name") == _GATE for each in gates) and not pod["metadata"].get("deletionTimestamp")


def _job(pod: Document) -> str:
    metadata = pod["metadata"]
    return str((metadata.get("labels") or {}).get(_JOB_SET) or metadata["name"])


def _holder(seat: Mapping[str, Any]) -> str:
    return _short(seat.get("job") or seat.get("pod"))


def _those(held: Counter[str]) -> str:
    names = [f"{name} ({count})" if count > 1 else name for name, count in sorted(held.items())[:_SHOWN]]
    more = len(held) - len(names)
    return f"its seats are taken by {', '.join(names + [f'{more} more'] * bool(more))}"


def _short(value: object) -> str:
    return str(value)[:_LONGEST]
