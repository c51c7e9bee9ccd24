"""The agent of devices as its manifest has it, without root and capabilities: it grants, and ends whoever hangs."""

from __future__ import annotations

import datetime
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

    ended = datetime.datetime.now(datetime.UTC)

    def at_rest() -> dict[str, str]:
        """Return who keeps the device because nobody asks for it, told after the training."""
        lease = restricted.lease()
        assert lease["phase"] == "idle", lease
        assert datetime.datetime.fromisoformat(lease["at"]) > ended, lease
        return dict(lease)

    holder = waits.until("the device to be at rest", at_rest, 120)["holder"]
    # An engine has the device also while it is made, so it may be one of the session that has not trained yet.
    engines = [(each, role) for each in (first, second) for role in ("trainer", "sampler")]
    hanging, role = next((each, role) for each, role in engines if each.engine(role)["metadata"]["name"] == holder)
    other = second if hanging is first else first
    before = hanging.engine(role)
    restricted.agents.ground.kill(before, "SIGSTOP")
    begun = time.monotonic()
    with other.training() as training:
        training.until(1)
        say(f"the other session had its first step {time.monotonic() - begun:.0f} s after the holder was stopped")
        assert training.end() == quiet
    waits.until("the engine that hung to be another", lambda: restarts(hanging.ready(role)) == restarts(before) + 1, 60)
    with hanging.training() as training:
        assert training.end() == quiet
