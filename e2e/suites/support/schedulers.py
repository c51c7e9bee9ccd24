"""Which worker runs which test, when pytest-xdist runs several.

Tests that look at one and the same thing from several sides (the differential suite applies an example once) stay on
one worker; all others are handed out one by one. pytest-xdist's own `xdist_group` cannot do it: as of 3.8 it writes
into a member of a test that pytest 9.2 no longer reads.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types

__all__ = ["ByExample"]

_SHARED = "suites/differential/"


class ByExample(LoadScopeScheduling):  # type: ignore[misc]  # of no known type
    """Hands out groups of tests; a group is one test, or all of one example."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of a test's group."""
        _, bracket, example = nodeid.partition("[")
        return f"{_SHARED}[{example}" if bracket and _SHARED in nodeid else nodeid
