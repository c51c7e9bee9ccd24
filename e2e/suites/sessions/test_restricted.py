"""The agent of devices as its manifest has it, without root and capabilities: it grants, and ends whoever hangs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.suites.sessions.gateways import restarts
from e2e.suites.sessions.pairs import Pair
from e2e.suites.support import waits

pytestmark = pytest.mark.thorough

Say = Callable[[str], None]


def test_under_an_agent_with_the_rights_of_its_manifest_alone_a_session_that_hangs_loses_the_device(
    restricted: Pair, say: Say
) -> None:
    first, second = restricted.gateways
    pod = restricted.agents.pod()
    assert pod is not None
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["securityContext"]["runAsUser"] == 65532
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    with first.training() as training:
        quiet = training.end()
    assert quiet[-1] == 1.0

    def at_rest() -> dict[str, str]:
        """Return who keeps the device because nobody asks for it."""
        lease = restricted.lease()
        assert lease["phase"] == "idle", lease
        return dict(lease)

    holder = waits.until("the device to be at rest", at_rest, 60)["holder"]
    before = next(each for role in ("trainer", "sampler") if (each := first.engine(role))["metadata"]["name"] == holder)
    restricted.agents.ground.kill(before, "SIGSTOP")
    begun = time.monotonic()
    with second.training() as training:
        training.until(1)
        say(f"the other session had its first step {time.monotonic() - begun:.0f} s after the holder was stopped")
        assert training.end() == quiet
    role = before["metadata"]["labels"]["muster.dev/role"]
    waits.until("the engine that hung to be another", lambda: restarts(first.engine(role)) == restarts(before) + 1, 60)
    with first.training() as training:
        assert training.end() == quiet
