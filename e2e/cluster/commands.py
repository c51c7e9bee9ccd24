"""Runs other programs to their end, and prints progress."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.errors import ClusterError

__all__ = ["run", "say"]

_TAIL = 4000


def run(
    command: Sequence[str | Path],
    *,
    stdin: str = "",
    timeout: float | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return what the command wrote to its standard output.

    Raises:
        ClusterError: it is missing, ends otherwise than with 0, or takes longer than `timeout` seconds; with the end
            of what it wrote to its standard error.
    """
    words = [str(each) for each in command]
    spoken = " ".join(words[:5]) + (" ..." if len(words) > 5 else "")
    try:
        ended = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            cwd=folder,
            env=None if environment is None else dict(environment),
        )
    except FileNotFoundError as error:
        raise ClusterError(f"`{spoken}`: {error.strerror}: {error.filename}") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{spoken}` took longer than {timeout:.0f} s") from error
    if ended.returncode != 0:
        raise ClusterError(f"`{spoken}` ended with {ended.returncode}:\n{ended.stderr.strip()[-_TAIL:]}")
    return ended.stdout


def say(text: str) -> None:
    """One line of progress, on standard error, at once."""
    sys.stderr.write(f"muster: {text}\n")
    sys.stderr.flush()
