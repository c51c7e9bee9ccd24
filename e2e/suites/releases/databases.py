"""A PostgreSQL server in a pod: Debian's, of the node, because no image of one is built here."""

from __future__ import annotations

from typing import Any

from e2e.suites.sessions.gateways import is_ready
from e2e.suites.sessions.grounds import IMAGES, NODE_FOLDER
from e2e.suites.support import waits
from e2e.suites.support.spaces import Space

__all__ = ["SECRET", "Database"]

SECRET = "journal"  # the name of a Secret
"""The Secret with the URL of the journal."""
_NAME, _PORT = "postgres", 5432
_PATIENCE = 120
# A pod that is followed by another has its data in the same folder; whoever is killed leaves the file with its number.
_RUN = """
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
data={folder}/data
mkdir -p {folder} && chown 65534:65534 {folder}
user="setpriv --reuid=65534 --regid=65534 --clear-groups"
if [ ! -f $data/PG_VERSION ]; then
    $user $bin/initdb -D $data -U muster --no-sync -A trust -E UTF8 --locale=C > /dev/null
    echo 'host all all all trust' >> $data/pg_hba.conf
fi
rm -f $data/postmaster.pid
exec $user $bin/postgres -D $data -k {folder} -c listen_addresses='*' -c port={port}
"""


class Database:
    """One server in a namespace, whose data outlives its pod."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._folder = f"{NODE_FOLDER}/{space.name}/postgres"

    def install(self) -> None:
        """Have it, and the Secret that names it, and wait until it answers."""
        url = f"postgresql://muster@{_NAME}.{self._space.name}.svc:{_PORT}/postgres"
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": {"url": url}}
        for each in (secret, self._service(), self._deployment()):
            self._space.apply(each).expect()
        self.until_ready()

    def until_ready(self) -> dict[str, Any]:
        """Wait until a pod answers, and return it."""
        return waits.until("PostgreSQL to answer", self._ready, _PATIENCE)

    def kill(self) -> None:
        """Kill its pod, and wait until the next one answers."""
        before = self.until_ready()["metadata"]
        self._space.delete("pod", before["name"], grace=1).expect()
        waits.until("the next PostgreSQL", lambda: self._ready()["metadata"]["uid"] != before["uid"], _PATIENCE)

    def _ready(self) -> dict[str, Any]:
        pods = self._space.pods(f"app={_NAME}")
        found = [each for each in pods if is_ready(each) and "deletionTimestamp" not in each["metadata"]]
        assert found, [each["status"] for each in pods]
        return found[0]

    def _service(self) -> dict[str, Any]:
        spec = {"selector": {"app": _NAME}, "ports": [{"port": _PORT}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": _NAME}, "spec": spec}

    def _deployment(self) -> dict[str, Any]:
        container = {
            "name": _NAME,
            "image": IMAGES["gateway"],
            "imagePullPolicy": "IfNotPresent",
            "command": ["chroot", "/node", "sh", "-c", _RUN.format(folder=self._folder, port=_PORT)],
            "securityContext": {"privileged": True, "runAsUser": 0, "runAsGroup": 0},
            "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
            "volumeMounts": [{"name": "node", "mountPath": "/node"}],
        }
        volume = {"name": "node", "hostPath": {"path": "/"}}
        pod = {"metadata": {"labels": {"app": _NAME}}, "spec": {"containers": [container], "volumes": [volume]}}
        spec = {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": _NAME}},
            "template": pod,
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": _NAME}, "spec": spec}
