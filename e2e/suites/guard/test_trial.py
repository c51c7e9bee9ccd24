"""`muster doctor --guard` tells before any job whether the nodes can have the guard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.support import doctors
from e2e.suites.support.kubectls import Kubectl

_TRIALS = "muster-doctor-guard"
_FAKE = "kwok.x-k8s.io/node"


@pytest.fixture
def real(kubectl: Kubectl) -> Iterator[list[str]]:
    """The nodes that run containers; the others take no pods meanwhile, as if somebody had cordoned them."""
    every = {each["metadata"]["name"]: each["metadata"].get("annotations") or {} for each in kubectl.all("nodes")}
    fake = [name for name, annotations in every.items() if _FAKE in annotations]
    for name in fake:
        kubectl.run("cordon", name).expect()
    yield sorted(set(every) - set(fake))
    for name in fake:
        kubectl.run("uncordon", name).expect()


def test_the_doctor_starts_the_guard_on_each_node_and_leaves_no_pod(kubectl: Kubectl, real: list[str]) -> None:
    examined = doctors.examine(kubectl, "--guard")

    assert not examined.said("error", "unknown", check="guard"), examined.report
    (said,) = examined.said("ok", check="guard")
    assert "the guard (init) starts on" in said
    assert all(name in said for name in real)
    pods = kubectl.run("get", "pods", "-A", "-o", "name").expect().out
    assert _TRIALS not in pods
