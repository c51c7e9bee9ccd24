"""`muster sessions timeline`: whose turn it was on a device, as a picture of the log of its agent."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from muster.sessions.devices import spans, timelines

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command."""
    timeline = commands.add_parser("timeline", help="draw whose turn it was on a device, as SVG", allow_abbrev=False)
    what = "log of an agent of devices; standard input by default"
    timeline.add_argument("log", nargs="?", type=Path, metavar="LOG", help=what)
    what = "which one, where the log has several; the only one by default"
    timeline.add_argument("--device", metavar="DEVICE", help=what)
    timeline.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.log is None:
        found = list(spans.read(sys.stdin))
    else:
        with args.log.open(encoding="utf-8", errors="replace") as file:
            found = list(spans.read(file))
    chosen = _chosen(found, args.device)
    print(timelines.svg(chosen), end="")
    print(f"sessions: {timelines.summary(chosen)}", file=sys.stderr)
    return 0


def _chosen(found: list[spans.Span], device: str | None) -> list[spans.Span]:
    """Return the spans of one device. Raises `ValueError` where there are none, or it is not said which one."""
    if not found:
        raise ValueError(
            "the log has no line of muster.sessions.devices.spans: pass that of an agent from which an engine left"
        )
    known = Counter(each.device for each in found)
    if device is None and len(known) > 1:
        raise ValueError(f"--device: is missing: the log has {', '.join(sorted(known)[:8])}")
    if device is not None and device not in known:
        raise ValueError(f"--device: {device[:80]!r}: is not in the log, which has {', '.join(sorted(known)[:8])}")
    return [each for each in found if device in {None, each.device}]
