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
    launch = reading.only
    if launch is None or not launch.starts_torchrun or container.get("envFrom"):
        return ""
    logs = launch.values.get("log_dir") or _variable(launch, env, "PET_LOG_DIR")
    named = [logs, *(_variable(launch, env, name) for name in _NAMED)]
    if any(each is None or "$" in each for each in named) or logs == _NULL:
        return ""
    start, writable = container.get("workingDir"), [each for each in mounted if not mounts.why_fixed(each, volumes)]
    folders = [*filter(None, named[1:]), *_FOLDERS, *([str(start)] if start else [])]
    if logs:
        folders = [posixpath.join(str(start or ""), logs)]
    if any(_may_write(folder, mounted, writable) for folder in folders) or (writable and not start and not logs):
        return ""
    if logs:
        return f"torchrun cannot make {logs}, the folder of its logs, and stops; mount a volume there"
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


def _may_write(folder: str, mounted: Sequence[Mapping[str, Any]], writable: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a folder is on a volume that can be written; one that is relative to the image's may be."""
    found = mounts.holding(posixpath.normpath(folder), mounted)
    return not folder.startswith("/") or (found is not None and any(found is each for each in writable))
