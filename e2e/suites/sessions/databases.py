"""PostgreSQL in a pod beside Gateways, reached by password over the network of the cluster.

Its programs are those of this machine, which is the node, mounted into an image that has none: no registry is reached.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.suites.sessions.gateways import is_ready, restarts
from e2e.suites.sessions.grounds import CLAIM, IMAGES, PATIENCE, USER, Ground
from e2e.suites.support import documents as kinds
from e2e.suites.support import waits

__all__ = ["FOLDER", "SECRET", "Database", "need"]

SECRET = "journal"  # the name of a Secret
"""The Secret with `url` and `password`, as the chart asks for them."""
FOLDER = "postgres"
"""The folder of the volume that has the tables."""

_NAME, _PASSWORD = "postgres", "a password of a test"
_LABELS = {"app": _NAME}
_SELECTOR = f"app={_NAME}"
_BIN = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/nowhere"))
_SERVE = f"""
set -e
if [ ! -s /data/tables/PG_VERSION ]; then
    {_BIN}/initdb --pgdata=/data/tables --username=muster --pwfile=/etc/journal/password --auth-local=trust \
        --auth-host=scram-sha-256 --encoding=UTF8 --locale=C
    echo "host all all all scram-sha-256" >> /data/tables/pg_hba.conf
fi
exec {_BIN}/postgres -D /data/tables -c listen_addresses='*' -c unix_socket_directories=/tmp
"""


def need() -> None:
    """Skip the test where the node is not this machine, or has no PostgreSQL."""
    if os.environ.get("MUSTER_E2E_TIER") != "node":
        pytest.skip("PostgreSQL is that of this machine, which is a node in our own node tier alone")
    if not (_BIN / "postgres").exists():
        pytest.skip("there is no PostgreSQL server here: apt-get install postgresql")


@dataclass(frozen=True, slots=True)
class Database:
    """The database `postgres` of a server in the namespace of the Gateways.

    Attributes:
        ground: of the Gateways, in whose volume it has its folder.
    """

    ground: Ground

    def install(self) -> None:
        """Make it, and wait until it answers."""
        self.ground.space.apply(*_documents()).expect()
        self._wait()

    def kill(self) -> None:
        """Kill the server (SIGKILL), and wait until the kubelet has started it again in its pod."""
        before = self._pod()
        assert before is not None, "PostgreSQL does not answer"
        self.ground.kill(before, command="bin/postgres")
        waits.until("PostgreSQL to answer again", lambda: restarts(self._pod()) > restarts(before), PATIENCE)

    def remove(self) -> None:
        """Remove its pod, and wait until it is gone; the tables stay."""
        self._scale(0)
        waits.until("PostgreSQL to be gone", lambda: not self.ground.space.pods(_SELECTOR), 60)

    def bring(self) -> None:
        """Have a pod for the same tables, and wait until it answers."""
        self._scale(1)
        self._wait()

    def ask(self, question: str) -> list[str]:
        """Return the rows that a query gives, their values separated by `|`."""
        told = ("exec", "--namespace", self.ground.space.name, f"deployment/{_NAME}", "--")
        command = (f"{_BIN}/psql", "-h", "/tmp", "-U", "muster", "-d", "postgres", "-Atc", question)
        return self.ground.kubectl.run(*told, *command).expect().out.split()

    def _wait(self) -> None:
        waits.until("PostgreSQL to answer", self._pod, PATIENCE)

    def _pod(self) -> dict[str, Any] | None:
        ready = (each for each in self.ground.space.pods(_SELECTOR) if is_ready(each))
        return next((each for each in ready if "deletionTimestamp" not in each["metadata"]), None)

    def _scale(self, replicas: int) -> None:
        self.ground.space.patch("deployment", _NAME, {"spec": {"replicas": replicas}}).expect()


def _documents() -> list[dict[str, Any]]:
    url = {"url": f"postgresql://muster@{_NAME}/postgres", "password": _PASSWORD}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": url}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME},
        "spec": {"selector": _LABELS, "ports": [{"port": 5432}]},
    }
    # initdb asks what the user is called as whom it runs.
    accounts = kinds.config_map(_NAME, {"passwd": f"{_NAME}:x:{USER}:{USER}::/tmp:/bin/sh\n"})
    return [secret, service, accounts, _deployment()]


def _deployment() -> dict[str, Any]:
    container = {
        "name": _NAME,
        "image": IMAGES["gateway"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _SERVE],
        "ports": [{"containerPort": 5432}],
        "readinessProbe": {"exec": {"command": [f"{_BIN}/pg_isready", "-h", "127.0.0.1"]}, "periodSeconds": 1},
        "volumeMounts": [
            {"name": "programs", "mountPath": "/usr", "readOnly": True},
            {"name": "store", "mountPath": "/data", "subPath": FOLDER},
            {"name": "accounts", "mountPath": "/etc/passwd", "subPath": "passwd"},
            {"name": "journal", "mountPath": "/etc/journal"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        "terminationGracePeriodSeconds": 1,  # told to end, it would wait until all have left
        "enableServiceLinks": False,
        "securityContext": {"runAsUser": USER, "runAsGroup": USER},
        "containers": [container],
        "volumes": [
            {"name": "programs", "hostPath": {"path": "/usr", "type": "Directory"}},
            {"name": "store", "persistentVolumeClaim": {"claimName": CLAIM}},
            {"name": "accounts", "configMap": {"name": _NAME}},
            {"name": "journal", "secret": {"secretName": SECRET}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": _NAME}, "spec": spec}
