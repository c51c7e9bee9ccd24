"""Options of `serve` that say with whom engines share a device."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add", "chosen"]


def add(serve: argparse.ArgumentParser) -> None:
    """Add the options."""
    what = "socket of the agent of a device, or of each node, where engines of sessions take turns (docs/sharing.md)"
    serve.add_argument("--device-lease", type=Path, metavar="SOCKET", help=what)
    what = "of these engines there, from 0.01 to 100; 1 by default"
    serve.add_argument("--device-weight", type=_weight, default=1.0, metavar="NUMBER", help=what)


def chosen(args: argparse.Namespace) -> Path | None:
    """Return the socket of a device that is shared. Raises `ValueError` for engines that cannot take turns."""
    if args.device_lease is None:
        return None
    if args.ranks > 1:
        raise ValueError(f"--device-lease: {args.device_lease}: --ranks {args.ranks} need devices of their own")
    if args.platform != "processes":
        return _in_pods(args.device_lease, args.profile)
    return Path(args.device_lease).absolute()


def _in_pods(path: Path, profile: str | None) -> Path:
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < 3:
        raise ValueError(f"--device-lease: {path}: pass the full path of a file in a folder of the nodes")
    if profile is None:
        raise ValueError(f"--device-lease: {path}: engines have no device without --profile: pass that too")
    return path


def _weight(text: str) -> float:
    try:
        if 0.01 <= (found := float(text)) <= 100:
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number from 0.01 to 100")
