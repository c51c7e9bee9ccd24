"""Reads of objects without a kubectl for each: one `kubectl proxy` per test process, asked over a Unix socket.

A waiting test reads the same objects many times a second; starting kubectl for each read took most of the suites' time
on two cores. The proxy understands every kubeconfig that kubectl does. Kinds that are not in the table are left to
kubectl, which knows them all.
"""

from __future__ import annotations

import atexit
import functools
import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["ReadError", "Reader", "reader"]

_PATIENCE = 60.0
_ANSWER = 60.0
_JOBSETS = "apis/jobset.x-k8s.io/v1alpha2", "jobsets", True
_TRAINJOBS = "apis/trainer.kubeflow.org/v1alpha1", "trainjobs", True
_CLAIMS = "apis/resource.k8s.io/v1"
_RESOURCES: Mapping[str, tuple[str, str, bool]] = {
    "trainjobs": _TRAINJOBS,
    "trainjobs.trainer.kubeflow.org": _TRAINJOBS,
    "jobsets": _JOBSETS,
    "jobsets.jobset.x-k8s.io": _JOBSETS,
    "jobs.batch": ("apis/batch/v1", "jobs", True),
    "jobs": ("apis/batch/v1", "jobs", True),
    "pods": ("api/v1", "pods", True),
    "services": ("api/v1", "services", True),
    "configmaps": ("api/v1", "configmaps", True),
    "events": ("api/v1", "events", True),
    "resourceclaims": (_CLAIMS, "resourceclaims", True),
    "resourceclaimtemplates": (_CLAIMS, "resourceclaimtemplates", True),
    "resourceslices": (_CLAIMS, "resourceslices", False),
    "deviceclasses": (_CLAIMS, "deviceclasses", False),
    "nodes": ("api/v1", "nodes", False),
    "namespace": ("api/v1", "namespaces", False),
    "namespaces": ("api/v1", "namespaces", False),
}
"""What a test calls a kind: API path, resource, whether it is namespaced."""


class ReadError(OSError):
    """The API server or the proxy did not answer with success."""


class Reader:
    """A proxy to one cluster.

    Args:
        command: kubectl with its configuration.
        environment: the environment of kubectl.
    """

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="muster-e2e-")
        self._socket = Path(self._folder.name) / "socket"
        self._process = subprocess.Popen(
            [*command, "proxy", f"--unix-socket={self._socket}"],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.close)
        deadline = time.monotonic() + _PATIENCE
        while not _listens(self._socket):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise ReadError("kubectl proxy does not start")
            time.sleep(0.02)

    def close(self) -> None:
        """End the proxy."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def get(self, kind: str, name: str, namespace: str | None) -> dict[str, Any] | None:
        """Return one object, None when there is none.

        Raises:
            ReadError: no answer, or no success.
        """
        return self._ask(f"{_path(kind, namespace)}/{urllib.parse.quote(name)}")

    def all(self, kind: str, namespace: str | None, selector: str | None) -> list[dict[str, Any]]:
        """Return the objects of a kind, each with its kind and version as kubectl shows it.

        Raises:
            ReadError: no answer, or no success.
        """
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        listed = self._ask(_path(kind, namespace) + query) or {"items": []}
        marks = {"apiVersion": listed.get("apiVersion"), "kind": str(listed.get("kind", "")).removesuffix("List")}
        return [{**marks, **item} for item in listed["items"]]

    def told(self, kind: str, namespace: str, document: Mapping[str, Any]) -> str:
        """Return the API server's error and warnings for a creation in a dry run.

        Raises:
            ReadError: no answer.
        """
        status, headers, body = self._send("POST", f"{_path(kind, namespace)}?dryRun=All", json.dumps(document))
        error = _message(body) if status >= http.HTTPStatus.BAD_REQUEST else ""
        return "\n".join([error, *(headers.get_all("Warning") or ())])

    def _ask(self, path: str) -> dict[str, Any] | None:
        status, _, body = self._send("GET", path)
        if status == http.HTTPStatus.NOT_FOUND:
            return None
        if status != http.HTTPStatus.OK:
            raise ReadError(f"GET /{path}: {status} {body[:500]!r}")
        found: dict[str, Any] = json.loads(body)
        return found

    def _send(self, method: str, path: str, body: str | None = None) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = _Connection(self._socket)
        try:
            connection.request(method, f"/{path}", body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ReadError(f"{method} /{path}: {error!r}") from error
        finally:
            connection.close()


def _message(body: bytes) -> str:
    """The message of a Status; the proxy itself, and an API server that is just ending, answer in plain text."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, LookupError, TypeError):
        return body.decode(errors="replace").strip() or "an error without a word"


def _listens(path: Path) -> bool:
    """Whether somebody takes connections there: a socket's file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWER)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_ANSWER)
        self.sock.connect(self._path)


@functools.cache
def _started(command: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> Reader:
    return Reader(command, dict(environment))


def reader(command: tuple[str, ...], environment: Mapping[str, str], kinds: str) -> Reader | None:
    """Return this process's reader for a cluster, None when it does not know one of the kinds (with commas)."""
    if any(kind not in _RESOURCES for kind in kinds.split(",")):
        return None
    return _started(command, tuple(sorted(environment.items())))


def _path(kind: str, namespace: str | None) -> str:
    group, resource, namespaced = _RESOURCES[kind]
    return f"{group}/namespaces/{namespace or 'default'}/{resource}" if namespaced else f"{group}/{resource}"
