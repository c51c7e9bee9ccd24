"""Read-only roots: a torchrun that finds no folder for its logs, and a vLLM that finds none for its sockets.

torchrun makes a folder in the temporary directory before it starts anything, unless `--log-dir` names another or
/dev/null (torch `distributed/elastic/multiprocessing/api.py` DefaultLogsSpecs). The temporary directory is the
first that can be written of TMPDIR, TEMP, TMP, /tmp, /var/tmp, /usr/tmp and the working directory (CPython `tempfile`).
`accelerate launch` of several processes is a torchrun (accelerate `commands/launch.py`). vLLM asks for the
temporary directory whatever VLLM_RPC_BASE_PATH says (vllm `envs.py`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from muster.strategies.documents import mounts, pods
from muster.strategies.documents.quantities import whole
from muster.strategies.launches import readings
from muster.strategies.launches.launches import Launch, Launcher

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
    """Return why what a container with a read-only root starts would stop, "" where it may not.

    Args:
        container: the container, whose root is read-only.
        argv: its command line.
        env: its variables.
        mounted: its mounts.
        volumes: of its pod.
    """
    reading = readings.read(argv)
    launch = reading.only
    program = _needing(launch) if launch is not None and not container.get("envFrom") else ""
    if launch is None or not program:
        return ""
    logs: str | None = ""
    if launch.launcher is not Launcher.VLLM:
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
    return f"{program} in /tmp when it starts, and nothing can be written; mount an emptyDir there"


def _needing(launch: Launch) -> str:
    """Return what needs a folder, and for what; "" for a launch that may need none."""
    values = launch.values
    several = {"multi_gpu", "use_fsdp"} & set(values) or (whole(values.get("num_processes", "")) or 0) > 1
    if launch.starts_torchrun or (launch.launcher is Launcher.ACCELERATE and several):
        return "torchrun makes a folder of logs"
    return "vLLM makes its sockets" if launch.launcher is Launcher.VLLM and launch.target == "serve" else ""


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
