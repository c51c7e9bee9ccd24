"""What `make test` and `make test-all` run in clusters: the suites, what each needs, and which are neighbours.

Both run two clusters at a time. `make test` has few of them, in which the tests that are marked `thorough` are left
out; `make test-all` gives each group of suites a cluster of its own, and leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from e2e.cluster import sites

__all__ = [
    "ALONE",
    "BY_NAME",
    "NEEDS_NODES",
    "ONE_TIER",
    "PACKAGING",
    "PACKAGING_IMAGES",
    "TOGETHER",
    "Run",
    "everything",
    "images",
    "marks",
    "modules",
    "quick",
]

TOGETHER = ("pods", "lifecycle", "validation", "differential", "migrations")
"""Suites whose tests run side by side."""
ALONE = (
    "training",
    "claims",
    "sessions",
    "upgrade",
    "wedges",
    "outage",
    "scale",
    "certificates",
    "guard",
    "reports",
    "rights",
    "sdk",
    "kueue",
    "releases",
    "load",
)
"""Suites that change the installation itself, or need what all share: its devices, its cores."""
BY_NAME = ("load",)
"""Suites that run only when they are asked for, because they take long."""
NEEDS_NODES = ("pods", "training", "guard", "sessions", "releases", "load")
"""Suites that cannot run in the control plane's tier."""
ONE_TIER = ("kueue", "migrations", "reports", "rights", "scale", "sdk")
"""Suites without containers of their own, which run in the control plane's tier; in the other when asked for."""
PACKAGING = ("helm", "kind")
"""Modules of `e2e/binaries` that the thorough tests in `tests/packaging` need."""
PACKAGING_IMAGES = ("engine", "gateway")
"""Images that the same tests run by themselves."""

_MODULES = {"kueue": ("kueue",), "releases": ("helm", "certmanager"), "sessions": ("helm",)}  # of thorough tests
_SESSIONS = ("engine", "gateway")
_FOREIGN = tuple(f"foreign-{kind}" for kind in ("pip", "conda", "customized", "searching", "entered"))
_IMAGES = {"training": ("trl", "torchtune", "vllm", "rl"), "guard": _FOREIGN, "sessions": _SESSIONS}  # large
_QUICK_IMAGES = {"training": ("trl", "rl"), "guard": ("foreign-pip",), "sessions": _SESSIONS}


@dataclass(frozen=True, slots=True)
class Run:
    """Some suites in a cluster of their own.

    Attributes:
        tier: of the cluster.
        suites: in it.
        quick: whether tests that are marked `thorough` are left out.
    """

    tier: sites.Tier
    suites: tuple[str, ...]
    quick: bool = False

    def __str__(self) -> str:
        return f"{self.tier}: {', '.join(self.suites)}"


def quick(tiers: Collection[sites.Tier]) -> list[Run]:
    """Return the runs of `make test`, in the order in which they are begun.

    The node tier is through sooner than all suites of the other one, and what is begun then makes both lanes equally
    long. A cluster of the control plane's tier is there in ten seconds.

    Args:
        tiers: that this machine can run.
    """
    begun = [
        Run("node", ("pods", "training", "claims", "sessions", "certificates", "guard"), quick=True),
        Run(
            "control-plane",
            (
                *("lifecycle", "validation", "differential", "migrations"),
                *("claims", "upgrade", "wedges", "outage", "scale"),
            ),
            quick=True,
        ),
        Run("control-plane", ("reports", "rights", "sdk"), quick=True),
    ]
    return [run for run in begun if run.tier in tiers]


def everything(tiers: Collection[sites.Tier]) -> list[Run]:
    """Return the runs of `make test-all`, in the order in which they are begun.

    The longest begin first, so that no lane is alone at the end; those that need the cores, the real trainings, the
    suites whose tests run side by side and the 500 jobs of `scale`, are not neighbours. What the control plane's tier
    shows as well as the other runs in it alone.

    Args:
        tiers: that this machine can run.
    """
    begun: list[tuple[sites.Tier, tuple[str, ...]]] = [
        ("node", ("outage",)),
        ("node", ("training",)),
        ("control-plane", (*TOGETHER, "scale")),
        ("node", ("upgrade", "wedges", "guard")),
        ("node", ("claims", "sessions")),
        ("control-plane", ("outage",)),
        ("node", tuple(each for each in TOGETHER if each not in ONE_TIER)),
        ("control-plane", ("upgrade", "wedges")),
        ("control-plane", ("reports", "rights", "sdk", "kueue")),
        ("node", ("certificates", "releases")),
        ("control-plane", ("claims", "certificates")),
    ]
    return [Run(tier, suites) for tier, suites in begun if tier in tiers]


def modules(suites: Collection[str], *, quick: bool) -> set[str]:
    """Return the modules of `e2e/binaries` that suites need beside those of their tier; quick ones need none."""
    return set() if quick else {module for suite in suites for module in _MODULES.get(suite, ())}


def images(suites: Collection[str], *, quick: bool) -> Sequence[str]:
    """Return the images of trainings that suites need on the node tier."""
    needed = _QUICK_IMAGES if quick else _IMAGES
    return [image for suite in suites for image in needed.get(suite, ())]


def marks(tier: str) -> str:
    """Return pytest's expression for the tests of `make test` in a tier's cluster."""
    return "not thorough and not thorough_on_nodes" if tier == "node" else "not thorough"
