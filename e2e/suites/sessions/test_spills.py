"""Engines that find their profile full are pods of the next one, and who finds all full goes where seats come first."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.suites.sessions.gateways import Gateway
from e2e.suites.support import devices, statuses, waits

pytestmark = pytest.mark.thorough

Say = Callable[[str], None]
_NARROW, _SPARE = "muster-narrow-0", "muster-spare-0"


def claims(gateway: Gateway) -> set[str]:
    """The claims of both engines, when they are ready."""
    return {claim for role in ("trainer", "sampler") for claim in devices.claims_of(gateway.engine(role))}


def test_sessions_take_the_next_profile_while_one_is_full_and_train_there(
    spilling: tuple[Gateway, ...], quiet: list[float], say: Say
) -> None:
    first, second, third = spilling
    first.begin()
    assert claims(first) == {_NARROW}

    second.begin()
    with second.training() as training:
        assert training.end() == quiet
    assert claims(second) == {_SPARE}
    told = statuses.run(second.kubectl, "status", "muster-b", "--namespace", second.engines.name)
    assert _SPARE in told
    found = second.engines.jobset("muster-b")
    assert found is not None
    assert found["metadata"]["labels"]["muster.dev/profile"] == "spare"

    third.begin()
    waits.until("the third to wait for seats", third.gated, 60)
    with third.training() as training:
        told = waits.until("the client to be told which are full", lambda: training.told("without enough free"), 90)
        assert f"waits for a seat on claim {_NARROW}" in told
        assert "profiles without enough free seats: narrow, spare" in told
        begun = time.monotonic()
        second.end()
        training.until(1)
        say(f"{told}; its first step was over {time.monotonic() - begun:.0f} s after spare had seats")
        assert training.end() == quiet
    assert claims(third) == {_SPARE}
    assert claims(first) == {_NARROW}
