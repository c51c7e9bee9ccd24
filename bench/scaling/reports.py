"""The part of docs/internals/performance.md about growth."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers import machines
from bench.scaling import decisions, services

__all__ = ["DECISIONS", "NAME", "SERVICES", "text"]

NAME = "bench-scaling"
"""The comments between which the page is written."""

DECISIONS, SERVICES = "plots/scaling-decisions.csv", "plots/scaling-services.csv"
"""Where the raw figures are, beside the page."""

_DECISIONS = """\
Measured on {day} on {machine}. One decision, from the bytes of the review to those of the answer, without HTTP and
audit: processor time, the median of {rounds} rounds in turns with [lowest..highest]. Nothing is remembered of a text or
a document at the first review; the same one comes again some times then, as jobs of one team do.
[The raw figures]({raw})."""

_SERVICES = """\
`muster serve` with a live cache, TLS and metrics; the mutating reviews of JobSets, 16 at a time over kept connections,
come from a client on the same cores and not through the API server, in {rounds} rounds in turns. Replicas share the
cores as well, so that three of them show what they cost and not what they bring. Memory is of all replicas. Muster does
not start without an audit; what a decision costs without its record is in the table above.
[The raw figures]({raw})."""

_CACHED = """\
The same service beside more and more ClusterTrainingRuntimes, copies of the shipped one for TRL, measured once each. At
rest is right after the start. The aims are 60 MiB at rest, and 100 after a load beside 1,000 runtimes."""


def text(
    timings: Sequence[decisions.Timing], served: Sequence[services.Served], cached: Sequence[services.Cached]
) -> str:
    """Return it as Markdown; what has not been measured is left out."""
    parts = []
    if timings:
        rounds = len({each.round for each in timings})
        parts += [
            _DECISIONS.format(day=machines.today(), machine=machines.described(), rounds=rounds, raw=DECISIONS),
            decisions.table(timings),
        ]
    if served:
        parts += [
            _SERVICES.format(rounds=len({each.round for each in served}), raw=SERVICES),
            services.served_table(served),
        ]
    if cached:
        parts += [_CACHED, services.cached_table(cached)]
    return "\n\n".join(parts)
