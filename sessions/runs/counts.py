"""What tenants have at most, so that not each request counts all that is kept: that takes longer the more there is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Counts"]

_SINCE = 256  # requests after which it is counted again, whatever the bound says
_FULL = 0.2  # seconds for which a tenant who had no room is believed to have none
_TENANTS = 10_000


@dataclass(slots=True)
class _Bound:
    """What a tenant had when it was counted, with what was kept for him since; what went since is not known."""

    kept: int
    size: int
    waiting: int
    since: int = 0


class Counts:
    """Upper bounds for a journal of one Gateway; used by the thread of the journal.

    Args:
        clock: seconds, which never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bounds: dict[str, _Bound] = {}
        self._full: dict[str, tuple[float, str]] = {}

    def fits(self, tenant: str, size: int, *, kept: int, total: int, waiting: int) -> bool:
        """Add one request to what a tenant has at most, and tell whether that is within his limits for sure.

        Args:
            tenant: whose it is.
            size: bytes of its body.
            kept: the limit of requests.
            total: the limit of their bytes.
            waiting: the limit of those that wait.
        """
        has = self._bounds.get(tenant)
        if has is None or has.since >= _SINCE:
            return False
        has.kept, has.size, has.waiting, has.since = has.kept + 1, has.size + size, has.waiting + 1, has.since + 1
        return has.kept <= kept and has.size <= total and has.waiting <= waiting

    def counted(self, tenant: str, kept: int, size: int, waiting: int) -> None:
        """Keep what a tenant has, as it was counted now."""
        if len(self._bounds) >= _TENANTS:
            self._bounds.clear()
        self._bounds[tenant] = _Bound(kept, size, waiting)

    def full(self, tenant: str, why: str) -> None:
        """Keep that there was no room for another request of a tenant, and why."""
        if len(self._full) >= _TENANTS:
            self._full.clear()
        self._full[tenant] = self._clock(), why

    def lacks(self, tenant: str) -> str:
        """Return why there was no room a moment ago; empty where there may be some."""
        since, why = self._full.get(tenant, (-_FULL, ""))
        return why if self._clock() - since < _FULL else ""
