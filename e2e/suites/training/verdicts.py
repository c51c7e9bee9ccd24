"""What `muster status` says of a training that ended because of its weights."""

from __future__ import annotations

from e2e.suites.support import statuses, waits
from e2e.suites.support.guards import KEPT
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space

__all__ = ["told"]


def told(space: Space, kubectl: Kubectl, name: str, verdict: str, sentence: str) -> None:
    """`muster status` has the verdict with its reason, and the verdict still when the pods are gone."""

    def kept() -> bool:
        annotations = (space.jobset(name) or {})["metadata"].get("annotations") or {}
        assert verdict in annotations.get(KEPT, ""), annotations
        return True

    story = statuses.told(kubectl, name, "-n", space.name, "--check")
    assert (story["phase"], story["why"]["code"], story["verdict"]) == ("Failed", "failed-by-weights", verdict)
    assert sentence in story["why"]["text"]
    assert "exit code 78, the guard's: muster: the sampler" in story["why"]["text"]
    waits.until("the report to be kept", kept, 60)
    kubectl.run("delete", "pods", "--namespace", space.name, "--all", "--grace-period=0", "--force").expect()
    later = waits.until(
        "the pods to be gone", lambda: _gone(statuses.told(kubectl, name, "-n", space.name, "--check")), 60
    )
    assert (later["why"]["code"], later["verdict"]) == ("failed-by-weights", verdict)


def _gone(story: dict[str, object]) -> dict[str, object] | None:
    """Return a story without pods."""
    return None if story["pods"] else story
