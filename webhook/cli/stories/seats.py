"""Seats: who holds those of the shared claims that a job uses, who waits, and for how long."""

from __future__ import annotations

from collections import Counter

from muster.strategies.documents import names
from muster.strategies.platform.seats import Seat, SeatsError, parse_seats
from muster.webhook.cli.stories import words
from muster.webhook.cli.stories.gathered import Document, Gathered, is_gated, seconds_since
from muster.webhook.cli.stories.told import Seated

__all__ = ["seated", "sentence"]

_HOLDERS = 20


def seated(found: Gathered) -> tuple[Seated, ...]:
    """Return the shared claims that the job's pods name."""
    wanted = {name for pod in found.pods for name in _claims(pod)}
    return tuple(_seated(found, each) for each in found.claims if each["metadata"]["name"] in wanted)


def sentence(found: Gathered) -> str | None:
    """Return for which seat the job waits, and behind whom; None when it waits for none."""
    for pod in found.live_pods():
        if is_gated(pod):
            return _behind(found, pod)
    return None


def _behind(found: Gathered, pod: Document) -> str:
    named = _claims(pod)
    for claim in (each for each in found.claims if each["metadata"]["name"] in named):
        held = _held(claim)
        if pod["metadata"].get("uid") in held:
            continue
        holders = [_holder(name, count, seconds) for name, count, seconds in _holders(found, list(held.values()))]
        by = f", behind {words.listed(holders)}" if holders else ", which Muster has not given yet"
        return f"waits for a seat on ResourceClaim {claim['metadata']['name']}{by}{_said(found, pod)}"
    return f"pod {pod['metadata']['name']} waits for a seat{_said(found, pod)}"


def _said(found: Gathered, pod: Document) -> str:
    """Return what the controllers said to the pod, where it is more than that all seats are taken."""
    name = pod["metadata"]["name"]
    told = next((each for each in found.about("Pod") if each["involvedObject"].get("name") == name and _ours(each)), {})
    return "; raise maxSessions, or use fewer pods" if told.get("reason") == "NeverWhole" else ""


def _ours(event: Document) -> bool:
    return bool((event.get("source") or {}).get("component") == "muster")


def _holder(name: str, count: int, seconds: float) -> str:
    return f"{name}{f' ({count} seats)' if count > 1 else ''} for {words.age(seconds)}"


def _seated(found: Gathered, claim: Document) -> Seated:
    held = _held(claim)
    name = claim["metadata"]["name"]
    waiting = tuple(
        (pod["metadata"]["name"], seconds_since(pod["metadata"].get("creationTimestamp"), found.now))
        for pod in found.live_pods()
        if is_gated(pod) and name in _claims(pod) and pod["metadata"].get("uid") not in held
    )
    return Seated(name, _holders(found, list(held.values()))[:_HOLDERS], waiting)


def _held(claim: Document) -> dict[str, Seat]:
    try:
        return parse_seats((claim["metadata"].get("annotations") or {}).get(names.SEATS_ANNOTATION, ""))
    except SeatsError:
        return {}


def _holders(found: Gathered, held: list[Seat]) -> tuple[tuple[str, int, float], ...]:
    """Return who holds seats, how many, and for how long: those who have theirs for longest come first."""
    called = [(f"job {seat.job}" if seat.job else f"pod {seat.pod}", seat.since) for seat in held]
    counts = Counter(name for name, _ in called)
    since = {name: min(moment for each, moment in called if each == name) for name in counts}
    longest = sorted(counts, key=lambda name: since[name])
    return tuple((words.quoted(name, 80), counts[name], seconds_since(since[name], found.now)) for name in longest)


def _claims(pod: Document) -> set[str]:
    return {
        each["resourceClaimName"]
        for each in (pod.get("spec") or {}).get("resourceClaims") or ()
        if each.get("resourceClaimName")
    }
