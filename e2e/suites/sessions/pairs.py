"""Two Gateways whose engines take turns on one device, what `muster claims` says of it, and a third without seats."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from e2e.suites.sessions.agents import Agents
from e2e.suites.sessions.gateways import PROFILE, Gateway
from e2e.suites.support import statuses

__all__ = ["Pair"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Both of them.

    Attributes:
        agents: of the devices.
        gateways: that share one.
        third: that has no pod yet, and whose engines have no seats while those of both have theirs.
    """

    agents: Agents
    gateways: tuple[Gateway, ...]
    third: Gateway

    def lease(self) -> dict[str, Any]:
        """Return what `muster claims -o json` says of the device. Raises `AssertionError` where it says nothing."""
        found = json.loads(statuses.run(*self._command, "-o", "json"))["claims"]
        (claim,) = (each for each in found if each["name"] == self.claim)
        assert claim["lease"] is not None, claim
        return dict(claim["lease"])

    def row(self) -> list[str]:
        """Return the words of the device's row in what people get of `muster claims`."""
        table = statuses.run(*self._command).partition("DEVICE HELD BY")[2].partition("\n\n")[0]
        return table.partition("\n")[2].split()

    @property
    def claim(self) -> str:
        """The claim of all engines."""
        return f"muster-{PROFILE}-0"

    def session(self, gateway: Gateway) -> str:
        """Return how the agents call the session of a Gateway."""
        return f"{gateway.engines.name}/{gateway.name}"

    @property
    def _command(self) -> tuple[Any, ...]:
        engines = self.gateways[0].engines
        return engines.kubectl, "claims", "-n", engines.name
