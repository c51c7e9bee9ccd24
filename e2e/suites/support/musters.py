"""What every installation of Muster has in common: its configuration, its answers, its records."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml

from e2e.suites.support import documents, waits
from e2e.suites.support.kubectls import Kubectl

__all__ = [
    "changed",
    "environment",
    "is_record",
    "is_refused",
    "is_unreachable",
    "records",
    "restart_api_server",
    "since",
    "wait_ready",
]

_SCHEMA = '"muster.dev/audit/v1"'


def wait_ready(kubectl: Kubectl, seconds: float) -> None:
    """Wait until the API server gets an answer of Muster: a refusal in its own words of a job without nodes."""

    def answered() -> bool:
        told = _told(kubectl)
        assert not told or "numNodes" in told, told
        return True

    waits.until("Muster to answer the API server", answered, seconds)


def is_refused(kubectl: Kubectl) -> bool:
    """Whether nothing listens at Muster's address, as the API server sees it."""
    told = _told(kubectl)
    return "failed calling webhook" in told and "connection refused" in told


def is_unreachable(kubectl: Kubectl) -> bool:
    """Whether the API server gets no answer from Muster, for any reason."""
    return "failed calling webhook" in _told(kubectl)


def changed(text: str, changes: Mapping[str, Any]) -> str:
    """Return a configuration file with further keys, objects merged key by key."""
    return yaml.safe_dump(_merged(yaml.safe_load(text) or {}, changes), sort_keys=False)


def environment(text: str) -> dict[str, str]:
    """Return what an impostor needs to know of a configuration file; see `Installation.impostor`."""
    config = yaml.safe_load(text) or {}
    server, tls = config.get("server") or {}, config.get("tls") or {}
    if not tls.get("certFile"):
        pytest.skip("Muster makes its certificate itself here (tls.selfSigned), so no other server can show it")
    return {
        "MUSTER_HOST": str(server.get("host", "0.0.0.0")),
        "MUSTER_PORT": str(server.get("port", 8443)),
        "MUSTER_CERT": str(tls["certFile"]),
        "MUSTER_KEY": str(tls["keyFile"]),
    }


def is_record(line: str) -> bool:
    """Whether a line of output is an audit record, rather than a line of the log."""
    return _SCHEMA in line


def records(lines: Iterable[str], namespace: str | None) -> list[dict[str, Any]]:
    """Return the audit records among lines, of one namespace or all; a torn last line is left out."""
    found = []
    for line in lines:
        if not is_record(line) or (namespace is not None and f'"{namespace}"' not in line):
            continue
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if namespace is None or record["object"]["namespace"] == namespace:
            found.append(record)
    return found


def since(lines: Iterable[str], moment: datetime.datetime | None) -> list[str]:
    """Return the lines of a log, all or those from a moment (with a time zone) on."""
    if moment is None:
        return list(lines)
    start = moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
    return [line for line in lines if _time(line) >= start]


def restart_api_server(kubectl: Kubectl) -> None:
    """Run the command that the environment names, and wait until the API server is ready."""
    command = os.environ.get("MUSTER_E2E_RESTART_API_SERVER")
    if not command:
        pytest.skip("MUSTER_E2E_RESTART_API_SERVER names no command that restarts this cluster's API server")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    waits.until("the API server to be ready", lambda: kubectl.run("get", "--raw", "/readyz").ok, 60)


def _told(kubectl: Kubectl) -> str:
    """Return what the API server says of a job without nodes."""
    job = documents.trainjob("probe", "torch-distributed", kind="ClusterTrainingRuntime", trainer={"numNodes": 0})
    return kubectl.told("trainjobs", "default", job)


def _merged(present: Any, changes: Any) -> Any:
    if not isinstance(present, dict) or not isinstance(changes, Mapping):
        return changes
    return {**present, **{key: _merged(present.get(key), value) for key, value in changes.items()}}


def _time(line: str) -> str:
    """Return when a line was logged, as text that sorts; "" for a line that is not from Muster's log."""
    try:
        return str(json.loads(line)["time"])
    except (ValueError, KeyError, TypeError):
        return ""
