"""What a device was at and for how long, as Prometheus reads it; counted where the lease is driven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from muster.sessions.devices.lease import Lease, Phase

__all__ = ["SERIES", "Figures", "exposition"]

SERIES: Final = {
    "muster_device_phase_seconds_total": ("counter", ("device", "phase"), "Seconds in which the device was in a phase"),
    "muster_device_grants_total": ("counter", ("device",), "Times that an engine got the device"),
    "muster_device_ended_total": (
        "counter",
        ("device",),
        "Orders to end an engine that hung, lied or was cut off",
    ),
    "muster_device_waiting": ("gauge", ("device",), "Engines that wait for the device"),
    "muster_device_waiting_seconds_total": (
        "counter",
        ("device",),
        "Seconds for which engines waited, added up over engines",
    ),
}
"""Each series: its type, its labels and its text."""


class Figures:
    """Seconds and counts of one device, all from nought.

    Args:
        now: seconds of a clock that never goes back.
    """

    def __init__(self, now: float) -> None:
        self._looked = now
        self._phases = dict.fromkeys(Phase, 0.0)
        self._waited = 0.0
        self.grants = self.ended = 0

    def count(self, lease: Lease, now: float) -> None:
        """Count what has passed since the last call, in which the lease was this one."""
        passed, self._looked = now - self._looked, now
        self._phases[lease.phase] += passed
        self._waited += passed * len(lease.waiting)

    def samples(self, name: str, lease: Lease) -> Iterator[tuple[str, float]]:
        """Yield the values of one series, each with its labels beside the device."""
        match name.removeprefix("muster_device_"):
            case "phase_seconds_total":
                yield from ((f',phase="{phase}"', seconds) for phase, seconds in self._phases.items())
            case "grants_total":
                yield "", self.grants
            case "ended_total":
                yield "", self.ended
            case "waiting":
                yield "", len(lease.waiting)
            case _:
                yield "", self._waited


def exposition(devices: Mapping[str, tuple[Figures, Lease]]) -> bytes:
    """Return the text exposition (version 0.0.4) of devices by name: what was counted, with the state at the moment."""
    lines = [line for name in SERIES for line in _family(name, devices)]
    return "".join(f"{line}\n" for line in lines).encode()


def _family(name: str, devices: Mapping[str, tuple[Figures, Lease]]) -> Iterator[str]:
    kind, _, text = SERIES[name]
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for device, (figures, lease) in sorted(devices.items()):
        label = device.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for more, value in figures.samples(name, lease):
            yield f'{name}{{device="{label}"{more}}} {value!r}'
