"""promtool, which belongs to Prometheus and is no Python package: on PATH, or where `make promtool` puts it."""

from __future__ import annotations

import shutil

from e2e.cluster import places

MISSING = "no promtool: `make promtool` unpacks the one of Debian's package `prometheus`"


def found():
    """Its path, None when there is none."""
    unpacked = places.cache() / "promtool" / "usr" / "bin" / "promtool"
    return shutil.which("promtool") or (str(unpacked) if unpacked.is_file() else None)
