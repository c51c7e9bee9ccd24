"""Read-only roots: a torchrun that finds no folder for its logs.

torchrun makes a folder in the temporary directory before it starts anything, unless `--log-dir` names another or
/dev/null (torch 2.13 `distributed/elastic/multiprocessing/api.py` DefaultLogsSpecs). The temporary directory is the
first that can be written of TMPDIR, TEMP, TMP, /tmp, /var/tmp, /usr/tmp and the working directory (CPython `tempfile`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from strategies.documents import mounts, pods
from strategies.launches import readings
from strategies.launches.launches import Launch

__all__ = ["wrong"]

_NAMED = ("TMPDIR", "TEMP", "TMP")
_FOLDERS = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108  # compared with mounts, never written
_NULL = "/dev/null"


def wrong(
    container: Mapping[str, Any],
    argv: Sequence[str],
    env: Sequence[Any],
    mounted: Sequence[Mapping[str, Any]],
    volumes: Sequence[Mapping[str, Any]],
) -> str:
    """Return why the torchrun of a container with a read-only root would not start, "" where it may.

    Args:
        container: the container, whose root is read-only.
        argv: its command line.
        env: its variables.
        mounted: its mounts.
        volumes: of its pod.
    """
    reading = readings.read(argv)
    if reading.unread or len(reading.launches) != 1 or container.get("envFrom"):
        return ""
    launch = reading.launches[0]
    if not (launch.starts_torchrun and launch.certain):
        return ""
    logs = launch.values.get("log_dir") or _variable(launch, env, "PET_LOG_DIR")
    writable = [each for each in mounted if not mounts.why_fixed(each, volumes)]
    start = container.get("workingDir")
    if logs is None or "$" in logs or logs == _NULL:
        return ""
    if logs:
        if not (logs.startswith("/") or start) or _can_write(posixpath.join(str(start or ""), logs), mounted, writable):
            return ""
        return f"torchrun cannot make {logs}, the folder of its logs, and stops; mount a volume there"
    named = [_variable(launch, env, name) for name in _NAMED]
    if any(each is None or "$" in each for each in named):
        return ""
    folders = [*filter(None, named), *_FOLDERS, *([str(start)] if start else [])]
    if (writable and not start) or any(_can_write(str(each), mounted, writable) for each in folders):
        return ""
    return (
        "torchrun makes a folder of logs in /tmp before it starts, and nothing can be written; mount an emptyDir there"
    )


def _variable(launch: Launch, env: Sequence[Any], name: str) -> str | None:
    """Return the value of a variable, "" for none, None for one that only the pod knows."""
    if name in launch.env:
        return launch.env[name]
    entry = pods.find_env(env, name)
    if entry is None:
        return ""
    return None if entry.get("valueFrom") is not None else str(entry.get("value") or "")


def _can_write(folder: str, mounted: Sequence[Mapping[str, Any]], writable: Sequence[Mapping[str, Any]]) -> bool:
    found = mounts.holding(posixpath.normpath(folder), mounted)
    return found is not None and any(found is each for each in writable)
