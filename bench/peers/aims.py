"""What Muster is to cost beside the others, and whether it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import figures
from bench.peers import controllers, markdown, muster, policies, tables
from bench.peers.rounds import LEVELS, Run

__all__ = ["AIMS", "Aim", "table"]

_NONE = "none"
_ONE, _BOTH = (peer.name for peer in muster.ALL[:2])
_OTHER, _NATIVE = controllers.PATCHES.name, policies.NATIVE.name
_FEW, _MANY = LEVELS


@dataclass(frozen=True, slots=True)
class Aim:
    """One aim.

    Attributes:
        what: in words.
        most: what the median of the figure may be at most.
        unit: of the figure.
        figure: from the runs to it; None if it was not measured.
    """

    what: str
    most: float
    unit: str
    figure: Callable[[Sequence[Run]], figures.Figure | None]


def _cpu(peer: str) -> Callable[[Sequence[Run]], figures.Figure | None]:
    return lambda runs: tables.ratio(runs, peer, _OTHER, _MANY, lambda run: run.cpu)


def _later(read: Callable[[Run], float]) -> Callable[[Sequence[Run]], figures.Figure | None]:
    return lambda runs: tables.added(runs, _ONE, _OTHER, _FEW, read)


def _to_native(read: Callable[[Run], float]) -> Callable[[Sequence[Run]], figures.Figure | None]:
    """Return the ratio of the medians of what is added: in a single round it may be next to nothing."""

    def found(runs: Sequence[Run]) -> figures.Figure | None:
        ours, others = (tables.added(runs, peer, _NONE, _FEW, read) for peer in (_ONE, _NATIVE))
        if not ours or not others or others.median <= 0:
            return None
        return figures.rounds([ours.median / others.median])

    return found


AIMS = (
    Aim(
        f"mutation alone, processor time of controller-runtime with direct patches, {_MANY} at a time",
        0.6,
        "times",
        _cpu(_ONE),
    ),
    Aim("both phases, of its one phase", 1.0, "times", _cpu(_BOTH)),
    Aim(
        "mutation alone, p50 more than that of controller-runtime with direct patches, one at a time",
        0.0,
        "ms",
        _later(lambda run: run.p50),
    ),
    Aim("the same, p99", 0.0, "ms", _later(lambda run: run.p99)),
    Aim(
        "mutation alone, added p50 of that of MutatingAdmissionPolicy, one at a time",
        1.5,
        "times",
        _to_native(lambda run: run.p50),
    ),
    Aim("the same, p99", 1.5, "times", _to_native(lambda run: run.p99)),
)
"""All of them; those of memory are beside the growth of the caches."""


def table(runs: Sequence[Run], aims: Sequence[Aim] = AIMS) -> str:
    """Return the table, a row for each aim; empty if none was measured."""
    rows = []
    for aim in aims:
        if figure := aim.figure(runs):
            reached = "yes" if figure.median <= aim.most else "no"
            rows.append((aim.what, f"at most {aim.most:g} {aim.unit}", str(figure), reached))
    return markdown.table(("Muster", "aim", "measured", "reached"), rows) if rows else ""
