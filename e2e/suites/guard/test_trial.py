"""`muster doctor --guard` tells before any job whether the nodes can have the guard."""

from __future__ import annotations

from e2e.suites.support import doctors
from e2e.suites.support.kubectls import Kubectl

_TRIALS = "muster-doctor-guard"


def test_the_doctor_starts_the_guard_on_each_node_and_leaves_no_pod(kubectl: Kubectl, real: list[str]) -> None:
    examined = doctors.examine(kubectl, "--guard")

    assert not examined.said("error", "unknown", check="guard"), examined.report
    (said,) = examined.said("ok", check="guard")
    assert "the guard (init) starts on" in said
    assert all(name in said for name in real)
    pods = kubectl.run("get", "pods", "-A", "-o", "name").expect().out
    assert _TRIALS not in pods
